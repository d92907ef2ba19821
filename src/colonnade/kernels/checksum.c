/* HDF5's Fletcher-32: sums over big-endian 16-bit words, an odd last byte as the high one. */
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

PyMethodDef checksum_functions[] = {
    {"fletcher32", fletcher32, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
