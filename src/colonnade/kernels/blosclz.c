/* Bytes packed by BloscLZ, the codec of Blosc's own.
 *
 * A stream is a sequence of runs. The first byte of a run is its type (of the first, the lower 5 bits count):
 *   below 32: that many bytes and one more follow as they are;
 *   else a copy of what was made before. Upper 3 bits: length, from 3 on (the highest: more follows, bytes added up to the
 *   first that is not 255). Lower 5 bits and the byte after the length: distance less 1, where all ones mean a far
 *   one: 2 bytes, high one first, and 8192 are the distance.
 * A stream does not end with a copy.
 */
#include "native.h"

enum { LITERALS = 32, MORE = 7, NEAREST_FAR = 8192, NO_DISTANCE = 31 << 8 | 255 };

/* Length and distance of a copy, the position in `in` after it; -1 where the stream ends inside. */
static Py_ssize_t read_copy(const uint8_t *in, Py_ssize_t n, Py_ssize_t at, unsigned first, Py_ssize_t *length,
                            Py_ssize_t *distance)
{
    Py_ssize_t many = (Py_ssize_t)(first >> 5) + 2;
    if (first >> 5 == MORE) {
        unsigned more;
        do {
            if (at >= n)
                return -1;
            more = in[at++];
            many += more;
        } while (more == 255);
    }
    if (at >= n)
        return -1;
    Py_ssize_t away = (Py_ssize_t)(first & 31) << 8 | in[at++];
    if (away == NO_DISTANCE) {
        if (n - at < 2)
            return -1;
        away = ((Py_ssize_t)in[at] << 8 | in[at + 1]) + NEAREST_FAR - 1;
        at += 2;
    }
    *length = many;
    *distance = away + 1;
    return at;
}

/* 0, or -1 when `in` does not unpack to exactly `room` bytes. */
static int unpack(const uint8_t *in, Py_ssize_t n, uint8_t *out, Py_ssize_t room)
{
    Py_ssize_t at = 0, done = 0;
    while (at < n) {
        unsigned first = at ? in[at] : in[at] & 31;
        at++;
        Py_ssize_t length, distance;
        if (first < LITERALS) {
            length = (Py_ssize_t)first + 1;
            if (length > n - at || length > room - done)
                return -1;
            memcpy(out + done, in + at, (size_t)length);
            at += length;
        } else {
            at = read_copy(in, n, at, first, &length, &distance);
            if (at < 0 || at >= n || distance > done || length > room - done)
                return -1;
            repeat_bytes(out + done, distance, length);
        }
        done += length;
    }
    return done == room ? 0 : -1;
}

static PyObject *unpack_blosclz(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    return unpack_into(arguments, unpack, "BloscLZ");
}

PyMethodDef blosclz_functions[] = {
    {"unpack_blosclz", unpack_blosclz, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
