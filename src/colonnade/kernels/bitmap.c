/* Bits: bit r % 8 of byte r // 8, counted from the lowest, is row r. A line of whole bytes for each value. */
#include "native.h"

enum {
    FEW_VALUES = 256, /* values whose bits are made in windows */
    WINDOW = 65536,   /* bytes of all lines of a window, which the processor keeps near */
    WIDEST = 1024,    /* bytes of one line of a window */
};

/* The first row whose code names no value, or -1. A negative code means missing. */
#define LINE_LOOP(T, KIND)                                                                                  \
    static Py_ssize_t lines_##KIND(const T *codes, Py_ssize_t n, uint64_t n_values, uint8_t *out, Py_ssize_t line) \
    {                                                                                                       \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                \
            T code = codes[i];                                                                              \
            if ((T)-1 < 0 && (int64_t)code < 0)                                                             \
                continue;                                                                                   \
            if (UNLIKELY((uint64_t)code >= n_values))                                                       \
                return i;                                                                                   \
            out[(Py_ssize_t)code * line + i / 8] |= (uint8_t)(1u << (i % 8));                               \
        }                                                                                                   \
        return -1;                                                                                          \
    }
LINE_LOOP(int8_t, I8)
LINE_LOOP(int16_t, I16)
LINE_LOOP(int32_t, I32)
LINE_LOOP(int64_t, I64)
LINE_LOOP(uint8_t, U8)
LINE_LOOP(uint16_t, U16)
LINE_LOOP(uint32_t, U32)
LINE_LOOP(uint64_t, U64)

static Py_ssize_t make_lines(const Span *codes, uint64_t n_values, uint8_t *out, Py_ssize_t line)
{
#define MAKE(T, KIND) case KIND: return lines_##KIND((const T *)codes->bytes, codes->count, n_values, out, line);
    switch (codes->kind) {
        MAKE(int8_t, I8) MAKE(int16_t, I16) MAKE(int32_t, I32) MAKE(int64_t, I64)
        MAKE(uint8_t, U8) MAKE(uint16_t, U16) MAKE(uint32_t, U32) MAKE(uint64_t, U64)
    default: return 0;
    }
#undef MAKE
}

/* The same, by windows of rows whose lines are side by side. Lines that are a power of two apart share few places of the
 * processor's cache, so each byte would be fetched again for most rows. */
static Py_ssize_t make_lines_in_windows(const Span *codes, uint64_t n_values, uint8_t *out, Py_ssize_t line)
{
    uint8_t near[WINDOW];
    Span window = *codes;
    Py_ssize_t step = n_values * WIDEST <= WINDOW ? WIDEST : WINDOW / (Py_ssize_t)n_values / 64 * 64;
    for (Py_ssize_t at = 0; at < line; at += step) {
        Py_ssize_t width = line - at < step ? line - at : step, left = codes->count - 8 * at;
        window.bytes = codes->bytes + 8 * at * codes->size;
        window.count = left < 8 * width ? left : 8 * width;
        memset(near, 0, (size_t)n_values * (size_t)step);
        Py_ssize_t wrong = make_lines(&window, n_values, near, step);
        if (wrong >= 0)
            return 8 * at + wrong;
        for (uint64_t value = 0; value < n_values; value++)
            memcpy(out + (Py_ssize_t)value * line + at, near + (Py_ssize_t)value * step, (size_t)width);
    }
    return -1;
}

static PyObject *code_bits(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *codes, *out;
    Py_ssize_t n_values, wrong = -1;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OnO", &codes, &n_values, &out))
        return NULL;
    if (open_values(codes, &s[0], "codes") < 0 || open_bytes_out(out, &s[1], "out") < 0)
        return finish(s, 2, NULL);
    if (is_float(s[0].kind))
        return finish(s, 2, refuse("codes must hold integers"));
    Py_ssize_t line = s[0].count / 8 + (s[0].count % 8 != 0);
    if (n_values < 0 || product(n_values, line) != s[1].n_bytes)
        return finish(s, 2, refuse("out has %zd bytes, expected %zd lines of %zd", s[1].n_bytes, n_values, line));
    Py_BEGIN_ALLOW_THREADS
    if (n_values > FEW_VALUES && line) {
        memset(s[1].bytes, 0, (size_t)s[1].n_bytes);
        wrong = make_lines(&s[0], (uint64_t)n_values, s[1].bytes, line);
    }
    else
        wrong = make_lines_in_windows(&s[0], (uint64_t)n_values, s[1].bytes, line);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 2, refuse("codes names a value in row %zd that is not among the %zd", wrong, n_values));
    return finish(s, 2, Py_NewRef(Py_None));
}

/* -- reading bits: all functions take a number of rows; bits after those rows are ignored -- */

/* Up to 64 bits from row `from` on, a multiple of 64; rows after the last are 0. */
static inline uint64_t word_at(const uint8_t *bits, Py_ssize_t from, Py_ssize_t n)
{
    Py_ssize_t left = n - from;
    uint64_t word = 0;
    if (left >= 64)
        return load64(bits + from / 8);
    memcpy(&word, bits + from / 8, (size_t)((left + 7) / 8));
    return word & (((uint64_t)1 << left) - 1);
}

#if defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define COUNTING __attribute__((target_clones("popcnt", "default")))
#else
#define COUNTING
#endif
COUNTING static Py_ssize_t count_all(const uint8_t *bits, Py_ssize_t n)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < n; i += 64)
        count += count_bits(word_at(bits, i, n));
    return count;
}

/* Where ranges of rows begin: bits that are 1 after one that is 0; the bit before the word is `before`. */
static inline uint64_t first_bits(uint64_t word, uint64_t before) { return word & ~(word << 1 | before); }

COUNTING static Py_ssize_t count_ranges(const uint8_t *bits, Py_ssize_t n)
{
    Py_ssize_t found = 0;
    uint64_t before = 0;
    for (Py_ssize_t i = 0; i < n; i += 64) {
        uint64_t word = word_at(bits, i, n);
        found += count_bits(first_bits(word, before));
        before = word >> 63;
    }
    return found;
}

/* Ranges of rows; -1 where there is too little room. */
static Py_ssize_t ranges_of_bits(const uint8_t *bits, Py_ssize_t n, int64_t base, int64_t *starts, int64_t *stops,
                                 Py_ssize_t room)
{
    Py_ssize_t begun = 0, ended = 0;
    uint64_t before = 0;
    for (Py_ssize_t i = 0; i < n; i += 64) {
        uint64_t word = word_at(bits, i, n), firsts = first_bits(word, before), lasts = ~word & (word << 1 | before);
        if (UNLIKELY(begun + 64 > room && begun + count_bits(firsts) > room))
            return -1;
        for (; firsts; firsts &= firsts - 1)
            starts[begun++] = base + i + lowest_bit(firsts);
        for (; lasts; lasts &= lasts - 1)  /* never more than have begun */
            stops[ended++] = base + i + lowest_bit(lasts);
        before = word >> 63;
    }
    if (ended < begun)
        stops[ended++] = base + n;
    return ended;
}

static int open_bits(PyObject *object, Span *span, Py_ssize_t n_rows)
{
    if (open_bytes(object, span, "bits") < 0)
        return -1;
    if (n_rows < 0 || n_rows / 8 + (n_rows % 8 != 0) > span->n_bytes) {
        refuse("bits has %zd bytes, too few for %zd rows", span->n_bytes, n_rows);
        return -1;
    }
    return 0;
}

static int check_base(long long base, Py_ssize_t n_rows)
{
    if (base >= 0 && base <= INT64_MAX - n_rows)
        return 0;
    refuse("base is %lld, which no row can have", base);
    return -1;
}

static PyObject *bits_count(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bits;
    Py_ssize_t n, count;
    Span s = {0};
    if (!PyArg_ParseTuple(arguments, "On", &bits, &n))
        return NULL;
    if (open_bits(bits, &s, n) < 0)
        return finish(&s, 1, NULL);
    Py_BEGIN_ALLOW_THREADS
    count = count_all(s.bytes, n);
    Py_END_ALLOW_THREADS
    return finish(&s, 1, PyLong_FromSsize_t(count));
}

static PyObject *bits_range_count(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bits;
    Py_ssize_t n, count;
    Span s = {0};
    if (!PyArg_ParseTuple(arguments, "On", &bits, &n))
        return NULL;
    if (open_bits(bits, &s, n) < 0)
        return finish(&s, 1, NULL);
    Py_BEGIN_ALLOW_THREADS
    count = count_ranges(s.bytes, n);
    Py_END_ALLOW_THREADS
    return finish(&s, 1, PyLong_FromSsize_t(count));
}

static PyObject *bits_ranges(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bits, *starts, *stops;
    Py_ssize_t n, found;
    long long base;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OnLOO", &bits, &n, &base, &starts, &stops))
        return NULL;
    if (open_bits(bits, &s[0], n) < 0 || open_kind_out(starts, &s[1], "starts", I64) < 0
        || open_kind_out(stops, &s[2], "stops", I64) < 0 || same_count(&s[1], &s[2]) < 0 || check_base(base, n) < 0)
        return finish(s, 3, NULL);
    Py_BEGIN_ALLOW_THREADS
    found = ranges_of_bits(s[0].bytes, n, base, (int64_t *)s[1].bytes, (int64_t *)s[2].bytes, s[1].count);
    Py_END_ALLOW_THREADS
    if (found < 0)
        return finish(s, 3, refuse("starts has room for %zd ranges, which is too few", s[1].count));
    return finish(s, 3, PyLong_FromSsize_t(found));
}

PyMethodDef bitmap_functions[] = {
    {"code_bits", code_bits, METH_VARARGS, NULL},
    {"bits_count", bits_count, METH_VARARGS, NULL},
    {"bits_range_count", bits_range_count, METH_VARARGS, NULL},
    {"bits_ranges", bits_ranges, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
