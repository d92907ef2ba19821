/* Items of a fixed size, gathered by row number. */
#include "native.h"

#define TAKE_LOOP(T)                                                                                           \
    static Py_ssize_t take_##T(const uint8_t *in, uint64_t n, const int64_t *rows, Py_ssize_t n_rows, uint8_t *out) \
    {                                                                                                          \
        for (Py_ssize_t i = 0; i < n_rows; i++) {                                                              \
            uint64_t row = (uint64_t)rows[i];                                                                  \
            if (UNLIKELY(row >= n))                                                                            \
                return i;                                                                                      \
            memcpy(out + i * (Py_ssize_t)sizeof(T), in + row * sizeof(T), sizeof(T));                          \
        }                                                                                                      \
        return -1;                                                                                             \
    }
typedef struct { uint64_t half[2]; } Wide;
TAKE_LOOP(uint8_t)
TAKE_LOOP(uint16_t)
TAKE_LOOP(uint32_t)
TAKE_LOOP(uint64_t)
TAKE_LOOP(Wide)

static Py_ssize_t take_any(const uint8_t *in, uint64_t n, const int64_t *rows, Py_ssize_t n_rows, uint8_t *out,
                           size_t size)
{
    for (Py_ssize_t i = 0; i < n_rows; i++) {
        uint64_t row = (uint64_t)rows[i];
        if (UNLIKELY(row >= n))
            return i;
        memcpy(out + (size_t)i * size, in + row * size, size);
    }
    return -1;
}

Py_ssize_t take_items(const uint8_t *in, uint64_t n, const int64_t *rows, Py_ssize_t n_rows, uint8_t *out, Py_ssize_t size)
{
    switch (size) {
    case 1: return take_uint8_t(in, n, rows, n_rows, out);
    case 2: return take_uint16_t(in, n, rows, n_rows, out);
    case 4: return take_uint32_t(in, n, rows, n_rows, out);
    case 8: return take_uint64_t(in, n, rows, n_rows, out);
    case 16: return take_Wide(in, n, rows, n_rows, out);
    default: return take_any(in, n, rows, n_rows, out, (size_t)size);
    }
}

static PyObject *take(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *rows, *out;
    Py_ssize_t size, wrong;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OnOO", &source, &size, &rows, &out))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_kind(rows, &s[1], "rows", I64) < 0
        || open_bytes_out(out, &s[2], "out") < 0)
        return finish(s, 3, NULL);
    if (size < 1)
        return finish(s, 3, refuse("item_size is %zd, expected at least 1", size));
    if (s[0].n_bytes % size)
        return finish(s, 3, refuse("source has %zd bytes, not a multiple of %zd", s[0].n_bytes, size));
    if (product(s[1].count, size) != s[2].n_bytes)
        return finish(s, 3, refuse("out has %zd bytes, expected %zd items of %zd", s[2].n_bytes, s[1].count, size));
    Py_ssize_t n = s[0].n_bytes / size;
    Py_BEGIN_ALLOW_THREADS
    wrong = take_items(s[0].bytes, (uint64_t)n, (const int64_t *)s[1].bytes, s[1].count, s[2].bytes, size);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 3, refuse("rows names a row at place %zd that is not among the %zd", wrong, n));
    return finish(s, 3, Py_NewRef(Py_None));
}

PyMethodDef take_functions[] = {
    {"take", take, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
