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

static void split_block(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size)
{
    Py_ssize_t line = n / 8;
    for (Py_ssize_t b = 0; b < size; b++)
        for (Py_ssize_t g = 0; g < line; g++) {
            uint64_t m = 0;
            for (int j = 0; j < 8; j++)
                m |= (uint64_t)in[(8 * g + j) * size + b] << (8 * j);
            m = turn(m);
            for (int k = 0; k < 8; k++)
                out[(8 * b + k) * line + g] = (uint8_t)(m >> (8 * k));
        }
}

enum { PIECE = 64 };  /* groups of 8 items whose bytes are put together before they go to their items */

/* Byte b of 8 * groups items from group `first` on, in their order. */
static void join_plane(const uint8_t *in, Py_ssize_t b, Py_ssize_t line, Py_ssize_t first, Py_ssize_t groups, uint8_t *plane)
{
    Py_ssize_t g = 0;
#if defined(__SSE2__)
    for (; g + 16 <= groups; g += 16) {  /* 16 groups: 8 lines of 16 bytes turned into 128 bytes */
        __m128i r[8], s[8];
        for (int k = 0; k < 8; k++)
            r[k] = _mm_loadu_si128((const __m128i *)(in + (8 * b + k) * line + first + g));
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
        for (int v = 0; v < 8; v++) {  /* two matrices of 8 by 8 bits in each */
            __m128i m = s[v], t;
            t = _mm_and_si128(_mm_xor_si128(m, _mm_srli_epi64(m, 7)), _mm_set1_epi64x(0x00AA00AA00AA00AAll));
            m = _mm_xor_si128(m, _mm_xor_si128(t, _mm_slli_epi64(t, 7)));
            t = _mm_and_si128(_mm_xor_si128(m, _mm_srli_epi64(m, 14)), _mm_set1_epi64x(0x0000CCCC0000CCCCll));
            m = _mm_xor_si128(m, _mm_xor_si128(t, _mm_slli_epi64(t, 14)));
            t = _mm_and_si128(_mm_xor_si128(m, _mm_srli_epi64(m, 28)), _mm_set1_epi64x(0x00000000F0F0F0F0ll));
            m = _mm_xor_si128(m, _mm_xor_si128(t, _mm_slli_epi64(t, 28)));
            _mm_storeu_si128((__m128i *)(plane + 8 * g + 16 * v), m);
        }
    }
#endif
    for (; g < groups; g++) {
        uint64_t m = 0;
        for (int k = 0; k < 8; k++)
            m |= (uint64_t)in[(8 * b + k) * line + first + g] << (8 * k);
        store64(plane + 8 * g, turn(m));
    }
}

static void join_block(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size)
{
    Py_ssize_t line = n / 8;
    uint8_t plane[8 * PIECE];
    for (Py_ssize_t first = 0; first < line; first += PIECE) {
        Py_ssize_t groups = line - first < PIECE ? line - first : PIECE;
        for (Py_ssize_t b = 0; b < size; b++) {
            uint8_t *byte = out + 8 * first * size + b;
            join_plane(in, b, line, first, groups, plane);
            for (Py_ssize_t i = 0; i < 8 * groups; i++)
                byte[i * size] = plane[i];
        }
    }
}

static void turn_all(const uint8_t *in, uint8_t *out, Py_ssize_t n, Py_ssize_t size, Py_ssize_t block, int undo)
{
    Py_ssize_t i = 0;
    while (n - i >= 8) {
        Py_ssize_t some = n - i < block ? (n - i) / 8 * 8 : block;
        (undo ? join_block : split_block)(in + i * size, out + i * size, some, size);
        i += some;
    }
    memcpy(out + i * size, in + i * size, (size_t)((n - i) * size));
}

static PyObject *run(PyObject *arguments, int undo)
{
    PyObject *source, *target;
    Py_ssize_t size, block;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OOnn", &source, &target, &size, &block))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_bytes_out(target, &s[1], "out") < 0)
        return finish(s, 2, NULL);
    if (size < 1 || s[0].n_bytes % size)
        return finish(s, 2, refuse("source has %zd bytes, no whole number of items of %zd", s[0].n_bytes, size));
    if (block < 8 || block % 8)
        return finish(s, 2, refuse("block_items is %zd, expected a multiple of 8", block));
    if (s[0].n_bytes != s[1].n_bytes)
        return finish(s, 2, refuse("out has %zd bytes, expected %zd", s[1].n_bytes, s[0].n_bytes));
    Py_BEGIN_ALLOW_THREADS
    if (s[0].n_bytes)
        turn_all(s[0].bytes, s[1].bytes, s[0].n_bytes / size, size, block, undo);
    Py_END_ALLOW_THREADS
    return finish(s, 2, Py_NewRef(Py_None));
}

static PyObject *bit_shuffle(PyObject *Py_UNUSED(module), PyObject *arguments) { return run(arguments, 0); }
static PyObject *bit_unshuffle(PyObject *Py_UNUSED(module), PyObject *arguments) { return run(arguments, 1); }

PyMethodDef bitshuffle_functions[] = {
    {"bit_shuffle", bit_shuffle, METH_VARARGS, NULL},
    {"bit_unshuffle", bit_unshuffle, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
