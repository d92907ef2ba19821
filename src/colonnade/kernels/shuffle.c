/* HDF5's shuffle filter (2): byte 0 of every item, then byte 1 of every item, and so on; then bytes that fill no item. */
#include "native.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { TILE = 4096 };  /* items handled together, so that all their planes stay in the nearest cache */

static void split(const uint8_t *in, uint8_t *out, Py_ssize_t from, Py_ssize_t to, Py_ssize_t n, Py_ssize_t size)
{
    for (Py_ssize_t plane = 0; plane < size; plane++) {
        uint8_t *line = out + plane * n;
        const uint8_t *byte = in + plane;
        for (Py_ssize_t i = from; i < to; i++)
            line[i] = byte[i * size];
    }
}

static void join(const uint8_t *in, uint8_t *out, Py_ssize_t from, Py_ssize_t to, Py_ssize_t n, Py_ssize_t size)
{
    for (Py_ssize_t plane = 0; plane < size; plane++) {
        const uint8_t *line = in + plane * n;
        uint8_t *byte = out + plane;
        for (Py_ssize_t i = from; i < to; i++)
            byte[i * size] = line[i];
    }
}

#if defined(__SSE2__)
#define READ(p) _mm_loadu_si128((const __m128i *)(p))
#define WRITE(p, v) _mm_storeu_si128((__m128i *)(p), v)

/* Each answers how many items it has done, 16 at a time. */
static Py_ssize_t join2(const uint8_t *in, uint8_t *out, Py_ssize_t n)
{
    Py_ssize_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = READ(in + i), b = READ(in + n + i);
        WRITE(out + 2 * i, _mm_unpacklo_epi8(a, b));
        WRITE(out + 2 * i + 16, _mm_unpackhi_epi8(a, b));
    }
    return i;
}

static Py_ssize_t join4(const uint8_t *in, uint8_t *out, Py_ssize_t n)
{
    Py_ssize_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = READ(in + i), b = READ(in + n + i), c = READ(in + 2 * n + i), d = READ(in + 3 * n + i);
        __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
        __m128i cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
        WRITE(out + 4 * i, _mm_unpacklo_epi16(ab0, cd0));
        WRITE(out + 4 * i + 16, _mm_unpackhi_epi16(ab0, cd0));
        WRITE(out + 4 * i + 32, _mm_unpacklo_epi16(ab1, cd1));
        WRITE(out + 4 * i + 48, _mm_unpackhi_epi16(ab1, cd1));
    }
    return i;
}

static Py_ssize_t join8(const uint8_t *in, uint8_t *out, Py_ssize_t n)
{
    Py_ssize_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i bytes[8], pairs[8], quads[8];
        for (int plane = 0; plane < 8; plane++)
            bytes[plane] = READ(in + plane * n + i);
        for (int k = 0; k < 4; k++) {  /* pairs[2k], [2k + 1]: planes 2k and 2k + 1 of items 0..7, 8..15 */
            pairs[2 * k] = _mm_unpacklo_epi8(bytes[2 * k], bytes[2 * k + 1]);
            pairs[2 * k + 1] = _mm_unpackhi_epi8(bytes[2 * k], bytes[2 * k + 1]);
        }
        for (int k = 0; k < 2; k++)  /* planes 4k .. 4k + 3 of items 0..3, 4..7, 8..11, 12..15 */
            for (int half = 0; half < 2; half++) {
                quads[4 * k + 2 * half] = _mm_unpacklo_epi16(pairs[4 * k + half], pairs[4 * k + 2 + half]);
                quads[4 * k + 2 * half + 1] = _mm_unpackhi_epi16(pairs[4 * k + half], pairs[4 * k + 2 + half]);
            }
        for (int quarter = 0; quarter < 4; quarter++) {
            WRITE(out + 8 * i + 32 * quarter, _mm_unpacklo_epi32(quads[quarter], quads[4 + quarter]));
            WRITE(out + 8 * i + 32 * quarter + 16, _mm_unpackhi_epi32(quads[quarter], quads[4 + quarter]));
        }
    }
    return i;
}

/* 16 items of 2 bytes to a plane of low bytes and one of high bytes. */
#define LOW_BYTES(a, b) _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low))
#define HIGH_BYTES(a, b) _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8))

static Py_ssize_t split2(const uint8_t *in, uint8_t *out, Py_ssize_t n)
{
    const __m128i low = _mm_set1_epi16(0xFF);
    Py_ssize_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = READ(in + 2 * i), b = READ(in + 2 * i + 16);
        WRITE(out + i, LOW_BYTES(a, b));
        WRITE(out + n + i, HIGH_BYTES(a, b));
    }
    return i;
}

static Py_ssize_t split4(const uint8_t *in, uint8_t *out, Py_ssize_t n)
{
    const __m128i low = _mm_set1_epi16(0xFF);
    Py_ssize_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = READ(in + 4 * i), b = READ(in + 4 * i + 16), c = READ(in + 4 * i + 32), d = READ(in + 4 * i + 48);
        __m128i even0 = LOW_BYTES(a, b), even1 = LOW_BYTES(c, d);  /* planes 0 and 2 in turns */
        __m128i odd0 = HIGH_BYTES(a, b), odd1 = HIGH_BYTES(c, d);
        WRITE(out + i, LOW_BYTES(even0, even1));
        WRITE(out + n + i, LOW_BYTES(odd0, odd1));
        WRITE(out + 2 * n + i, HIGH_BYTES(even0, even1));
        WRITE(out + 3 * n + i, HIGH_BYTES(odd0, odd1));
    }
    return i;
}

static Py_ssize_t split8(const uint8_t *in, uint8_t *out, Py_ssize_t n)
{
    const __m128i low = _mm_set1_epi16(0xFF);
    Py_ssize_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i whole[8], parity[2][4], quarter[4][2];
        for (int k = 0; k < 8; k++)
            whole[k] = READ(in + 8 * i + 16 * k);
        for (int k = 0; k < 4; k++) {
            parity[0][k] = LOW_BYTES(whole[2 * k], whole[2 * k + 1]);
            parity[1][k] = HIGH_BYTES(whole[2 * k], whole[2 * k + 1]);
        }
        for (int p = 0; p < 2; p++)
            for (int k = 0; k < 2; k++) {
                quarter[p][k] = LOW_BYTES(parity[p][2 * k], parity[p][2 * k + 1]);
                quarter[p + 2][k] = HIGH_BYTES(parity[p][2 * k], parity[p][2 * k + 1]);
            }
        for (int q = 0; q < 4; q++) {
            WRITE(out + q * n + i, LOW_BYTES(quarter[q][0], quarter[q][1]));
            WRITE(out + (q + 4) * n + i, HIGH_BYTES(quarter[q][0], quarter[q][1]));
        }
    }
    return i;
}

static Py_ssize_t split_fast(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size)
{
    return size == 2 ? split2(in, out, n) : size == 4 ? split4(in, out, n) : size == 8 ? split8(in, out, n) : 0;
}

static Py_ssize_t join_fast(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size)
{
    return size == 2 ? join2(in, out, n) : size == 4 ? join4(in, out, n) : size == 8 ? join8(in, out, n) : 0;
}
#else
static Py_ssize_t split_fast(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size)
{
    (void)in, (void)out, (void)n, (void)size;
    return 0;
}
#define join_fast split_fast
#endif

typedef void (*Move)(const uint8_t *, uint8_t *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t);

void move_planes(const uint8_t *in, uint8_t *out, Py_ssize_t n_bytes, Py_ssize_t size, int undo)
{
    Py_ssize_t n = n_bytes / size;
    if (size == 1) {
        memcpy(out, in, (size_t)n_bytes);
        return;
    }
    Py_ssize_t done = undo ? join_fast(in, out, n, size) : split_fast(in, out, n, size);
    Move move = undo ? join : split;
    for (Py_ssize_t from = done; from < n; from += TILE)
        move(in, out, from, n - from < TILE ? n : from + TILE, n, size);
    memcpy(out + n * size, in + n * size, (size_t)(n_bytes - n * size));
}

static PyObject *run(PyObject *arguments, int undo)
{
    PyObject *source, *target;
    Py_ssize_t size;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OOn", &source, &target, &size))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_bytes_out(target, &s[1], "out") < 0
        || apart(&s[0], &s[1]) < 0)
        return finish(s, 2, NULL);
    if (size < 1)
        return finish(s, 2, refuse("item_size is %zd, expected at least 1", size));
    if (s[0].n_bytes != s[1].n_bytes)
        return finish(s, 2, refuse("out has %zd bytes, expected %zd", s[1].n_bytes, s[0].n_bytes));
    Py_BEGIN_ALLOW_THREADS
    if (s[0].n_bytes)
        move_planes(s[0].bytes, s[1].bytes, s[0].n_bytes, size, undo);
    Py_END_ALLOW_THREADS
    return finish(s, 2, Py_NewRef(Py_None));
}

static PyObject *shuffle(PyObject *Py_UNUSED(module), PyObject *arguments) { return run(arguments, 0); }
static PyObject *unshuffle(PyObject *Py_UNUSED(module), PyObject *arguments) { return run(arguments, 1); }

PyMethodDef shuffle_functions[] = {
    {"shuffle", shuffle, METH_VARARGS, NULL},
    {"unshuffle", unshuffle, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
