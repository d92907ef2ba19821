/* The bit transposition of the bitshuffle filter: bit k of byte b of every item of a block lie together.
 *
 * In a block of n items (a multiple of 8) of `size` bytes, bit i % 8 of byte (8 * b + k) * n / 8 + i / 8 is bit k of byte b of
 * item i. Items are taken in blocks; what is left is one more block of a multiple of 8; up to 7 items more are copied.
 */
#include "native.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* An 8 by 8 matrix of bits, turned: bit j of byte i to bit i of byte j. */
static inline uint64_t turn(uint64_t m)
{
    uint64_t t = (m ^ m >> 7) & 0x00AA00AA00AA00AAull;
    m ^= t ^ t << 7;
    t = (m ^ m >> 14) & 0x0000CCCC0000CCCCull;
    m ^= t ^ t << 14;
    t = (m ^ m >> 28) & 0x00000000F0F0F0F0ull;
    return m ^ t ^ t << 28;
}

enum { PIECE = 64, WIDEST = 16 };  /* groups of 8 items turned together; bytes of an item that go through planes */

/* -- one plane: byte b of 8 * groups items -- */

#if defined(__SSE2__)
#define TURN_STEP(m, by, mask)                                                                                    \
    do {                                                                                                          \
        __m128i t_ = _mm_and_si128(_mm_xor_si128(m, _mm_srli_epi64(m, by)), _mm_set1_epi64x(mask));               \
        (m) = _mm_xor_si128(m, _mm_xor_si128(t_, _mm_slli_epi64(t_, by)));                                        \
    } while (0)

/* 16 groups: 8 lines of 16 bytes to 128 bytes, each 8 of which are one group. */
static inline void join_16(const uint8_t *in, Py_ssize_t line, uint8_t *plane)
{
    __m128i r[8], s[8];
    for (int k = 0; k < 8; k++)
        r[k] = _mm_loadu_si128((const __m128i *)(in + k * line));
    for (int k = 0; k < 4; k++) {
        s[2 * k] = _mm_unpacklo_epi8(r[2 * k], r[2 * k + 1]);
        s[2 * k + 1] = _mm_unpackhi_epi8(r[2 * k], r[2 * k + 1]);
    }
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 2; k++) {
            r[4 * h + 2 * k] = _mm_unpacklo_epi16(s[4 * k + h], s[4 * k + 2 + h]);
            r[4 * h + 2 * k + 1] = _mm_unpackhi_epi16(s[4 * k + h], s[4 * k + 2 + h]);
        }
    for (int h = 0; h < 2; h++)
        for (int q = 0; q < 2; q++) {
            s[4 * h + 2 * q] = _mm_unpacklo_epi32(r[4 * h + q], r[4 * h + 2 + q]);
            s[4 * h + 2 * q + 1] = _mm_unpackhi_epi32(r[4 * h + q], r[4 * h + 2 + q]);
        }
    for (int v = 0; v < 8; v++) {
        TURN_STEP(s[v], 7, 0x00AA00AA00AA00AAll);
        TURN_STEP(s[v], 14, 0x0000CCCC0000CCCCll);
        TURN_STEP(s[v], 28, 0x00000000F0F0F0F0ll);
        _mm_storeu_si128((__m128i *)(plane + 16 * v), s[v]);
    }
}
#endif

static void join_plane(const uint8_t *in, Py_ssize_t groups, uint8_t *plane, Py_ssize_t line)
{
    Py_ssize_t g = 0;
#if defined(__SSE2__)
    for (; g + 16 <= groups; g += 16)
        join_16(in + g, line, plane + 8 * g);
#endif
    for (; g < groups; g++) {
        uint64_t m = 0;
        for (int k = 0; k < 8; k++)
            m |= (uint64_t)in[k * line + g] << (8 * k);
        store64(plane + 8 * g, turn(m));
    }
}

/* -- blocks -- */

/* Items of few bytes: a piece of all planes at a time. */
static void turn_narrow(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size)
{
    uint8_t planes[8 * PIECE * WIDEST];
    Py_ssize_t line = n / 8;
    for (Py_ssize_t first = 0; first < line; first += PIECE) {
        Py_ssize_t groups = line - first < PIECE ? line - first : PIECE, items = 8 * groups;
        for (Py_ssize_t b = 0; b < size; b++)
            join_plane(in + 8 * b * line + first, groups, planes + b * items, line);
        move_planes(planes, out + 8 * first * size, items * size, size, 1);
    }
}

/* Items of many bytes: one plane at a time, its bytes put to their items. */
static void turn_wide(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size)
{
    uint8_t plane[8 * PIECE];
    Py_ssize_t line = n / 8;
    for (Py_ssize_t first = 0; first < line; first += PIECE) {
        Py_ssize_t groups = line - first < PIECE ? line - first : PIECE, items = 8 * groups, at = 8 * first * size;
        for (Py_ssize_t b = 0; b < size; b++) {
            join_plane(in + 8 * b * line + first, groups, plane, line);
            for (Py_ssize_t i = 0; i < items; i++)
                out[at + i * size + b] = plane[i];
        }
    }
}

static void turn_all(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size, Py_ssize_t block)
{
    Py_ssize_t i = 0;
    while (n - i >= 8) {
        Py_ssize_t some = n - i < block ? (n - i) / 8 * 8 : block;
        (size <= WIDEST ? turn_narrow : turn_wide)(in + i * size, out + i * size, some, size);
        i += some;
    }
    memcpy(out + i * size, in + i * size, (size_t)((n - i) * size));
}

static PyObject *bit_unshuffle(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *target;
    Py_ssize_t size, block;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OOnn", &source, &target, &size, &block))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_bytes_out(target, &s[1], "out") < 0
        || apart(&s[0], &s[1]) < 0)
        return finish(s, 2, NULL);
    if (size < 1 || s[0].n_bytes % size)
        return finish(s, 2, refuse("source has %zd bytes, not a multiple of %zd", s[0].n_bytes, size));
    if (block < 8 || block % 8)
        return finish(s, 2, refuse("block_items is %zd, expected a multiple of 8", block));
    if (s[0].n_bytes != s[1].n_bytes)
        return finish(s, 2, refuse("out has %zd bytes, expected %zd", s[1].n_bytes, s[0].n_bytes));
    Py_BEGIN_ALLOW_THREADS
    if (s[0].n_bytes)
        turn_all(s[0].bytes, s[1].bytes, s[0].n_bytes / size, size, block);
    Py_END_ALLOW_THREADS
    return finish(s, 2, Py_NewRef(Py_None));
}

PyMethodDef bitshuffle_functions[] = {
    {"bit_unshuffle", bit_unshuffle, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
