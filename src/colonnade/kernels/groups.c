/* Sums, counts, least and greatest values by group; rows come with the code of their group. */
#include "native.h"

enum { BLOCK = 1024, LANES = 8, FEW = 64 };

typedef struct {
    uint64_t n_groups;
    uint8_t *totals;            /* two numbers of 8 bytes a group */
    int64_t *counts, *nans;
    uint8_t *least, *greatest;  /* or NULL */
} Groups;

/* Codes of a block as int64, -1 where the row is left out; the first place whose code names no group, or -1. */
#define CODE_LOOP(T, KIND)                                                                                  \
    static Py_ssize_t codes_##KIND(const T *codes, const uint8_t *missing, Py_ssize_t n, uint64_t n_groups, \
                                   int64_t *out)                                                            \
    {                                                                                                       \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                \
            T code = codes[i];                                                                              \
            int left_out = (missing && missing[i]) || ((T)-1 < 0 && (int64_t)code < 0);                     \
            if (UNLIKELY(!left_out && (uint64_t)code >= n_groups))                                          \
                return i;                                                                                   \
            out[i] = left_out ? -1 : (int64_t)code;                                                         \
        }                                                                                                   \
        return -1;                                                                                          \
    }
CODE_LOOP(int8_t, I8)
CODE_LOOP(int16_t, I16)
CODE_LOOP(int32_t, I32)
CODE_LOOP(int64_t, I64)
CODE_LOOP(uint8_t, U8)
CODE_LOOP(uint16_t, U16)
CODE_LOOP(uint32_t, U32)
CODE_LOOP(uint64_t, U64)

static Py_ssize_t read_codes(const Span *codes, Py_ssize_t from, const uint8_t *missing, Py_ssize_t n,
                             uint64_t n_groups, int64_t *out)
{
#define READ(T, KIND) \
    case KIND: return codes_##KIND((const T *)codes->bytes + from, missing ? missing + from : NULL, n, n_groups, out);
    switch (codes->kind) {
        READ(int8_t, I8) READ(int16_t, I16) READ(int32_t, I32) READ(int64_t, I64)
        READ(uint8_t, U8) READ(uint16_t, U16) READ(uint32_t, U32) READ(uint64_t, U64)
    default: return 0;
    }
#undef READ
}

static inline void add_float(uint8_t *totals, int64_t group, double x)
{
    double *pair = (double *)totals + 2 * group;
    double whole = pair[0] + x, part = whole - pair[0];
    pair[1] += (pair[0] - (whole - part)) + (x - part);
    pair[0] = whole;
}

/* The pair is a number of 128 bits, the low half first. */
static inline void add_whole(uint8_t *totals, int64_t group, uint64_t x, int negative)
{
    uint64_t *pair = (uint64_t *)totals + 2 * group;
    uint64_t low = pair[0] + x;
    pair[1] += (uint64_t)(low < x) - (uint64_t)negative;
    pair[0] = low;
}

#define ADD_FLOAT(v) add_float(g->totals, group, (double)(v))
#define ADD_SIGNED(v) add_whole(g->totals, group, (uint64_t)(int64_t)(v), (v) < 0)
#define ADD_UNSIGNED(v) add_whole(g->totals, group, (uint64_t)(v), 0)

#define GROUP_LOOP(T, KIND, ADD)                                                          \
    static void add_##KIND(const Groups *g, const int64_t *codes, const T *values, Py_ssize_t n) \
    {                                                                                     \
        T *least = (T *)g->least, *greatest = (T *)g->greatest;                           \
        for (Py_ssize_t i = 0; i < n; i++) {                                              \
            int64_t group = codes[i];                                                     \
            T value = values[i];                                                          \
            if (group < 0)                                                                \
                continue;                                                                 \
            if (value != value) {                                                         \
                g->nans[group]++;                                                         \
                continue;                                                                 \
            }                                                                             \
            int first = g->counts[group]++ == 0;                                          \
            ADD(value);                                                                   \
            if (least && (first || value < least[group]))                                 \
                least[group] = value;                                                     \
            if (greatest && (first || value > greatest[group]))                           \
                greatest[group] = value;                                                  \
        }                                                                                 \
    }
GROUP_LOOP(int8_t, I8, ADD_SIGNED)
GROUP_LOOP(int16_t, I16, ADD_SIGNED)
GROUP_LOOP(int32_t, I32, ADD_SIGNED)
GROUP_LOOP(int64_t, I64, ADD_SIGNED)
GROUP_LOOP(uint8_t, U8, ADD_UNSIGNED)
GROUP_LOOP(uint16_t, U16, ADD_UNSIGNED)
GROUP_LOOP(uint32_t, U32, ADD_UNSIGNED)
GROUP_LOOP(uint64_t, U64, ADD_UNSIGNED)
GROUP_LOOP(float, F32, ADD_FLOAT)
GROUP_LOOP(double, F64, ADD_FLOAT)

static void add_block(const Groups *g, const int64_t *codes, const Span *values, Py_ssize_t from, Py_ssize_t n)
{
#define ADD(T, KIND) case KIND: add_##KIND(g, codes, (const T *)values->bytes + from, n); break;
    switch (values->kind) {
        ADD(int8_t, I8) ADD(int16_t, I16) ADD(int32_t, I32) ADD(int64_t, I64) ADD(uint8_t, U8) ADD(uint16_t, U16)
        ADD(uint32_t, U32) ADD(uint64_t, U64) ADD(float, F32) ADD(double, F64)
    default: break;
    }
#undef ADD
}

/* -- floats of a few groups --
 *
 * Sums and counts of each group, several of each: rows of one group that follow each other need not wait for the sum
 * before.
 */
typedef struct {
    double pair[2];
    int64_t count;
} Lane;

static inline void add_to(Lane *lane, double value)
{
    add_float((uint8_t *)lane->pair, 0, value);
    lane->count++;
}

/* Codes of a block in one byte each; 0 where a row is left out, or names no group. */
#define SMALL_LOOP(T, KIND)                                                                             \
    WIDE static int small_##KIND(const T *codes, Py_ssize_t n, uint64_t n_groups, uint8_t *out)         \
    {                                                                                                   \
        uint8_t wrong = 0;                                                                              \
        for (Py_ssize_t i = 0; i < n; i++) {                                                            \
            wrong |= (uint8_t)((codes[i] < 0) | (codes[i] >= (T)n_groups));                             \
            out[i] = (uint8_t)codes[i];                                                                 \
        }                                                                                               \
        return !wrong;                                                                                  \
    }
SMALL_LOOP(int8_t, I8)
SMALL_LOOP(int16_t, I16)
SMALL_LOOP(int32_t, I32)
SMALL_LOOP(int64_t, I64)
SMALL_LOOP(uint8_t, U8)
SMALL_LOOP(uint16_t, U16)
SMALL_LOOP(uint32_t, U32)
SMALL_LOOP(uint64_t, U64)

static int read_small_codes(const Span *codes, Py_ssize_t from, Py_ssize_t n, uint64_t n_groups, uint8_t *out)
{
#define READ(T, KIND) case KIND: return small_##KIND((const T *)codes->bytes + from, n, n_groups, out);
    switch (codes->kind) {
        READ(int8_t, I8) READ(int16_t, I16) READ(int32_t, I32) READ(int64_t, I64)
        READ(uint8_t, U8) READ(uint16_t, U16) READ(uint32_t, U32) READ(uint64_t, U64)
    default: return 0;
    }
#undef READ
}

#define LANE_LOOPS(T, KIND)                                                                                     \
    WIDE static int has_nan_##KIND(const T *v, Py_ssize_t n)                                                     \
    {                                                                                                            \
        int found = 0;                                                                                           \
        for (Py_ssize_t i = 0; i < n; i++)                                                                       \
            found |= v[i] != v[i];                                                                               \
        return found;                                                                                            \
    }                                                                                                            \
    /* A block of which no row is left out. */                                                                   \
    static void add_plain_##KIND(Lane lanes[][FEW], const uint8_t *codes, const T *values, Py_ssize_t n)         \
    {                                                                                                            \
        Py_ssize_t i = 0;                                                                                        \
        for (; i + LANES <= n; i += LANES)                                                                       \
            for (int j = 0; j < LANES; j++)                                                                      \
                add_to(&lanes[j][codes[i + j]], (double)values[i + j]);                                          \
        for (; i < n; i++)                                                                                       \
            add_to(&lanes[0][codes[i]], (double)values[i]);                                                      \
    }                                                                                                            \
    /* Any block. */                                                                                             \
    static void add_some_##KIND(const Groups *g, Lane lanes[][FEW], const int64_t *codes, const T *values, Py_ssize_t n) \
    {                                                                                                            \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                     \
            if (codes[i] < 0)                                                                                    \
                continue;                                                                                        \
            if (values[i] != values[i])                                                                          \
                g->nans[codes[i]]++;                                                                             \
            else                                                                                                 \
                add_to(&lanes[i % LANES][codes[i]], (double)values[i]);                                          \
        }                                                                                                        \
    }                                                                                                            \
    static Py_ssize_t block_##KIND(const Groups *g, Lane lanes[][FEW], const Span *codes, const T *values,       \
                                   const uint8_t *missing, Py_ssize_t from, Py_ssize_t n)                        \
    {                                                                                                            \
        uint8_t small[BLOCK];                                                                                    \
        int64_t read[BLOCK];                                                                                     \
        if (!missing && read_small_codes(codes, from, n, g->n_groups, small) && !has_nan_##KIND(values + from, n)) { \
            add_plain_##KIND(lanes, small, values + from, n);                                                    \
            return -1;                                                                                           \
        }                                                                                                        \
        Py_ssize_t wrong = read_codes(codes, from, missing, n, g->n_groups, read);                               \
        if (wrong >= 0)                                                                                          \
            return from + wrong;                                                                                 \
        add_some_##KIND(g, lanes, read, values + from, n);                                                       \
        return -1;                                                                                               \
    }
LANE_LOOPS(float, F32)
LANE_LOOPS(double, F64)

static void add_lanes(const Groups *g, Lane lanes[][FEW])
{
    for (int at = 0; at < LANES; at++)
        for (uint64_t group = 0; group < g->n_groups; group++) {
            const Lane *lane = &lanes[at][group];
            add_float(g->totals, (int64_t)group, lane->pair[0]);
            ((double *)g->totals)[2 * group + 1] += lane->pair[1];
            g->counts[group] += lane->count;
        }
}

/* As add_all, of floats of which the ends are not asked for. */
static Py_ssize_t add_few(const Groups *g, const Span *codes, const Span *values, const uint8_t *missing)
{
    Lane lanes[LANES][FEW] = {0};
    Py_ssize_t wrong = -1;
    for (Py_ssize_t i = 0; i < values->count && wrong < 0; i += BLOCK) {
        Py_ssize_t n = values->count - i < BLOCK ? values->count - i : BLOCK;
        if (values->kind == F64)
            wrong = block_F64(g, lanes, codes, (const double *)values->bytes, missing, i, n);
        else
            wrong = block_F32(g, lanes, codes, (const float *)values->bytes, missing, i, n);
    }
    add_lanes(g, lanes);
    return wrong;
}

/* The first row whose code names no group, or -1. */
static Py_ssize_t add_all(const Groups *g, const Span *codes, const Span *values, const uint8_t *missing)
{
    if (is_float(values->kind) && g->n_groups <= FEW && !g->least && !g->greatest)
        return add_few(g, codes, values, missing);
    int64_t block[BLOCK];
    for (Py_ssize_t i = 0; i < values->count; i += BLOCK) {
        Py_ssize_t n = values->count - i < BLOCK ? values->count - i : BLOCK;
        Py_ssize_t wrong = read_codes(codes, i, missing, n, g->n_groups, block);
        if (wrong >= 0)
            return i + wrong;
        add_block(g, block, values, i, n);
    }
    return -1;
}

static int open_ends(PyObject *object, Span *span, const char *name, const Span *values, Py_ssize_t n_groups)
{
    if (object == Py_None)
        return 0;
    if (open_kind_out(object, span, name, values->kind) < 0)
        return -1;
    if (span->count != n_groups) {
        refuse("%s has %zd items, expected %zd", name, span->count, n_groups);
        return -1;
    }
    return 0;
}

static PyObject *group_totals(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *o[8];
    Span s[8] = {0};
    enum { CODES, VALUES, MISSING, TOTALS, COUNTS, NANS, LEAST, GREATEST };
    if (!PyArg_ParseTuple(arguments, "OOOOOOOO", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6], &o[7]))
        return NULL;
    if (open_values(o[CODES], &s[CODES], "codes") < 0 || open_values(o[VALUES], &s[VALUES], "values") < 0
        || same_count(&s[VALUES], &s[CODES]) < 0
        || open_optional_mask(o[MISSING], &s[MISSING], "missing", s[VALUES].count) < 0
        || open_kind_out(o[TOTALS], &s[TOTALS], "totals", is_float(s[VALUES].kind) ? F64 : I64) < 0
        || open_kind_out(o[COUNTS], &s[COUNTS], "counts", I64) < 0 || open_kind_out(o[NANS], &s[NANS], "nans", I64) < 0
        || same_count(&s[COUNTS], &s[NANS]) < 0
        || open_ends(o[LEAST], &s[LEAST], "least", &s[VALUES], s[COUNTS].count) < 0
        || open_ends(o[GREATEST], &s[GREATEST], "greatest", &s[VALUES], s[COUNTS].count) < 0)
        return finish(s, 8, NULL);
    if (is_float(s[CODES].kind))
        return finish(s, 8, refuse("codes must hold integers"));
    if (s[TOTALS].count / 2 != s[COUNTS].count || s[TOTALS].count % 2)
        return finish(s, 8, refuse("totals has %zd items, expected two for each of %zd groups", s[TOTALS].count, s[COUNTS].count));
    Groups groups = {(uint64_t)s[COUNTS].count, s[TOTALS].bytes, (int64_t *)s[COUNTS].bytes, (int64_t *)s[NANS].bytes,
                     s[LEAST].bytes, s[GREATEST].bytes};
    Py_ssize_t wrong;
    Py_BEGIN_ALLOW_THREADS
    wrong = add_all(&groups, &s[CODES], &s[VALUES], s[MISSING].bytes);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 8, refuse("codes names a group in row %zd that is not among the %zd", wrong, s[COUNTS].count));
    return finish(s, 8, Py_NewRef(Py_None));
}

PyMethodDef group_functions[] = {
    {"group_totals", group_totals, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
