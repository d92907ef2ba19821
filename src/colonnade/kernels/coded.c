/* Codes to the strings they stand for, as Arrow's offsets and data, and back.
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

/* -- strings to codes -- */

static uint64_t mixed(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 32;
}

/* All bytes of less than 8, some of them twice. */
static inline uint64_t short_word(const uint8_t *p, int64_t n)
{
    if (n >= 4)
        return load32(p) | (uint64_t)load32(p + n - 4) << 32;
    return n ? p[0] | (uint64_t)p[n / 2] << 8 | (uint64_t)p[n - 1] << 16 : 0;
}

static uint64_t hash_of(const uint8_t *p, int64_t n)
{
    uint64_t h = mixed(0, (uint64_t)n);
    for (int64_t i = 0; i + 8 <= n; i += 8)
        h = mixed(h, load64(p + i));
    return mixed(h, n >= 8 ? load64(p + n - 8) : short_word(p, n));
}

/* For short strings a call of memcmp takes longer than this. */
static inline int is_same(const uint8_t *a, const uint8_t *b, int64_t n)
{
    if (n < 8)
        return short_word(a, n) == short_word(b, n);
    if (n <= 16)
        return !((load64(a) ^ load64(b)) | (load64(a + n - 8) ^ load64(b + n - 8)));
    if (n <= 32)
        return !((load64(a) ^ load64(b)) | (load64(a + 8) ^ load64(b + 8)) | (load64(a + n - 16) ^ load64(b + n - 16))
                 | (load64(a + n - 8) ^ load64(b + n - 8)));
    return !memcmp(a, b, (size_t)n);
}

typedef struct {
    const int32_t *offsets;
    Py_ssize_t n;
    const uint8_t *data;
    int64_t n_bytes;
} Strings;

/* Where a string is and its length; -1 where its offsets are wrong. */
static int64_t string_at(const Strings *s, int64_t place, const uint8_t **begin)
{
    int64_t from = s->offsets[place], to = s->offsets[place + 1];
    if (from < 0 || to < from || to > s->n_bytes)
        return -1;
    *begin = s->data + from;
    return to - from;
}

enum { WRONG_OFFSETS = -1, NO_ROOM = -2, WRONG_SLOTS = -3, AHEAD = 32 };

#if defined(__GNUC__)
#define FETCH(p) __builtin_prefetch(p)
#else
#define FETCH(p) ((void)(p))
#endif

/* The hashes of the next rows, up to AHEAD of them, and their slots on the way to the processor; 0 of what is wrong. */
static void look_ahead(const Strings *given, Py_ssize_t row, const uint64_t *slots, uint64_t mask, uint64_t *hashes)
{
    Py_ssize_t n = given->n - row < AHEAD ? given->n - row : AHEAD;
    for (Py_ssize_t i = 0; i < n; i++) {
        const uint8_t *text;
        int64_t length = string_at(given, row + i, &text);
        hashes[i] = length < 0 ? 0 : hash_of(text, length);
        FETCH(&slots[hashes[i] & mask]);
    }
}

/* How many strings were new, or what was wrong, with the row in `at`. A slot holds the upper half of a hash, and a code
 * and 1; 0 is free. */
static Py_ssize_t code_rows(const Strings *known, const Strings *given, const uint8_t *missing, uint64_t *slots,
                            uint64_t mask, int32_t *codes, int64_t *fresh, Py_ssize_t room, Py_ssize_t *at)
{
    int64_t n_new = 0;
    uint64_t hashes[AHEAD];
    for (Py_ssize_t row = 0; row < given->n; row++) {
        if (row % AHEAD == 0)
            look_ahead(given, row, slots, mask, hashes);
        *at = row;
        if (missing && missing[row]) {
            codes[row] = -1;
            continue;
        }
        const uint8_t *text, *other;
        int64_t length = string_at(given, row, &text);
        if (UNLIKELY(length < 0))
            return WRONG_OFFSETS;
        uint64_t hash = hashes[row % AHEAD], place = hash & mask, tried = 0;
        for (;; place = (place + 1) & mask) {
            uint64_t slot = slots[place];
            if (!(uint32_t)slot) {
                if (n_new >= room || known->n + n_new >= INT32_MAX)
                    return NO_ROOM;
                slots[place] = (hash >> 32) << 32 | (uint64_t)(known->n + n_new + 1);
                codes[row] = (int32_t)(known->n + n_new);
                fresh[n_new++] = row;
                break;
            }
            if (slot >> 32 == hash >> 32) {
                int64_t code = (int64_t)(uint32_t)slot - 1;
                if (code >= known->n + n_new)
                    return WRONG_SLOTS;
                int64_t n = code < known->n ? string_at(known, code, &other)
                                            : string_at(given, fresh[code - known->n], &other);
                if (n < 0)
                    return WRONG_OFFSETS;
                if (n == length && is_same(text, other, n)) {
                    codes[row] = (int32_t)code;
                    break;
                }
            }
            if (UNLIKELY(tried++ > mask))
                return NO_ROOM;
        }
    }
    return (Py_ssize_t)n_new;
}

static PyObject *code_strings(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *known, *strings, *offsets, *data, *missing, *slots, *codes, *fresh;
    Span s[8] = {0};
    Py_ssize_t found, at = 0;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOO", &known, &strings, &offsets, &data, &missing, &slots, &codes, &fresh))
        return NULL;
    if (open_kind(known, &s[0], "known", I32) < 0 || open_bytes(strings, &s[1], "strings") < 0
        || open_kind(offsets, &s[2], "offsets", I32) < 0 || open_bytes(data, &s[3], "data") < 0
        || open_kind_out(slots, &s[5], "slots", U64) < 0 || open_kind_out(codes, &s[6], "codes", I32) < 0
        || open_kind_out(fresh, &s[7], "fresh", I64) < 0)
        return finish(s, 8, NULL);
    if (s[0].count < 1 || s[2].count < 1)
        return finish(s, 8, refuse("offsets are empty, expected one more than strings"));
    if (s[6].count != s[2].count - 1)
        return finish(s, 8, refuse("codes has %zd items, expected %zd", s[6].count, s[2].count - 1));
    if (open_optional_mask(missing, &s[4], "missing", s[2].count - 1) < 0)
        return finish(s, 8, NULL);
    if (s[5].count < 1 || (s[5].count & (s[5].count - 1)))
        return finish(s, 8, refuse("slots has %zd items, expected a power of two", s[5].count));
    Strings old = {(const int32_t *)s[0].bytes, s[0].count - 1, s[1].bytes, s[1].n_bytes};
    Strings new = {(const int32_t *)s[2].bytes, s[2].count - 1, s[3].bytes, s[3].n_bytes};
    Py_BEGIN_ALLOW_THREADS
    found = code_rows(&old, &new, s[4].bytes, (uint64_t *)s[5].bytes, (uint64_t)s[5].count - 1,
                      (int32_t *)s[6].bytes, (int64_t *)s[7].bytes, s[7].count, &at);
    Py_END_ALLOW_THREADS
    if (found == WRONG_OFFSETS)
        return finish(s, 8, refuse("the string of row %zd, or one like it, does not lie in the data", at));
    if (found == NO_ROOM)
        return finish(s, 8, refuse("slots or fresh have no room for the string of row %zd", at));
    if (found == WRONG_SLOTS)
        return finish(s, 8, refuse("slots hold a code that no string has"));
    return finish(s, 8, PyLong_FromSsize_t(found));
}

PyMethodDef coded_functions[] = {
    {"code_offsets", code_offsets, METH_VARARGS, NULL},
    {"code_data", code_data, METH_VARARGS, NULL},
    {"code_strings", code_strings, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
