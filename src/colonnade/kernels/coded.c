/* Codes to the strings they stand for, as Arrow's offsets and data.
 *
 * `known` are the offsets of the strings that there are, `codes` name one for each row. Missing rows are empty, and
 * their codes are not looked at. A code that names no string, or offsets that leave the data, stop the loop.
 */
#include "native.h"

#define CODED_LOOPS(T, NAME)                                                                                   \
    /* The place of the first wrong code, or -1; -2 where the bytes are too many for 32 bits. */              \
    static Py_ssize_t offsets_##NAME(const int32_t *known, Py_ssize_t n_known, const T *codes, Py_ssize_t n,   \
                                     const uint8_t *missing, int32_t *offsets)                                 \
    {                                                                                                          \
        int64_t at = 0;                                                                                        \
        offsets[0] = 0;                                                                                        \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                   \
            if (!(missing && missing[i])) {                                                                    \
                uint64_t code = (uint64_t)codes[i];                                                            \
                if (UNLIKELY(code >= (uint64_t)n_known))                                                       \
                    return i;                                                                                  \
                int64_t length = (int64_t)known[code + 1] - known[code];                                       \
                if (UNLIKELY(length < 0))                                                                      \
                    return i;                                                                                  \
                at += length;                                                                                  \
                if (UNLIKELY(at > INT32_MAX))                                                                  \
                    return -2;                                                                                 \
            }                                                                                                  \
            offsets[i + 1] = (int32_t)at;                                                                      \
        }                                                                                                      \
        return -1;                                                                                             \
    }                                                                                                          \
                                                                                                               \
    /* The place of the first wrong code or offset, or -1. */                                                 \
    static Py_ssize_t data_##NAME(const int32_t *known, Py_ssize_t n_known, const uint8_t *strings,            \
                                  int64_t n_strings, const T *codes, Py_ssize_t n, const uint8_t *missing,     \
                                  const int32_t *offsets, uint8_t *out, int64_t n_out)                         \
    {                                                                                                          \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                   \
            if (missing && missing[i])                                                                         \
                continue;                                                                                      \
            uint64_t code = (uint64_t)codes[i];                                                                \
            if (UNLIKELY(code >= (uint64_t)n_known))                                                           \
                return i;                                                                                      \
            int64_t from = known[code], length = known[code + 1] - from, to = offsets[i];                      \
            if (UNLIKELY(from < 0 || length < 0 || from + length > n_strings || to < 0 || to + length > n_out)) \
                return i;                                                                                      \
            /* short ones 16 bytes at a time, where both sides have room: the next row writes over the rest */ \
            if (length <= 32 && from + 32 <= n_strings && to + 32 <= n_out) {                                  \
                memcpy(out + to, strings + from, 16);                                                          \
                if (length > 16)                                                                               \
                    memcpy(out + to + 16, strings + from + 16, 16);                                            \
            }                                                                                                  \
            else                                                                                               \
                memcpy(out + to, strings + from, (size_t)length);                                              \
        }                                                                                                      \
        return -1;                                                                                             \
    }
CODED_LOOPS(int8_t, i8)
CODED_LOOPS(int16_t, i16)
CODED_LOOPS(int32_t, i32)
CODED_LOOPS(int64_t, i64)
CODED_LOOPS(uint8_t, u8)
CODED_LOOPS(uint16_t, u16)
CODED_LOOPS(uint32_t, u32)
CODED_LOOPS(uint64_t, u64)

#define FOR_EACH_KIND(DO) DO(I8, i8, int8_t) DO(I16, i16, int16_t) DO(I32, i32, int32_t) DO(I64, i64, int64_t) \
    DO(U8, u8, uint8_t) DO(U16, u16, uint16_t) DO(U32, u32, uint32_t) DO(U64, u64, uint64_t)

/* known, codes, missing into s[0..2]; 0, or -1 with an exception set. */
static int open_coded(PyObject *known, PyObject *codes, PyObject *missing, Span *s)
{
    if (open_kind(known, &s[0], "known", I32) < 0 || open_values(codes, &s[1], "codes") < 0)
        return -1;
    if (is_float(s[1].kind)) {
        refuse("codes must hold integers");
        return -1;
    }
    if (s[0].count < 1) {
        refuse("known is empty, expected one more than strings");
        return -1;
    }
    return open_optional_mask(missing, &s[2], "missing", s[1].count);
}

static PyObject *code_offsets(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *known, *codes, *missing, *offsets;
    Span s[4] = {0};
    Py_ssize_t wrong = 0;
    if (!PyArg_ParseTuple(arguments, "OOOO", &known, &codes, &missing, &offsets))
        return NULL;
    if (open_coded(known, codes, missing, s) < 0 || open_kind_out(offsets, &s[3], "offsets", I32) < 0)
        return finish(s, 4, NULL);
    if (s[3].count != s[1].count + 1)
        return finish(s, 4, refuse("offsets has %zd items, expected %zd", s[3].count, s[1].count + 1));
    Py_BEGIN_ALLOW_THREADS
    switch (s[1].kind) {
#define OFFSETS_OF(KIND, NAME, T)                                                                              \
    case KIND:                                                                                                 \
        wrong = offsets_##NAME((const int32_t *)s[0].bytes, s[0].count - 1, (const T *)s[1].bytes, s[1].count, \
                               s[2].bytes, (int32_t *)s[3].bytes);                                             \
        break;
    FOR_EACH_KIND(OFFSETS_OF)
    default: break;
    }
    Py_END_ALLOW_THREADS
    if (wrong == -2)
        return finish(s, 4, refuse("the strings have more bytes than offsets of 32 bits can count"));
    if (wrong >= 0)
        return finish(s, 4, refuse("the code at place %zd names no string", wrong));
    return finish(s, 4, Py_NewRef(Py_None));
}

static PyObject *code_data(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *known, *strings, *codes, *missing, *offsets, *out;
    Span s[6] = {0};
    Py_ssize_t wrong = 0;
    if (!PyArg_ParseTuple(arguments, "OOOOOO", &known, &strings, &codes, &missing, &offsets, &out))
        return NULL;
    if (open_coded(known, codes, missing, s) < 0 || open_bytes(strings, &s[3], "strings") < 0
        || open_kind(offsets, &s[4], "offsets", I32) < 0 || open_bytes_out(out, &s[5], "out") < 0
        || apart(&s[3], &s[5]) < 0)
        return finish(s, 6, NULL);
    if (s[4].count != s[1].count + 1)
        return finish(s, 6, refuse("offsets has %zd items, expected %zd", s[4].count, s[1].count + 1));
    Py_BEGIN_ALLOW_THREADS
    switch (s[1].kind) {
#define DATA_OF(KIND, NAME, T)                                                                                 \
    case KIND:                                                                                                 \
        wrong = data_##NAME((const int32_t *)s[0].bytes, s[0].count - 1, s[3].bytes, s[3].n_bytes,             \
                            (const T *)s[1].bytes, s[1].count, s[2].bytes, (const int32_t *)s[4].bytes,        \
                            s[5].bytes, s[5].n_bytes);                                                         \
        break;
    FOR_EACH_KIND(DATA_OF)
    default: break;
    }
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 6, refuse("the string at place %zd does not lie in the data", wrong));
    return finish(s, 6, Py_NewRef(Py_None));
}

PyMethodDef coded_functions[] = {
    {"code_offsets", code_offsets, METH_VARARGS, NULL},
    {"code_data", code_data, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
