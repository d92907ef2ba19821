/* Blocks of LZ4, unpacked to exactly the given number of bytes.
 *
 * A block is a row of sequences: a byte whose upper half is the number of bytes that follow as they are, and whose lower half
 * is the length of a copy less 4 (15: more follows, bytes added up to the first that is not 255); those bytes; the distance
 * of the copy (2). The last sequence has no copy, and makes the last 5 bytes at least.
 */
#include "native.h"

enum { LAST = 5 };

/* Adds what follows a half of 15; the position after it, or -1 where the block ends inside. */
static Py_ssize_t add_more(const uint8_t *in, Py_ssize_t n, Py_ssize_t at, Py_ssize_t *length)
{
    unsigned more;
    do {
        if (at >= n)
            return -1;
        more = in[at++];
        *length += more;
    } while (more == 255);
    return at;
}

/* A copy; where there is room, a few bytes more than asked, which the next sequence overwrites. */
static inline void copy_back(uint8_t *to, Py_ssize_t distance, Py_ssize_t length, Py_ssize_t room)
{
    const uint8_t *from = to - distance;
    if (distance >= 16 && length <= 32 && room >= 32) {
        memcpy(to, from, 16);
        memcpy(to + 16, from + 16, 16);
    } else if (distance >= 8 && length <= 24 && room >= 24) {
        memcpy(to, from, 8);
        memcpy(to + 8, from + 8, 8);
        memcpy(to + 16, from + 16, 8);
    } else {
        repeat_bytes(to, distance, length);
    }
}

/* 0, or -1 when `in` does not unpack to exactly `room` bytes. */
static int unpack(const uint8_t *in, Py_ssize_t n, uint8_t *out, Py_ssize_t room)
{
    Py_ssize_t at = 0, done = 0;
    while (at < n) {
        unsigned token = in[at++];
        Py_ssize_t literals = token >> 4, copied = (token & 15) + 4;
        if (literals == 15 && (at = add_more(in, n, at, &literals)) < 0)
            return -1;
        if (literals > n - at || literals > room - done)
            return -1;
        if (literals <= 16 && n - at >= 16 && room - done >= 16)
            memcpy(out + done, in + at, 16);
        else
            memcpy(out + done, in + at, (size_t)literals);
        at += literals;
        done += literals;
        if (at == n)
            return done == room ? 0 : -1;
        if (n - at < 2)
            return -1;
        Py_ssize_t distance = load16(in + at);
        at += 2;
        if (copied == 19 && (at = add_more(in, n, at, &copied)) < 0)
            return -1;
        if (distance == 0 || distance > done || copied > room - done - LAST)
            return -1;
        copy_back(out + done, distance, copied, room - done);
        done += copied;
    }
    return -1;  /* nothing, or a copy at the end */
}

static PyObject *unpack_lz4(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    return unpack_into(arguments, unpack, "LZ4");
}

PyMethodDef lz4_functions[] = {
    {"unpack_lz4", unpack_lz4, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
