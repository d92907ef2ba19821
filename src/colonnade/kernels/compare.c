/* Values compared with a range, a few wanted values, or the bits of an item. Answers as masks, counts, or yes and no.
 *
 * Every range becomes a closed one of the values' own type before the loop: (2, 5] of integers is [3, 5], and 0.1 <= x of
 * float32 is x >= the least float32 that is not below 0.1. NaN is in no range.
 */
#include "native.h"

enum {
    BLOCK = 2048,  /* rows whose mask is kept between two steps */
    MOST_COMPARED = 24,  /* wanted values that each row is compared with, without a search */
    MOST_SIEVE_BITS = 20,  /* the logarithm of the bits of the largest sieve: it stays in the cache */
};

typedef union {
    int64_t i;
    uint64_t u;
    float f;
    double d;
} Number;

typedef struct {
    Number low, high;
    int empty;
} Range;

/* -- bounds -- */

static int64_t least_of(Kind kind) { return -((int64_t)1 << (8 * (1 << kind) - 2)) * 2; }
static int64_t greatest_of(Kind kind) { return -(least_of(kind) + 1); }
static uint64_t greatest_unsigned(Kind kind) { return UINT64_MAX >> (64 - 8 * (1 << (kind - U8))); }

/* An integer as sign and size: -1 below int64, 1 above uint64, else 0 and its two readings. */
typedef struct {
    int beyond;
    int negative;
    int64_t i;
    uint64_t u;
} Whole;

static int read_whole(PyObject *object, Whole *whole, const char *name)
{
    int overflow;
    memset(whole, 0, sizeof *whole);
    if (!PyLong_Check(object)) {
        refuse("%s must be an integer or None for integers", name);
        return -1;
    }
    whole->i = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) {
        whole->negative = whole->i < 0;
        whole->u = (uint64_t)whole->i;
        return whole->i == -1 && PyErr_Occurred() ? -1 : 0;
    }
    whole->negative = whole->beyond = overflow;
    if (overflow < 0)
        return 0;
    whole->negative = 0;
    whole->u = PyLong_AsUnsignedLongLong(object);
    if (whole->u == UINT64_MAX && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    whole->beyond = 0;
    whole->i = INT64_MAX;
    return 0;
}

/* Bounds of signed values; a number above int64 stays above. */
static void signed_low(Range *range, const Whole *w, int open, Kind kind)
{
    int above = w->beyond > 0 || (!w->negative && w->u > (uint64_t)greatest_of(kind));
    if (above || (open && !w->beyond && w->i == greatest_of(kind)))
        range->empty = 1;
    else if (w->beyond == 0 && w->i >= least_of(kind))
        range->low.i = w->i + (open != 0);
}

static void signed_high(Range *range, const Whole *w, int open, Kind kind)
{
    int above = w->beyond > 0 || (!w->negative && w->u > (uint64_t)greatest_of(kind));
    if (above)
        return;
    if (w->beyond < 0 || w->i < least_of(kind) || (open && w->i == least_of(kind)))
        range->empty = 1;
    else
        range->high.i = w->i - (open != 0);
}

static void unsigned_low(Range *range, const Whole *w, int open, Kind kind)
{
    if (w->negative)
        return;
    if (w->beyond > 0 || w->u > greatest_unsigned(kind) || (open && w->u == greatest_unsigned(kind)))
        range->empty = 1;
    else
        range->low.u = w->u + (open != 0);
}

static void unsigned_high(Range *range, const Whole *w, int open, Kind kind)
{
    if (!w->negative && (w->beyond > 0 || w->u > greatest_unsigned(kind)))
        return;
    if (w->negative || (open && w->u == 0))
        range->empty = 1;
    else
        range->high.u = w->u - (open != 0);
}

static int whole_range(Range *range, PyObject *low, PyObject *high, int low_open, int high_open, Kind kind)
{
    Whole w;
    if (is_signed(kind)) {
        range->low.i = least_of(kind);
        range->high.i = greatest_of(kind);
    }
    else {
        range->low.u = 0;
        range->high.u = greatest_unsigned(kind);
    }
    if (low != Py_None) {
        if (read_whole(low, &w, "low") < 0)
            return -1;
        (is_signed(kind) ? signed_low : unsigned_low)(range, &w, low_open, kind);
    }
    if (high != Py_None) {
        if (read_whole(high, &w, "high") < 0)
            return -1;
        (is_signed(kind) ? signed_high : unsigned_high)(range, &w, high_open, kind);
    }
    return 0;
}

static int read_float(PyObject *object, double *value, const char *name)
{
    if (!PyFloat_Check(object)) {
        refuse("%s must be a float or None for floats", name);
        return -1;
    }
    *value = PyFloat_AsDouble(object);
    if (isnan(*value)) {
        refuse("%s is NaN, which bounds nothing", name);
        return -1;
    }
    return 0;
}

/* The least value of the type that is not below `bound`, or (open) above it. */
static double least_above(double bound, int open, int narrow)
{
    if (!narrow)
        return open ? nextafter(bound, INFINITY) : bound;
    float f = bound > FLT_MAX ? INFINITY : bound < -FLT_MAX ? (isinf(bound) ? -INFINITY : -FLT_MAX) : (float)bound;
    if ((double)f < bound || (open && (double)f == bound))
        f = nextafterf(f, INFINITY);
    return f;
}

static int float_range(Range *range, PyObject *low, PyObject *high, int low_open, int high_open, Kind kind)
{
    double from = -INFINITY, to = INFINITY;
    int narrow = kind == F32;
    if (low != Py_None) {
        if (read_float(low, &from, "low") < 0)
            return -1;
        range->empty |= low_open && from == INFINITY;
        from = least_above(from, low_open, narrow);
    }
    if (high != Py_None) {
        if (read_float(high, &to, "high") < 0)
            return -1;
        range->empty |= high_open && to == -INFINITY;
        to = -least_above(-to, high_open, narrow);
    }
    if (narrow) {
        range->low.f = (float)from;
        range->high.f = (float)to;
    }
    else {
        range->low.d = from;
        range->high.d = to;
    }
    return 0;
}

/* -- loops -- */

/* Bits of the hashes of all wanted integers. Most values that are not wanted have none of these, and need no search. */
typedef struct {
    uint64_t *bits;  /* NULL: no sieve */
    int shift;
} Sieve;

static inline uint64_t sieve_place(int shift, uint64_t value) { return value * 0x9E3779B97F4A7C15u >> shift; }

static inline int may_pass(Sieve sieve, uint64_t value)
{
    uint64_t place = sieve_place(sieve.shift, value);
    return (int)(sieve.bits[place / 64] >> place % 64 & 1);
}

#define RANGE_LOOP(T, KIND, field)                                                                       \
    WIDE static void in_range_##KIND(const T *v, Py_ssize_t n, T low, T high, uint8_t *out)              \
    {                                                                                                    \
        for (Py_ssize_t i = 0; i < n; i++)                                                               \
            out[i] = (uint8_t)((v[i] >= low) & (v[i] <= high));                                          \
    }                                                                                                    \
    WIDE static void equal_##KIND(const T *v, Py_ssize_t n, T wanted, uint8_t *out)                      \
    {                                                                                                    \
        for (Py_ssize_t i = 0; i < n; i++)                                                               \
            out[i] |= (uint8_t)(v[i] == wanted);                                                         \
    }                                                                                                    \
    static void among_##KIND(const T *v, Py_ssize_t n, const T *wanted, Py_ssize_t n_wanted, Sieve sieve, \
                             uint8_t *out)                                                               \
    {                                                                                                    \
        for (Py_ssize_t i = 0; i < n; i++) {                                                             \
            if (sieve.bits != NULL && !may_pass(sieve, (uint64_t)(int64_t)v[i])) {                       \
                out[i] = 0;                                                                              \
                continue;                                                                                \
            }                                                                                            \
            const T *at = wanted;                                                                        \
            for (Py_ssize_t left = n_wanted; left > 1; left -= left / 2)                                 \
                at += (at[left / 2] <= v[i]) * (left / 2);                                               \
            out[i] = *at == v[i];                                                                        \
        }                                                                                                \
    }                                                                                                    \
    static int increasing_##KIND(const T *v, Py_ssize_t n)                                               \
    {                                                                                                    \
        for (Py_ssize_t i = 0; i < n; i++)                                                               \
            if (v[i] != v[i] || (i > 0 && !(v[i - 1] < v[i])))                                           \
                return 0;                                                                                \
        return 1;                                                                                        \
    }

RANGE_LOOP(int8_t, I8, i)
RANGE_LOOP(int16_t, I16, i)
RANGE_LOOP(int32_t, I32, i)
RANGE_LOOP(int64_t, I64, i)
RANGE_LOOP(uint8_t, U8, u)
RANGE_LOOP(uint16_t, U16, u)
RANGE_LOOP(uint32_t, U32, u)
RANGE_LOOP(uint64_t, U64, u)
RANGE_LOOP(float, F32, f)
RANGE_LOOP(double, F64, d)

#define EACH_KIND(DO)                                                                                            \
    switch (kind) {                                                                                              \
        DO(int8_t, I8, i) DO(int16_t, I16, i) DO(int32_t, I32, i) DO(int64_t, I64, i) DO(uint8_t, U8, u)         \
        DO(uint16_t, U16, u) DO(uint32_t, U32, u) DO(uint64_t, U64, u) DO(float, F32, f) DO(double, F64, d)      \
    default: break;                                                                                              \
    }

/* What is asked of each value. */
typedef struct {
    Kind kind;
    Py_ssize_t size;
    Range range;
    const uint8_t *wanted;  /* NULL: the range */
    Py_ssize_t n_wanted;
    Sieve sieve;
} Test;

static void test_range(const Test *test, const uint8_t *values, Py_ssize_t n, uint8_t *out)
{
    Kind kind = test->kind;
    if (test->range.empty) {
        memset(out, 0, (size_t)n);
        return;
    }
#define DO(T, KIND, field) \
    case KIND: in_range_##KIND((const T *)values, n, (T)test->range.low.field, (T)test->range.high.field, out); break;
    EACH_KIND(DO)
#undef DO
}

static void test_wanted(const Test *test, const uint8_t *values, Py_ssize_t n, uint8_t *out)
{
    Kind kind = test->kind;
    Py_ssize_t n_wanted = test->n_wanted;
    if (n_wanted <= MOST_COMPARED) {  /* so few that it is cheaper to compare with each, many values at a time */
        memset(out, 0, (size_t)n);
#define DO(T, KIND, field)                                              \
    case KIND:                                                          \
        for (Py_ssize_t k = 0; k < n_wanted; k++)                       \
            equal_##KIND((const T *)values, n, ((const T *)test->wanted)[k], out); \
        break;
        EACH_KIND(DO)
#undef DO
        return;
    }
#define DO(T, KIND, field) \
    case KIND: among_##KIND((const T *)values, n, (const T *)test->wanted, n_wanted, test->sieve, out); break;
    EACH_KIND(DO)
#undef DO
}

static void test_block(const Test *test, const uint8_t *values, Py_ssize_t n, uint8_t *out)
{
    (test->wanted ? test_wanted : test_range)(test, values, n, out);
}

static int is_increasing(const uint8_t *wanted, Py_ssize_t n, Kind kind)
{
#define DO(T, KIND, field) case KIND: return increasing_##KIND((const T *)wanted, n);
    EACH_KIND(DO)
#undef DO
    return 0;
}

static Py_ssize_t test_count(const Test *test, const uint8_t *values, Py_ssize_t n)
{
    uint8_t mask[BLOCK];
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < n; i += BLOCK) {
        Py_ssize_t some = n - i < BLOCK ? n - i : BLOCK;
        test_block(test, values + i * test->size, some, mask);
        count += count_mask(mask, some);
    }
    return count;
}

/* -- calls -- */

/* The range of a call into spans[0] (values) and the test. */
static int read_range(Test *test, Span *spans, PyObject *values, PyObject *low, PyObject *high, int low_open,
                      int high_open)
{
    if (open_values(values, &spans[0], "values") < 0)
        return -1;
    test->kind = spans[0].kind;
    test->size = spans[0].size;
    return (is_float(test->kind) ? float_range : whole_range)(&test->range, low, high, low_open, high_open, test->kind);
}

/* Values and wanted into spans[0] and spans[1], and the test. */
static int read_wanted(Test *test, Span *spans, PyObject *values, PyObject *wanted)
{
    if (open_values(values, &spans[0], "values") < 0 || open_values(wanted, &spans[1], "wanted") < 0)
        return -1;
    test->kind = spans[0].kind;
    test->size = spans[0].size;
    if (spans[1].kind != test->kind) {
        refuse("wanted must be of the type of the values");
        return -1;
    }
    if (!is_increasing(spans[1].bytes, spans[1].count, test->kind)) {
        refuse("wanted must increase, without NaN");
        return -1;
    }
    test->wanted = spans[1].bytes;
    test->n_wanted = spans[1].count;
    test->range.empty = spans[1].count == 0;
    if (test->range.empty)
        test->wanted = NULL;
    return 0;
}

/* A sieve of the wanted integers; without memory for it there is none. */
static Sieve make_sieve(const Test *test)
{
    Sieve sieve = {NULL, 64 - 9};
    Py_ssize_t n_wanted = test->n_wanted;
    if (is_float(test->kind) || n_wanted <= MOST_COMPARED)
        return sieve;
    while (64 - sieve.shift < MOST_SIEVE_BITS && ((Py_ssize_t)1 << (64 - sieve.shift)) < 16 * n_wanted)
        sieve.shift--;
    sieve.bits = calloc((size_t)1 << (64 - sieve.shift - 6), sizeof *sieve.bits);
    if (sieve.bits == NULL)
        return sieve;
    Kind kind = test->kind;
#define DO(T, KIND, field)                                                                              \
    case KIND:                                                                                          \
        for (Py_ssize_t k = 0; k < n_wanted; k++) {                                                     \
            uint64_t place = sieve_place(sieve.shift, (uint64_t)(int64_t)((const T *)test->wanted)[k]); \
            sieve.bits[place / 64] |= (uint64_t)1 << place % 64;                                        \
        }                                                                                               \
        break;
    EACH_KIND(DO)
#undef DO
    return sieve;
}

static PyObject *answer_mask(const Test *test, Span *s, int n_spans, PyObject *out)
{
    Span *mask = &s[n_spans - 1];
    if (open_mask_out(out, mask, "out") < 0 || same_count(&s[0], mask) < 0)
        return finish(s, n_spans, NULL);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < s[0].count; i += BLOCK)
        test_block(test, s[0].bytes + i * test->size, s[0].count - i < BLOCK ? s[0].count - i : BLOCK, mask->bytes + i);
    Py_END_ALLOW_THREADS
    return finish(s, n_spans, Py_NewRef(Py_None));
}

static PyObject *range_mask(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *values, *low, *high, *out;
    int low_open, high_open;
    Span s[2] = {0};
    Test test = {0};
    if (!PyArg_ParseTuple(arguments, "OOOppO", &values, &low, &high, &low_open, &high_open, &out))
        return NULL;
    if (read_range(&test, s, values, low, high, low_open, high_open) < 0)
        return finish(s, 2, NULL);
    return answer_mask(&test, s, 2, out);
}

static PyObject *range_count(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *values, *low, *high;
    int low_open, high_open;
    Py_ssize_t count;
    Span s[1] = {0};
    Test test = {0};
    if (!PyArg_ParseTuple(arguments, "OOOpp", &values, &low, &high, &low_open, &high_open))
        return NULL;
    if (read_range(&test, s, values, low, high, low_open, high_open) < 0)
        return finish(s, 1, NULL);
    Py_BEGIN_ALLOW_THREADS
    count = test_count(&test, s[0].bytes, s[0].count);
    Py_END_ALLOW_THREADS
    return finish(s, 1, PyLong_FromSsize_t(count));
}

static PyObject *among_mask(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *values, *wanted, *out;
    Span s[3] = {0};
    Test test = {0};
    if (!PyArg_ParseTuple(arguments, "OOO", &values, &wanted, &out))
        return NULL;
    if (read_wanted(&test, s, values, wanted) < 0)
        return finish(s, 3, NULL);
    test.sieve = make_sieve(&test);
    PyObject *answer = answer_mask(&test, s, 3, out);
    free(test.sieve.bits);
    return answer;
}

/* -- whether an item is there at all -- */

#define HOLDS_LOOP(T)                                                      \
    WIDE static int holds_##T(const T *items, Py_ssize_t n, T item)        \
    {                                                                      \
        for (Py_ssize_t i = 0; i < n; i += BLOCK) {                        \
            Py_ssize_t end = n - i < BLOCK ? n : i + BLOCK;                \
            T found = 0;                                                   \
            for (Py_ssize_t j = i; j < end; j++)                           \
                found |= (T)(items[j] == item);                            \
            if (found)                                                     \
                return 1;                                                  \
        }                                                                  \
        return 0;                                                          \
    }
HOLDS_LOOP(uint8_t)
HOLDS_LOOP(uint16_t)
HOLDS_LOOP(uint32_t)
HOLDS_LOOP(uint64_t)

int holds_item(const uint8_t *items, Py_ssize_t n, Py_ssize_t size, uint64_t item)
{
    switch (size) {
    case 1: return holds_uint8_t(items, n, (uint8_t)item);
    case 2: return holds_uint16_t((const uint16_t *)items, n, (uint16_t)item);
    case 4: return holds_uint32_t((const uint32_t *)items, n, (uint32_t)item);
    default: return holds_uint64_t((const uint64_t *)items, n, item);
    }
}

int open_look(PyObject *object, Look *look)
{
    Span bytes = {0};
    *look = (Look){0};
    if (object == Py_None)
        return 0;
    if (open_bytes(object, &bytes, "look") < 0)
        return -1;
    Py_ssize_t size = bytes.n_bytes;
    int known = size == 1 || size == 2 || size == 4 || size == 8;
    if (known)
        memcpy(&look->item, bytes.bytes, (size_t)size);
    close_spans(&bytes, 1);
    if (!known) {
        refuse("look has %zd bytes, expected 1, 2, 4 or 8", size);
        return -1;
    }
    look->size = size;
    return 0;
}

int suits_look(const Span *span, const Look *look)
{
    if (!look->size || (span->n_bytes % look->size == 0 && (uintptr_t)span->bytes % (uintptr_t)look->size == 0))
        return 0;
    refuse("%s holds no items of %zd bytes", span->name, look->size);
    return -1;
}

static PyObject *has_item(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *item;
    Span s[1] = {0};
    Look look;
    int found = 0;
    if (!PyArg_ParseTuple(arguments, "OO", &source, &item) || open_look(item, &look) < 0)
        return NULL;
    if (look.size == 0)
        return refuse("item is None");
    if (open_bytes(source, &s[0], "source") < 0 || suits_look(&s[0], &look) < 0)
        return finish(s, 1, NULL);
    Py_BEGIN_ALLOW_THREADS
    found = holds_item(s[0].bytes, s[0].n_bytes / look.size, look.size, look.item);
    Py_END_ALLOW_THREADS
    return finish(s, 1, looked(&look, found));
}

PyMethodDef compare_functions[] = {
    {"has_item", has_item, METH_VARARGS, NULL},
    {"range_mask", range_mask, METH_VARARGS, NULL},
    {"range_count", range_count, METH_VARARGS, NULL},
    {"among_mask", among_mask, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
