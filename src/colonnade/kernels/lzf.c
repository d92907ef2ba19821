/* Bytes packed by LZF, the filter that h5py calls "lzf".
 *
 * A stream is a sequence of runs. The first byte of a run is its type:
 *   below 32: that many bytes and one more follow as they are;
 *   else a copy of what was made before. Upper 3 bits: length less 2 (7: one more byte follows, and is added). Lower 5 bits
 *   and the byte after the length: distance less 1.
 */
#include "native.h"

enum { LITERALS = 32, MORE = 7 };

/* 0, or -1 when `in` does not unpack to exactly `room` bytes. */
static int unpack(const uint8_t *in, Py_ssize_t n, uint8_t *out, Py_ssize_t room)
{
    Py_ssize_t at = 0, done = 0;
    while (at < n) {
        unsigned first = in[at++];
        Py_ssize_t length;
        if (first < LITERALS) {
            length = (Py_ssize_t)first + 1;
            if (length > n - at || length > room - done)
                return -1;
            memcpy(out + done, in + at, (size_t)length);
            at += length;
        } else {
            length = (Py_ssize_t)(first >> 5) + 2;
            if (n - at < 1 + (first >> 5 == MORE))
                return -1;
            if (first >> 5 == MORE)
                length += in[at++];
            Py_ssize_t distance = ((Py_ssize_t)(first & 31) << 8 | in[at++]) + 1;
            if (distance > done || length > room - done)
                return -1;
            repeat_bytes(out + done, distance, length);
        }
        done += length;
    }
    return done == room ? 0 : -1;
}

static PyObject *unpack_lzf(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    return unpack_into(arguments, unpack, "LZF");
}

PyMethodDef lzf_functions[] = {
    {"unpack_lzf", unpack_lzf, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
