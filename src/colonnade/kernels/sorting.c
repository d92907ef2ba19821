/* Row numbers in the order of their values: a stable radix sort, a byte at a time from the lowest.
 *
 * Values become unsigned numbers of the same order first: the sign of integers is turned over; of floats, all bits of
 * negative ones. -0.0 equals 0.0; NaN comes last, all NaN being equal. A byte that all values share costs nothing, and
 * values that are in order already are only looked at.
 */
#include "native.h"

enum { RADIX = 256 };

typedef struct {
    uint32_t key, row;
} Short;

typedef struct {
    uint64_t key, row;
} Long;

static inline uint64_t float_key(uint64_t bits, unsigned width)
{
    uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1);
    return bits & sign ? ~bits & all : bits | sign;
}

static inline uint64_t key_of_f64(double value)
{
    uint64_t bits;
    if (value != value)
        return UINT64_MAX;
    value += 0.0;
    memcpy(&bits, &value, 8);
    return float_key(bits, 64);
}

static inline uint64_t key_of_f32(float value)
{
    uint32_t bits;
    if (value != value)
        return UINT32_MAX;
    value += 0.0f;
    memcpy(&bits, &value, 4);
    return float_key(bits, 32);
}

#define SIGNED_KEY(v, T) ((uint64_t)(v) ^ ((uint64_t)1 << (8 * sizeof(T) - 1))) & (UINT64_MAX >> (64 - 8 * sizeof(T)))
#define UNSIGNED_KEY(v, T) (uint64_t)(v)
#define F32_KEY(v, T) key_of_f32(v)
#define F64_KEY(v, T) key_of_f64(v)

/* Pairs of key and row, and how often each byte occurs at each place of the key. */
#define PAIR_LOOP(T, KIND, PAIR, KEY)                                                              \
    static void pairs_##KIND(const T *values, size_t n, PAIR *pairs, size_t (*counts)[RADIX])      \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint64_t key = KEY(values[i], T);                                                      \
            pairs[i].key = key;                                                                    \
            pairs[i].row = i;                                                                      \
            for (unsigned place = 0; place < sizeof(T); place++)                                   \
                counts[place][key >> (8 * place) & 0xFF]++;                                        \
        }                                                                                          \
    }
PAIR_LOOP(int8_t, I8, Short, SIGNED_KEY)
PAIR_LOOP(int16_t, I16, Short, SIGNED_KEY)
PAIR_LOOP(int32_t, I32, Short, SIGNED_KEY)
PAIR_LOOP(uint8_t, U8, Short, UNSIGNED_KEY)
PAIR_LOOP(uint16_t, U16, Short, UNSIGNED_KEY)
PAIR_LOOP(uint32_t, U32, Short, UNSIGNED_KEY)
PAIR_LOOP(float, F32, Short, F32_KEY)
PAIR_LOOP(int8_t, I8_long, Long, SIGNED_KEY)
PAIR_LOOP(int16_t, I16_long, Long, SIGNED_KEY)
PAIR_LOOP(int32_t, I32_long, Long, SIGNED_KEY)
PAIR_LOOP(int64_t, I64_long, Long, SIGNED_KEY)
PAIR_LOOP(uint8_t, U8_long, Long, UNSIGNED_KEY)
PAIR_LOOP(uint16_t, U16_long, Long, UNSIGNED_KEY)
PAIR_LOOP(uint32_t, U32_long, Long, UNSIGNED_KEY)
PAIR_LOOP(uint64_t, U64_long, Long, UNSIGNED_KEY)
PAIR_LOOP(float, F32_long, Long, F32_KEY)
PAIR_LOOP(double, F64_long, Long, F64_KEY)

/* Whether one byte has all the rows: then they are in order already. */
static int is_trivial(const size_t *counts, size_t n)
{
    for (int i = 0; i < RADIX; i++)
        if (counts[i])
            return counts[i] == n;
    return 1;
}

#define SORT_LOOP(PAIR)                                                                                          \
    static PAIR *sort_##PAIR(PAIR *from, PAIR *to, size_t n, unsigned size, size_t (*counts)[RADIX])             \
    {                                                                                                            \
        for (unsigned place = 0; place < size; place++) {                                                        \
            size_t at[RADIX], next = 0;                                                                          \
            if (is_trivial(counts[place], n))                                                                    \
                continue;                                                                                        \
            for (int i = 0; i < RADIX; i++) {                                                                    \
                at[i] = next;                                                                                    \
                next += counts[place][i];                                                                        \
            }                                                                                                    \
            for (size_t i = 0; i < n; i++)                                                                       \
                to[at[from[i].key >> (8 * place) & 0xFF]++] = from[i];                                           \
            PAIR *swap = from;                                                                                   \
            from = to;                                                                                           \
            to = swap;                                                                                           \
        }                                                                                                        \
        return from;                                                                                             \
    }
SORT_LOOP(Short)
SORT_LOOP(Long)

static void make_short(const Span *values, Short *pairs, size_t (*counts)[RADIX])
{
    size_t n = (size_t)values->count;
#define MAKE(T, KIND) case KIND: pairs_##KIND((const T *)values->bytes, n, pairs, counts); break;
    switch (values->kind) {
        MAKE(int8_t, I8) MAKE(int16_t, I16) MAKE(int32_t, I32) MAKE(uint8_t, U8) MAKE(uint16_t, U16)
        MAKE(uint32_t, U32) MAKE(float, F32)
    default: break;
    }
#undef MAKE
}

static void make_long(const Span *values, Long *pairs, size_t (*counts)[RADIX])
{
    size_t n = (size_t)values->count;
#define MAKE(T, KIND) case KIND: pairs_##KIND##_long((const T *)values->bytes, n, pairs, counts); break;
    switch (values->kind) {
        MAKE(int8_t, I8) MAKE(int16_t, I16) MAKE(int32_t, I32) MAKE(int64_t, I64) MAKE(uint8_t, U8)
        MAKE(uint16_t, U16) MAKE(uint32_t, U32) MAKE(uint64_t, U64) MAKE(float, F32) MAKE(double, F64)
    default: break;
    }
#undef MAKE
}

/* Whether values are in order already, none of them NaN. */
#define ORDER_LOOP(T, KIND)                                       \
    static int ordered_##KIND(const T *values, Py_ssize_t n)      \
    {                                                             \
        if (values[0] != values[0])                               \
            return 0;                                             \
        for (Py_ssize_t i = 1; i < n; i++)                        \
            if (!(values[i - 1] <= values[i]))                    \
                return 0;                                         \
        return 1;                                                 \
    }
ORDER_LOOP(int8_t, I8)
ORDER_LOOP(int16_t, I16)
ORDER_LOOP(int32_t, I32)
ORDER_LOOP(int64_t, I64)
ORDER_LOOP(uint8_t, U8)
ORDER_LOOP(uint16_t, U16)
ORDER_LOOP(uint32_t, U32)
ORDER_LOOP(uint64_t, U64)
ORDER_LOOP(float, F32)
ORDER_LOOP(double, F64)

static int is_ordered(const Span *values)
{
#define TEST(T, KIND) case KIND: return ordered_##KIND((const T *)values->bytes, values->count);
    switch (values->kind) {
        TEST(int8_t, I8) TEST(int16_t, I16) TEST(int32_t, I32) TEST(int64_t, I64) TEST(uint8_t, U8)
        TEST(uint16_t, U16) TEST(uint32_t, U32) TEST(uint64_t, U64) TEST(float, F32) TEST(double, F64)
    default: return 0;
    }
#undef TEST
}

static int put_all_rows(Span *out)
{
    for (Py_ssize_t i = 0; i < out->count; i++) {
        if (out->kind == U32)
            ((uint32_t *)out->bytes)[i] = (uint32_t)i;
        else
            ((int64_t *)out->bytes)[i] = i;
    }
    return 0;
}

#define PUT_ROWS(pairs, T)                     \
    for (size_t i = 0; i < n; i++)             \
        ((T *)out->bytes)[i] = (T)(pairs)[i].row;

/* 0, or -1 without memory. */
static int sort_short(const Span *values, Span *out, size_t (*counts)[RADIX])
{
    size_t n = (size_t)values->count;
    Short *pairs = malloc(2 * n * sizeof *pairs);
    if (!pairs)
        return -1;
    make_short(values, pairs, counts);
    Short *sorted = sort_Short(pairs, pairs + n, n, (unsigned)values->size, counts);
    if (out->kind == U32) {
        PUT_ROWS(sorted, uint32_t)
    }
    else {
        PUT_ROWS(sorted, int64_t)
    }
    free(pairs);
    return 0;
}

static int sort_long(const Span *values, Span *out, size_t (*counts)[RADIX])
{
    size_t n = (size_t)values->count;
    if (n > SIZE_MAX / 2 / sizeof(Long))
        return -1;
    Long *pairs = malloc(2 * n * sizeof *pairs);
    if (!pairs)
        return -1;
    make_long(values, pairs, counts);
    Long *sorted = sort_Long(pairs, pairs + n, n, (unsigned)values->size, counts);
    if (out->kind == U32) {
        PUT_ROWS(sorted, uint32_t)
    }
    else {
        PUT_ROWS(sorted, int64_t)
    }
    free(pairs);
    return 0;
}

static PyObject *argsort(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *values, *out;
    Span s[2] = {0};
    size_t counts[8][RADIX] = {{0}};
    int status = 0;
    if (!PyArg_ParseTuple(arguments, "OO", &values, &out))
        return NULL;
    if (open_values(values, &s[0], "values") < 0 || open_values_out(out, &s[1], "out") < 0 || same_count(&s[0], &s[1]) < 0)
        return finish(s, 2, NULL);
    if (s[1].kind != U32 && s[1].kind != I64 && s[1].kind != U64)
        return finish(s, 2, refuse("out must hold uint32, int64 or uint64"));
    if (s[1].kind == U32 && (uint64_t)s[0].count > UINT32_MAX)
        return finish(s, 2, refuse("out is too narrow for %zd rows", s[0].count));
    Py_BEGIN_ALLOW_THREADS
    if (!s[0].count || is_ordered(&s[0]))
        status = put_all_rows(&s[1]);
    else if (s[0].size <= 4 && (uint64_t)s[0].count <= UINT32_MAX)
        status = sort_short(&s[0], &s[1], counts);
    else
        status = sort_long(&s[0], &s[1], counts);
    Py_END_ALLOW_THREADS
    return finish(s, 2, status < 0 ? PyErr_NoMemory() : Py_NewRef(Py_None));
}

/* -- rows put between others that are in order -- */

/* `places` increase, from 0 to the number of rows; -1 and nothing more where they do not. */
static int insert_all(const Span *rows, const int64_t *places, const Span *added, uint8_t *out)
{
    Py_ssize_t size = rows->size, at = 0;
    for (Py_ssize_t i = 0; i < added->count; i++) {
        Py_ssize_t next = (Py_ssize_t)places[i];
        if (UNLIKELY(next < at || next > rows->count))
            return -1;
        memcpy(out, rows->bytes + at * size, (size_t)((next - at) * size));
        out += (next - at) * size;
        memcpy(out, added->bytes + i * size, (size_t)size);
        out += size;
        at = next;
    }
    memcpy(out, rows->bytes + at * size, (size_t)((rows->count - at) * size));
    return 0;
}

static PyObject *insert_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *rows, *places, *added, *out;
    Span s[4] = {0};
    int status = 0;
    if (!PyArg_ParseTuple(arguments, "OOOO", &rows, &places, &added, &out))
        return NULL;
    if (open_values(rows, &s[0], "rows") < 0 || open_kind(places, &s[1], "places", I64) < 0
        || open_values(added, &s[2], "added") < 0 || open_values_out(out, &s[3], "out") < 0 || same_count(&s[1], &s[2]) < 0)
        return finish(s, 4, NULL);
    if ((s[0].kind != U32 && s[0].kind != U64) || s[2].kind != s[0].kind || s[3].kind != s[0].kind)
        return finish(s, 4, refuse("rows, added and out must all hold uint32 or all uint64"));
    if (s[3].count - s[2].count != s[0].count)
        return finish(s, 4, refuse("out has %zd rows, expected %zd and %zd", s[3].count, s[0].count, s[2].count));
    if (apart(&s[0], &s[3]) < 0 || apart(&s[2], &s[3]) < 0 || apart(&s[1], &s[3]) < 0)
        return finish(s, 4, NULL);
    Py_BEGIN_ALLOW_THREADS
    status = insert_all(&s[0], (const int64_t *)s[1].bytes, &s[2], s[3].bytes);
    Py_END_ALLOW_THREADS
    return finish(s, 4, status < 0 ? refuse("places must increase, from 0 to %zd", s[0].count) : Py_NewRef(Py_None));
}

PyMethodDef sort_functions[] = {
    {"argsort", argsort, METH_VARARGS, NULL},
    {"insert_rows", insert_rows, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
