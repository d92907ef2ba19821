/* The least and greatest value, and the sum; missing rows and NaN left out.
 *
 * Values are handled in blocks. A block with missing rows or NaN is first closed up, so that the loops see only values.
 * Where all are added NaN need not be looked for, up to the first: it shows in the sum.
 * Floats are added in lanes, what each addition loses being added up apart; integers in halves that cannot overflow.
 */
#include "native.h"

enum { BLOCK = 2048, LANES = 16 };

typedef struct {
    int64_t high;     /* integers: high * 2**32 + low */
    uint64_t low;
    double sum[LANES], lost[LANES];
} Sum;

#define COMMON_LOOPS(T, KIND)                                                                                 \
    static Py_ssize_t close_up_##KIND(const T *v, const uint8_t *missing, Py_ssize_t n, T *out)               \
    {                                                                                                         \
        Py_ssize_t kept = 0;                                                                                  \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                  \
            T value = v[i];                                                                                   \
            out[kept] = value;                                                                                \
            kept += (value == value) & (missing == NULL || missing[i] == 0);                                  \
        }                                                                                                     \
        return kept;                                                                                          \
    }                                                                                                         \
    WIDE static void ends_##KIND(const T *v, Py_ssize_t n, T *least, T *greatest)                             \
    {                                                                                                         \
        T low[LANES], high[LANES];                                                                            \
        Py_ssize_t i = 0;                                                                                     \
        for (int j = 0; j < LANES; j++) {                                                                     \
            low[j] = *least;                                                                                  \
            high[j] = *greatest;                                                                              \
        }                                                                                                     \
        for (; i + LANES <= n; i += LANES)                                                                    \
            for (int j = 0; j < LANES; j++) {                                                                 \
                low[j] = v[i + j] < low[j] ? v[i + j] : low[j];                                               \
                high[j] = v[i + j] > high[j] ? v[i + j] : high[j];                                            \
            }                                                                                                 \
        for (; i < n; i++) {                                                                                  \
            low[0] = v[i] < low[0] ? v[i] : low[0];                                                           \
            high[0] = v[i] > high[0] ? v[i] : high[0];                                                        \
        }                                                                                                     \
        for (int j = 0; j < LANES; j++) {                                                                     \
            *least = low[j] < *least ? low[j] : *least;                                                       \
            *greatest = high[j] > *greatest ? high[j] : *greatest;                                            \
        }                                                                                                     \
    }

#define SMALL_SUM(T, KIND)                                            \
    WIDE static void add_##KIND(const T *v, Py_ssize_t n, Sum *sum)   \
    {                                                                 \
        int64_t total = 0;                                            \
        for (Py_ssize_t i = 0; i < n; i++)                            \
            total += v[i];                                            \
        sum->high += total >> 32;                                     \
        sum->low += (uint64_t)total & 0xFFFFFFFFu;                    \
    }

#define LARGE_SUM(T, KIND)                                            \
    WIDE static void add_##KIND(const T *v, Py_ssize_t n, Sum *sum)   \
    {                                                                 \
        int64_t high = 0;                                             \
        uint64_t low = 0;                                             \
        for (Py_ssize_t i = 0; i < n; i++) {                          \
            high += (int64_t)(v[i] >> 32);                            \
            low += (uint64_t)v[i] & 0xFFFFFFFFu;                      \
        }                                                             \
        sum->high += high + (int64_t)(low >> 32);                     \
        sum->low += low & 0xFFFFFFFFu;                                \
    }

/* s + lost is exactly what was added so far and x. */
#define ADD_EXACTLY(s, lost, x)                              \
    do {                                                     \
        double whole_ = (s) + (x), part_ = whole_ - (s);     \
        (lost) += ((s) - (whole_ - part_)) + ((x)-part_);    \
        (s) = whole_;                                        \
    } while (0)

#define FLOAT_SUM(T, KIND)                                                        \
    WIDE static void add_##KIND(const T *v, Py_ssize_t n, Sum *sum)               \
    {                                                                             \
        double s[LANES], lost[LANES];                                             \
        Py_ssize_t i = 0;                                                         \
        memcpy(s, sum->sum, sizeof s);                                            \
        memcpy(lost, sum->lost, sizeof lost);                                     \
        for (; i + LANES <= n; i += LANES)                                        \
            for (int j = 0; j < LANES; j++) {                                     \
                double x = v[i + j];                                              \
                ADD_EXACTLY(s[j], lost[j], x);                                    \
            }                                                                     \
        for (; i < n; i++) {                                                      \
            double x = v[i];                                                      \
            ADD_EXACTLY(s[0], lost[0], x);                                        \
        }                                                                         \
        memcpy(sum->sum, s, sizeof s);                                            \
        memcpy(sum->lost, lost, sizeof lost);                                     \
    }

WIDE static Py_ssize_t count_nan_F32(const float *v, Py_ssize_t n)
{
    int32_t count = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        count += v[i] != v[i];
    return count;
}

WIDE static Py_ssize_t count_nan_F64(const double *v, Py_ssize_t n)
{
    int64_t count = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        count += v[i] != v[i];
    return count;
}

#define NO_NAN(v, n) 0

/* Whether what was added is finite; of integers it always is. */
static inline int is_finite(const Sum *sum)
{
    double none = 0;
    for (int j = 0; j < LANES; j++)
        none += (sum->sum[j] - sum->sum[j]) + (sum->lost[j] - sum->lost[j]);
    return none == 0;
}

/* All values through the loops: what is wanted of `sum`, `least` and `greatest` is not NULL. */
#define WHOLE_LOOP(T, KIND, COUNT_NAN)                                                                        \
    static void whole_##KIND(const T *v, const uint8_t *missing, Py_ssize_t n, Sum *sum, T *least, T *greatest, \
                             Py_ssize_t *n_present, Py_ssize_t *n_nan)                                        \
    {                                                                                                         \
        T kept[BLOCK];                                                                                        \
        int has_nan = sum == NULL;                                                                            \
        for (Py_ssize_t i = 0; i < n; i += BLOCK) {                                                           \
            Py_ssize_t some = n - i < BLOCK ? n - i : BLOCK, full = some;                                     \
            Py_ssize_t gone = missing ? count_mask(missing + i, some) : 0;                                    \
            const T *block = v + i;                                                                           \
            if (!gone && !has_nan) {                                                                          \
                Sum before = *sum;                                                                            \
                add_##KIND(block, some, sum);                                                                 \
                if (is_finite(sum)) {                                                                         \
                    *n_present += some;                                                                       \
                    continue;                                                                                 \
                }                                                                                             \
                *sum = before;                                                                                \
                has_nan = 1;                                                                                  \
            }                                                                                                 \
            if (gone || COUNT_NAN(v + i, some)) {                                                             \
                some = close_up_##KIND(v + i, missing ? missing + i : NULL, some, kept);                      \
                *n_nan += full - gone - some;                                                                 \
                block = kept;                                                                                 \
            }                                                                                                 \
            *n_present += some;                                                                               \
            if (sum)                                                                                          \
                add_##KIND(block, some, sum);                                                                 \
            if (least)                                                                                        \
                ends_##KIND(block, some, least, greatest);                                                    \
        }                                                                                                     \
    }

#define WHOLE_TYPE(T, KIND, SUM_LOOP, COUNT_NAN) COMMON_LOOPS(T, KIND) SUM_LOOP(T, KIND) WHOLE_LOOP(T, KIND, COUNT_NAN)
WHOLE_TYPE(int8_t, I8, SMALL_SUM, NO_NAN)
WHOLE_TYPE(int16_t, I16, SMALL_SUM, NO_NAN)
WHOLE_TYPE(int32_t, I32, SMALL_SUM, NO_NAN)
WHOLE_TYPE(int64_t, I64, LARGE_SUM, NO_NAN)
WHOLE_TYPE(uint8_t, U8, SMALL_SUM, NO_NAN)
WHOLE_TYPE(uint16_t, U16, SMALL_SUM, NO_NAN)
WHOLE_TYPE(uint32_t, U32, SMALL_SUM, NO_NAN)
WHOLE_TYPE(uint64_t, U64, LARGE_SUM, NO_NAN)
WHOLE_TYPE(float, F32, FLOAT_SUM, count_nan_F32)
WHOLE_TYPE(double, F64, FLOAT_SUM, count_nan_F64)

typedef union {
    int64_t i;
    uint64_t u;
    double d;
} Number;

typedef struct {
    Sum sum;
    Number least, greatest;
    Py_ssize_t n_present, n_nan;
} Answer;

static void run(const Span *values, const uint8_t *missing, int want_sum, Answer *answer)
{
    Sum *sum = want_sum ? &answer->sum : NULL;
    Py_ssize_t *n_present = &answer->n_present, *n_nan = &answer->n_nan;
#define RUN(T, KIND, field, LEAST, GREATEST)                                                                  \
    case KIND: {                                                                                              \
        T least = GREATEST, greatest = LEAST;                                                                 \
        whole_##KIND((const T *)values->bytes, missing, values->count, sum, want_sum ? NULL : &least, &greatest, \
                     n_present, n_nan);                                                                       \
        answer->least.field = least;                                                                          \
        answer->greatest.field = greatest;                                                                    \
        break;                                                                                                \
    }
    switch (values->kind) {
        RUN(int8_t, I8, i, INT8_MIN, INT8_MAX)
        RUN(int16_t, I16, i, INT16_MIN, INT16_MAX)
        RUN(int32_t, I32, i, INT32_MIN, INT32_MAX)
        RUN(int64_t, I64, i, INT64_MIN, INT64_MAX)
        RUN(uint8_t, U8, u, 0, UINT8_MAX)
        RUN(uint16_t, U16, u, 0, UINT16_MAX)
        RUN(uint32_t, U32, u, 0, UINT32_MAX)
        RUN(uint64_t, U64, u, 0, UINT64_MAX)
        RUN(float, F32, d, -INFINITY, INFINITY)
        RUN(double, F64, d, -INFINITY, INFINITY)
    default: break;
    }
#undef RUN
}

static int open_call(PyObject *arguments, Span *s)
{
    PyObject *values, *missing;
    if (!PyArg_ParseTuple(arguments, "OO", &values, &missing))
        return -1;
    if (open_values(values, &s[0], "values") < 0)
        return -1;
    return open_optional_mask(missing, &s[1], "missing", s[0].count);
}

static PyObject *number(Kind kind, Number value)
{
    if (is_float(kind))
        return PyFloat_FromDouble(value.d + 0.0);  /* -0.0 is given as 0.0 */
    return is_signed(kind) ? PyLong_FromLongLong(value.i) : PyLong_FromUnsignedLongLong(value.u);
}

static PyObject *least_greatest(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Span s[2] = {0};
    Answer answer = {0};
    if (open_call(arguments, s) < 0)
        return finish(s, 2, NULL);
    Py_BEGIN_ALLOW_THREADS
    run(&s[0], s[1].bytes, 0, &answer);
    Py_END_ALLOW_THREADS
    if (!answer.n_present)
        return finish(s, 2, Py_BuildValue("OOnn", Py_None, Py_None, (Py_ssize_t)0, answer.n_nan));
    return finish(s, 2, Py_BuildValue("NNnn", number(s[0].kind, answer.least), number(s[0].kind, answer.greatest),
                                      answer.n_present, answer.n_nan));
}

static double float_total(const Sum *sum)
{
    double whole = 0, lost = 0, plain = 0;
    for (int j = 0; j < LANES; j++) {
        plain += sum->sum[j];
        ADD_EXACTLY(whole, lost, sum->sum[j]);
    }
    for (int j = 0; j < LANES; j++)
        lost += sum->lost[j];
    return isfinite(plain) && isfinite(lost) ? whole + lost : plain;
}

static PyObject *whole_total(const Sum *sum)
{
    PyObject *high = PyLong_FromLongLong(sum->high), *low = PyLong_FromUnsignedLongLong(sum->low);
    PyObject *bits = PyLong_FromLong(32), *shifted = NULL, *total = NULL;
    if (high && low && bits)
        shifted = PyNumber_Lshift(high, bits);
    if (shifted)
        total = PyNumber_Add(shifted, low);
    Py_XDECREF(high);
    Py_XDECREF(low);
    Py_XDECREF(bits);
    Py_XDECREF(shifted);
    return total;
}

static PyObject *total(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Span s[2] = {0};
    Answer answer = {0};
    if (open_call(arguments, s) < 0)
        return finish(s, 2, NULL);
    Py_BEGIN_ALLOW_THREADS
    run(&s[0], s[1].bytes, 1, &answer);
    Py_END_ALLOW_THREADS
    PyObject *sum = is_float(s[0].kind) ? PyFloat_FromDouble(float_total(&answer.sum)) : whole_total(&answer.sum);
    return finish(s, 2, sum ? Py_BuildValue("Nnn", sum, answer.n_present, answer.n_nan) : NULL);
}

PyMethodDef total_functions[] = {
    {"least_greatest", least_greatest, METH_VARARGS, NULL},
    {"total", total, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
