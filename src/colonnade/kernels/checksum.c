/* HDF5's Fletcher-32: sums over big-endian 16-bit words, an odd last byte as the high one. */
#include "native.h"

enum { GROUP = 16, BLOCK = 1 << 16 };  /* words summed together; words between two foldings */

static uint64_t fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    return sum;
}

/* Sums of one group of words: all of them, and each times how many words of the group come with or after it. */
static inline void add_group(const uint8_t *bytes, uint32_t *plain, uint32_t *weighted)
{
    uint32_t p = 0, w = 0;
    for (int i = 0; i < GROUP; i++) {
        uint32_t word = (uint32_t)bytes[2 * i] << 8 | bytes[2 * i + 1];
        p += word;
        w += word * (uint32_t)(GROUP - i);
    }
    *plain = p;
    *weighted = w;
}

WIDE static uint32_t fletcher(const uint8_t *bytes, Py_ssize_t n_bytes)
{
    uint64_t first = 0, second = 0;
    Py_ssize_t n = n_bytes / 2, i = 0;
    while (i < n) {
        Py_ssize_t end = n - i < BLOCK ? n : i + BLOCK;
        for (; i + GROUP <= end; i += GROUP) {
            uint32_t plain, weighted;
            add_group(bytes + 2 * i, &plain, &weighted);
            second += GROUP * first + weighted;
            first += plain;
        }
        for (; i < end; i++) {
            first += (uint64_t)bytes[2 * i] << 8 | bytes[2 * i + 1];
            second += first;
        }
        first = fold(first);
        second = fold(second);
    }
    if (n_bytes % 2) {
        first = fold(first + ((uint64_t)bytes[n_bytes - 1] << 8));
        second = fold(second + first);
    }
    return (uint32_t)(second << 16 | first);
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

PyMethodDef checksum_functions[] = {
    {"fletcher32", fletcher32, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
