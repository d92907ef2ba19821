/* Masks, of one byte per row, where any byte but 0 is true; and ranges of rows. */
#include "native.h"

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

/* Rows where the mask changes, and the row after the last if that one is true; -1 where `room` is too small. */
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
        return finish(s, 3, refuse("starts and stops are not ranges of %zd rows", s[2].count));
    return finish(s, 3, Py_NewRef(Py_None));
}

PyMethodDef mask_functions[] = {
    {"mask_edges", mask_edges, METH_VARARGS, NULL},
    {"ranges_rows", ranges_rows, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
