/* How many bytes an LZ4 block unpacks to, without unpacking it.
 *
 * A block is a row of sequences: a byte whose upper half is the number of bytes that follow as they are, and whose lower half
 * is the length of a copy less 4 (15: more follows, bytes added up to the first that is not 255); those bytes; the distance
 * of the copy (2). The last sequence has no copy.
 */
#include "native.h"

/* Adds what follows a half of 15; the place behind it, or -1 where the block ends inside. */
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

/* -1 when it is no block. */
static Py_ssize_t measure(const uint8_t *in, Py_ssize_t n)
{
    Py_ssize_t at = 0, size = 0;
    while (at < n) {
        unsigned token = in[at++];
        Py_ssize_t literals = token >> 4, copied = (token & 15) + 4;
        if (literals == 15 && (at = add_more(in, n, at, &literals)) < 0)
            return -1;
        if (literals > n - at)
            return -1;
        at += literals;
        size += literals;
        if (at == n)
            return size;
        if (n - at < 2)
            return -1;
        at += 2;
        if (copied == 19 && (at = add_more(in, n, at, &copied)) < 0)
            return -1;
        size += copied;
    }
    return -1;  /* nothing, or a copy at the end */
}

static PyObject *lz4_size(PyObject *Py_UNUSED(module), PyObject *source)
{
    Span s[1] = {0};
    Py_ssize_t size;
    if (open_bytes(source, &s[0], "source") < 0)
        return finish(s, 1, NULL);
    Py_BEGIN_ALLOW_THREADS
    size = measure(s[0].bytes, s[0].n_bytes);
    Py_END_ALLOW_THREADS
    return finish(s, 1, size < 0 ? refuse("source is no block of LZ4") : PyLong_FromSsize_t(size));
}

PyMethodDef lz4_functions[] = {
    {"lz4_size", lz4_size, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
