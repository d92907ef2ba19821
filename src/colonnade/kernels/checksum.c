/* HDF5's checksums. Fletcher-32, of data: sums over big-endian 16-bit words, an odd last byte as the high one.
 * Lookup3, of metadata: three words of 32 bits, mixed for each 12 bytes (Bob Jenkins, public domain). */
#include "native.h"

enum { LANES = 32, GROUPS = 256 };  /* lanes of 32 bits overflow after 360 groups */

static uint64_t fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    return sum;
}

/* The sums of GROUPS groups of words: of all, and of each times how many words come with or after it.
 * Words are read in this machine's order: swapping the bytes of all words swaps those of their sums modulo 65535. */
WIDE static void add_groups(const uint8_t *bytes, int groups, uint64_t *plain, uint64_t *weighted)
{
    uint32_t once[LANES] = {0}, often[LANES] = {0};
    for (int g = 0; g < groups; g++) {
        uint16_t words[LANES];
        memcpy(words, bytes + (size_t)g * sizeof words, sizeof words);
        for (int j = 0; j < LANES; j++) {
            once[j] += words[j];
            often[j] += once[j];
        }
    }
    for (unsigned j = 0; j < LANES; j++) {
        *plain += once[j];
        *weighted += (uint64_t)often[j] * LANES - (uint64_t)once[j] * j;
    }
}

static uint32_t fletcher(const uint8_t *bytes, Py_ssize_t n_bytes)
{
    uint64_t first = 0, second = 0;
    Py_ssize_t n = n_bytes / 2, i = 0;
    while (n - i >= LANES) {
        Py_ssize_t groups = (n - i) / LANES < GROUPS ? (n - i) / LANES : GROUPS;
        uint64_t plain = 0, weighted = 0;
        add_groups(bytes + 2 * i, (int)groups, &plain, &weighted);
        second = fold(second + first * (uint64_t)(groups * LANES) + weighted);
        first = fold(first + plain);
        i += groups * LANES;
    }
    for (; i < n; i++) {
        first += load16(bytes + 2 * i);
        second += first;
    }
    if (n_bytes % 2) {
        first += bytes[n_bytes - 1];
        second += first;
    }
    return (uint32_t)swap16((uint16_t)fold(second)) << 16 | swap16((uint16_t)fold(first));
}

static PyObject *fletcher32(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source;
    Span s = {0};
    uint32_t sum = 0;
    if (!PyArg_ParseTuple(arguments, "O", &source))
        return NULL;
    if (open_bytes(source, &s, "source") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sum = fletcher(s.bytes, s.n_bytes);
    Py_END_ALLOW_THREADS
    return finish(&s, 1, PyLong_FromUnsignedLong(sum));
}

static uint32_t turn(uint32_t word, int bits)
{
    return word << bits | word >> (32 - bits);
}

/* 12 bytes, the first of them the lowest of the first word. */
static void add_words(const uint8_t *bytes, uint32_t *w)
{
    for (int i = 0; i < 3; i++)
        w[i] += (uint32_t)bytes[4 * i] | (uint32_t)bytes[4 * i + 1] << 8 | (uint32_t)bytes[4 * i + 2] << 16
                | (uint32_t)bytes[4 * i + 3] << 24;
}

static uint32_t jenkins(const uint8_t *bytes, Py_ssize_t n_bytes)
{
    uint32_t start = 0xDEADBEEFu + (uint32_t)n_bytes;
    uint32_t w[3] = {start, start, start};
    uint8_t rest[12] = {0};
    for (; n_bytes > 12; bytes += 12, n_bytes -= 12) {
        static const int turns[6] = {4, 6, 8, 16, 19, 4};
        add_words(bytes, w);
        for (int i = 0; i < 6; i++) {
            uint32_t *to = &w[i % 3], *by = &w[(i + 2) % 3];
            *to = (*to - *by) ^ turn(*by, turns[i]);
            *by += w[(i + 1) % 3];
        }
    }
    if (n_bytes == 0)
        return w[2];
    memcpy(rest, bytes, (size_t)n_bytes);
    add_words(rest, w);
    static const int last[7] = {14, 11, 25, 16, 4, 14, 24};
    for (int i = 0; i < 7; i++) {
        uint32_t *to = &w[(i + 2) % 3], by = w[(i + 1) % 3];
        *to = (*to ^ by) - turn(by, last[i]);
    }
    return w[2];
}

static PyObject *lookup3(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source;
    Span s = {0};
    uint32_t sum = 0;
    if (!PyArg_ParseTuple(arguments, "O", &source))
        return NULL;
    if (open_bytes(source, &s, "source") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sum = jenkins(s.bytes, s.n_bytes);
    Py_END_ALLOW_THREADS
    return finish(&s, 1, PyLong_FromUnsignedLong(sum));
}

PyMethodDef checksum_functions[] = {
    {"fletcher32", fletcher32, METH_VARARGS, NULL},
    {"lookup3", lookup3, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
