/* Masks: one byte a row, not 0 is true; what is written is 0 or 1. Bits are packed as Arrow does, the lowest first. */
#include "native.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

Py_ssize_t rows_of_mask(const uint8_t *mask, Py_ssize_t n, int64_t base, int64_t *out, Py_ssize_t room)
{
    Py_ssize_t found = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word = load64(mask + i);
        if (!word)
            continue;
        word = truths(word);
        int64_t row = base + i;
        if (room - found < 8) {
            if (room - found < count_bits(word))
                return -1;
            for (; word; word &= word - 1)
                out[found++] = row + lowest_bit(word) / 8;
            continue;
        }
        if (word == 0x0101010101010101ull) {
            for (int j = 0; j < 8; j++)
                out[found + j] = row + j;
            found += 8;
            continue;
        }
        for (int j = 0; j < 8; j++) {  /* written always, counted where true: no branch to guess */
            out[found] = row + j;
            found += (Py_ssize_t)(word >> (8 * j) & 1);
        }
    }
    for (; i < n; i++) {
        if (!mask[i])
            continue;
        if (found >= room)
            return -1;
        out[found++] = base + i;
    }
    return found;
}

WIDE static Py_ssize_t count_true(const uint8_t *mask, Py_ssize_t n)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < n;) {
        uint8_t lanes[32] = {0};
        Py_ssize_t rounds = (n - i) / 32 < 255 ? (n - i) / 32 : 255;
        if (rounds == 0) {
            for (; i < n; i++)
                count += mask[i] != 0;
            break;
        }
        for (; rounds > 0; rounds--, i += 32)
            for (int j = 0; j < 32; j++)
                lanes[j] += mask[i + j] != 0;
        for (int j = 0; j < 32; j++)
            count += lanes[j];
    }
    return count;
}

Py_ssize_t count_mask(const uint8_t *mask, Py_ssize_t n) { return count_true(mask, n); }

WIDE static void combine_and(const uint8_t *a, const uint8_t *b, uint8_t *out, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = (a[i] != 0) & (b[i] != 0);
}

WIDE static void combine_or(const uint8_t *a, const uint8_t *b, uint8_t *out, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = (a[i] | b[i]) != 0;
}

WIDE static void negate(const uint8_t *a, uint8_t *out, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = a[i] == 0;
}

static PyObject *combine(PyObject *arguments, void (*work)(const uint8_t *, const uint8_t *, uint8_t *, Py_ssize_t))
{
    PyObject *a, *b, *out;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OOO", &a, &b, &out))
        return NULL;
    if (open_mask(a, &s[0], "a") < 0 || open_mask(b, &s[1], "b") < 0 || open_mask_out(out, &s[2], "out") < 0
        || same_count(&s[0], &s[1]) < 0 || same_count(&s[0], &s[2]) < 0)
        return finish(s, 3, NULL);
    Py_BEGIN_ALLOW_THREADS
    work(s[0].bytes, s[1].bytes, s[2].bytes, s[0].count);
    Py_END_ALLOW_THREADS
    return finish(s, 3, Py_NewRef(Py_None));
}

static PyObject *mask_and(PyObject *Py_UNUSED(module), PyObject *arguments) { return combine(arguments, combine_and); }
static PyObject *mask_or(PyObject *Py_UNUSED(module), PyObject *arguments) { return combine(arguments, combine_or); }

static PyObject *mask_not(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *a, *out;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OO", &a, &out))
        return NULL;
    if (open_mask(a, &s[0], "a") < 0 || open_mask_out(out, &s[1], "out") < 0 || same_count(&s[0], &s[1]) < 0)
        return finish(s, 2, NULL);
    Py_BEGIN_ALLOW_THREADS
    negate(s[0].bytes, s[1].bytes, s[0].count);
    Py_END_ALLOW_THREADS
    return finish(s, 2, Py_NewRef(Py_None));
}

static PyObject *mask_count(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *mask;
    Span s = {0};
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "O", &mask))
        return NULL;
    if (open_mask(mask, &s, "mask") < 0)
        return finish(&s, 1, NULL);
    Py_BEGIN_ALLOW_THREADS
    count = count_mask(s.bytes, s.count);
    Py_END_ALLOW_THREADS
    return finish(&s, 1, PyLong_FromSsize_t(count));
}

static PyObject *mask_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *mask, *out;
    long long base;
    Span s[2] = {0};
    Py_ssize_t found;
    if (!PyArg_ParseTuple(arguments, "OLO", &mask, &base, &out))
        return NULL;
    if (open_mask(mask, &s[0], "mask") < 0 || open_kind_out(out, &s[1], "out", I64) < 0)
        return finish(s, 2, NULL);
    if (base < 0 || base > INT64_MAX - s[0].count)
        return finish(s, 2, refuse("base is %lld, which no row can have", base));
    Py_BEGIN_ALLOW_THREADS
    found = rows_of_mask(s[0].bytes, s[0].count, base, (int64_t *)s[1].bytes, s[1].count);
    Py_END_ALLOW_THREADS
    if (found < 0)
        return finish(s, 2, refuse("out has room for %zd rows, which is too few", s[1].count));
    return finish(s, 2, PyLong_FromSsize_t(found));
}

/* Rows where the truth changes, and one behind the last where it is true; -1 where `room` is too small. */
static Py_ssize_t edges_of_mask(const uint8_t *mask, Py_ssize_t n, int64_t base, int64_t *out, Py_ssize_t room)
{
    Py_ssize_t found = 0, i = 0;
    uint64_t before = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word = truths(load64(mask + i)), changed = word ^ (word << 8 | before);
        before = word >> 56;
        if (!changed)
            continue;
        if (UNLIKELY(room - found < 8 && room - found < count_bits(changed)))
            return -1;
        for (; changed; changed &= changed - 1)
            out[found++] = base + i + lowest_bit(changed) / 8;
    }
    for (; i < n; i++) {
        if ((mask[i] != 0) == (int)before)
            continue;
        before = !before;
        if (found >= room)
            return -1;
        out[found++] = base + i;
    }
    if (before) {
        if (found >= room)
            return -1;
        out[found++] = base + n;
    }
    return found;
}

static PyObject *mask_edges(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *mask, *out;
    long long base;
    Py_ssize_t found;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OLO", &mask, &base, &out))
        return NULL;
    if (open_mask(mask, &s[0], "mask") < 0 || open_kind_out(out, &s[1], "out", I64) < 0)
        return finish(s, 2, NULL);
    if (base < 0 || base > INT64_MAX - s[0].count)
        return finish(s, 2, refuse("base is %lld, which no row can have", base));
    Py_BEGIN_ALLOW_THREADS
    found = edges_of_mask(s[0].bytes, s[0].count, base, (int64_t *)s[1].bytes, s[1].count);
    Py_END_ALLOW_THREADS
    if (found < 0)
        return finish(s, 2, refuse("out has room for %zd rows, which is too few", s[1].count));
    return finish(s, 2, PyLong_FromSsize_t(found));
}

/* The rows of ranges; 0 where they are not as many as there is room for, or a range ends before it begins. */
static int rows_of_ranges(const int64_t *starts, const int64_t *stops, Py_ssize_t n, int64_t *out, Py_ssize_t room)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t start = starts[i], stop = stops[i];
        if (UNLIKELY(start < 0 || stop < start || stop - start > room))
            return 0;
        room -= (Py_ssize_t)(stop - start);
        for (int64_t row = start; row < stop; row++)
            *out++ = row;
    }
    return room == 0;
}

static PyObject *ranges_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *starts, *stops, *out;
    Span s[3] = {0};
    int fit;
    if (!PyArg_ParseTuple(arguments, "OOO", &starts, &stops, &out))
        return NULL;
    if (open_kind(starts, &s[0], "starts", I64) < 0 || open_kind(stops, &s[1], "stops", I64) < 0
        || open_kind_out(out, &s[2], "out", I64) < 0 || same_count(&s[0], &s[1]) < 0)
        return finish(s, 3, NULL);
    Py_BEGIN_ALLOW_THREADS
    fit = rows_of_ranges((int64_t *)s[0].bytes, (int64_t *)s[1].bytes, s[0].count, (int64_t *)s[2].bytes, s[2].count);
    Py_END_ALLOW_THREADS
    if (!fit)
        return finish(s, 3, refuse("starts and stops are no ranges of %zd rows", s[2].count));
    return finish(s, 3, Py_NewRef(Py_None));
}

static void pack(const uint8_t *mask, Py_ssize_t n, uint8_t *bits)
{
    Py_ssize_t i = 0;
#if defined(__SSE2__)
    for (; i + 16 <= n; i += 16) {
        __m128i zero = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(mask + i)), _mm_setzero_si128());
        uint16_t two = (uint16_t)~_mm_movemask_epi8(zero);
        memcpy(bits + i / 8, &two, 2);
    }
#endif
    for (; i + 8 <= n; i += 8)
        bits[i / 8] = (uint8_t)packed8(truths(load64(mask + i)));
    if (i < n) {
        unsigned last = 0;
        for (Py_ssize_t j = i; j < n; j++)
            last |= (unsigned)(mask[j] != 0) << (j - i);
        bits[i / 8] = (uint8_t)last;
    }
}

static void unpack(const uint8_t *bits, Py_ssize_t n, uint8_t *mask)
{
    Py_ssize_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t spread = bits[i / 8] * 0x0101010101010101ull & 0x8040201008040201ull;
        store64(mask + i, truths(spread));
    }
    for (; i < n; i++)
        mask[i] = bits[i / 8] >> (i % 8) & 1;
}

static PyObject *mask_bits(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *mask, *bits;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OO", &mask, &bits))
        return NULL;
    if (open_mask(mask, &s[0], "mask") < 0 || open_bytes_out(bits, &s[1], "out") < 0)
        return finish(s, 2, NULL);
    Py_ssize_t wanted = s[0].count / 8 + (s[0].count % 8 != 0);
    if (s[1].n_bytes != wanted)
        return finish(s, 2, refuse("out has %zd bytes, expected %zd", s[1].n_bytes, wanted));
    Py_BEGIN_ALLOW_THREADS
    pack(s[0].bytes, s[0].count, s[1].bytes);
    Py_END_ALLOW_THREADS
    return finish(s, 2, Py_NewRef(Py_None));
}

static PyObject *bits_mask(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bits, *mask;
    Span s[2] = {0};
    if (!PyArg_ParseTuple(arguments, "OO", &bits, &mask))
        return NULL;
    if (open_bytes(bits, &s[0], "bits") < 0 || open_mask_out(mask, &s[1], "out") < 0)
        return finish(s, 2, NULL);
    if (s[1].count / 8 + (s[1].count % 8 != 0) > s[0].n_bytes)
        return finish(s, 2, refuse("bits has %zd bytes, too few for %zd rows", s[0].n_bytes, s[1].count));
    Py_BEGIN_ALLOW_THREADS
    unpack(s[0].bytes, s[1].count, s[1].bytes);
    Py_END_ALLOW_THREADS
    return finish(s, 2, Py_NewRef(Py_None));
}

PyMethodDef mask_functions[] = {
    {"mask_and", mask_and, METH_VARARGS, NULL},
    {"mask_or", mask_or, METH_VARARGS, NULL},
    {"mask_not", mask_not, METH_VARARGS, NULL},
    {"mask_count", mask_count, METH_VARARGS, NULL},
    {"mask_edges", mask_edges, METH_VARARGS, NULL},
    {"ranges_rows", ranges_rows, METH_VARARGS, NULL},
    {"mask_rows", mask_rows, METH_VARARGS, NULL},
    {"mask_bits", mask_bits, METH_VARARGS, NULL},
    {"bits_mask", bits_mask, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
