/* Cells of a matrix: by rows, as SciPy's CSR has them, and as points, as section 0 of a sectioned chunk has them. */
#include "native.h"

enum { SEEN = 1 << 16, NEVER = 0, ABOVE = 1, FIRST = 2, LAST = 255 };

/* Columns of a row as points, each made as one number: the row in its lower half. 0 where columns do not increase. */
#define POINTS_OF_ROW(NAME, MINOR, POINT)                                                                             \
    WIDE static int NAME(const MINOR *restrict minor, Py_ssize_t n, int64_t column, uint64_t row,                     \
                         uint8_t *restrict out)                                                                       \
    {                                                                                                                 \
        const int half = 4 * (int)sizeof(POINT);                                                                      \
        const POINT low = (POINT)row, first = (POINT)column;                                                          \
        unsigned wrong = 0;                                                                                           \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                          \
            POINT point = (POINT)(((POINT)minor[i] - first) << half | low);                                           \
            memcpy(out + i * (Py_ssize_t)sizeof point, &point, sizeof point);                                         \
        }                                                                                                             \
        for (Py_ssize_t i = 1; i < n; i++)                                                                            \
            wrong |= minor[i] <= minor[i - 1];                                                                        \
        return !wrong;                                                                                                \
    }

POINTS_OF_ROW(points_32_2, int32_t, uint32_t)
POINTS_OF_ROW(points_32_4, int32_t, uint64_t)
POINTS_OF_ROW(points_64_2, int64_t, uint32_t)
POINTS_OF_ROW(points_64_4, int64_t, uint64_t)

typedef struct {
    const uint8_t *bytes;
    Py_ssize_t count;
    int wide;             /* columns of 64 bits, else 32 */
} Minor;

static int64_t column_at(const Minor *minor, Py_ssize_t i)
{
    return minor->wide ? (int64_t)load64(minor->bytes + 8 * i) : (int32_t)load32(minor->bytes + 4 * i);
}

static int open_minor(PyObject *object, Span *span, Minor *minor)
{
    if (open_values(object, span, "minor") < 0)
        return -1;
    if (span->kind != I32 && span->kind != I64) {
        refuse("minor must hold int32 or int64");
        return -1;
    }
    *minor = (Minor){span->bytes, span->count, span->kind == I64};
    return 0;
}

static int is_range(int64_t start, int64_t stop, Py_ssize_t count)
{
    return 0 <= start && start <= stop && stop <= count;
}

/* The same with numbers of 8 bytes, which only chunks of huge dimensions have. */
static int points_8(const Minor *minor, int64_t start, Py_ssize_t n, int64_t column, uint64_t row, uint8_t *out)
{
    int64_t before = -1;
    for (Py_ssize_t i = 0; i < n; i++, out += 16) {
        int64_t here = column_at(minor, start + i);
        if (here <= before)
            return 0;
        store64(out, row);
        store64(out + 8, (uint64_t)here - (uint64_t)column);
        before = here;
    }
    return 1;
}

static int row_points(const Minor *minor, int64_t start, Py_ssize_t n, int64_t column, uint64_t row, int item, uint8_t *out)
{
    if (item == 8)
        return points_8(minor, start, n, column, row, out);
    if (minor->wide) {
        const int64_t *from = (const int64_t *)minor->bytes + start;
        return item == 2 ? points_64_2(from, n, column, row, out) : points_64_4(from, n, column, row, out);
    }
    const int32_t *from = (const int32_t *)minor->bytes + start;
    return item == 2 ? points_32_2(from, n, column, row, out) : points_32_4(from, n, column, row, out);
}

/* -1 when all is well; the row that is wrong; n_rows where there are fewer cells than room. */
static Py_ssize_t put_points(const Minor *minor, const int64_t *starts, const int64_t *stops, Py_ssize_t n_rows,
                             int64_t column, int64_t width, int item, uint8_t *out, Py_ssize_t room)
{
    uint64_t most = item == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * item)) - 1;
    for (Py_ssize_t row = 0; row < n_rows; row++) {
        int64_t start = starts[row], stop = stops[row];
        if (!is_range(start, stop, minor->count) || stop - start > room)
            return row;
        Py_ssize_t n = (Py_ssize_t)(stop - start);
        if (n == 0)
            continue;
        int64_t last = column_at(minor, stop - 1);
        if (column_at(minor, start) < column || last < column || last - column >= width
            || (uint64_t)(last - column) > most || (uint64_t)row > most
            || !row_points(minor, start, n, column, (uint64_t)row, item, out))
            return row;
        out += n * 2 * item;
        room -= n;
    }
    return room ? n_rows : -1;
}

static PyObject *rows_to_points(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *minor, *starts, *stops, *points;
    long long column, width;
    int item;
    Py_ssize_t wrong;
    Minor columns;
    Span s[4] = {0};
    if (!PyArg_ParseTuple(arguments, "OOOLLiO", &minor, &starts, &stops, &column, &width, &item, &points))
        return NULL;
    if (open_minor(minor, &s[0], &columns) < 0 || open_kind(starts, &s[1], "starts", I64) < 0
        || open_kind(stops, &s[2], "stops", I64) < 0 || open_bytes_out(points, &s[3], "points") < 0
        || same_count(&s[1], &s[2]) < 0)
        return finish(s, 4, NULL);
    if (item != 2 && item != 4 && item != 8)
        return finish(s, 4, refuse("item is %d, expected 2, 4 or 8", item));
    if (column < 0 || width < 1 || column > INT64_MAX - width)
        return finish(s, 4, refuse("columns from %lld, %lld of them, are none", column, width));
    if (s[3].n_bytes % (2 * item))
        return finish(s, 4, refuse("points has %zd bytes, which is not a multiple of a point's size", s[3].n_bytes));
    Py_BEGIN_ALLOW_THREADS
    wrong = put_points(&columns, (const int64_t *)s[1].bytes, (const int64_t *)s[2].bytes, s[1].count, column, width,
                       item, s[3].bytes, s[3].n_bytes / (2 * item));
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 4, refuse("row %zd has columns that do not increase, leave the chunk or the items, or are "
                                   "not as many as the points", wrong));
    Py_INCREF(Py_None);
    return finish(s, 4, Py_None);
}

/* -1, or the row that does not lie in minor. Where columns do not increase, the cuts mean nothing, but lie in the row. */
static Py_ssize_t cut_all(const Minor *minor, const int64_t *ends, Py_ssize_t n_rows, int64_t width, Py_ssize_t n_cuts,
                          int64_t *cuts)
{
    for (Py_ssize_t row = 0; row < n_rows; row++, cuts += n_cuts) {
        int64_t start = ends[row], stop = ends[row + 1];
        if (!is_range(start, stop, minor->count))
            return row;
        Py_ssize_t filled = 1;
        cuts[0] = start;
        int64_t limit = width;  /* of the chunk that is filled */
        for (int64_t i = start; i < stop; i++) {
            int64_t column = column_at(minor, i);
            while (filled < n_cuts - 1 && column >= limit) {
                cuts[filled++] = i;
                limit = limit > INT64_MAX - width ? INT64_MAX : limit + width;
            }
        }
        while (filled < n_cuts)
            cuts[filled++] = stop;
    }
    return -1;
}

static PyObject *cut_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *minor, *ends, *cuts;
    long long width;
    Py_ssize_t n_chunks, wrong;
    Minor columns;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OOLnO", &minor, &ends, &width, &n_chunks, &cuts))
        return NULL;
    if (open_minor(minor, &s[0], &columns) < 0 || open_kind(ends, &s[1], "ends", I64) < 0
        || open_kind_out(cuts, &s[2], "cuts", I64) < 0)
        return finish(s, 3, NULL);
    if (width < 1 || n_chunks < 1 || n_chunks == PY_SSIZE_T_MAX)
        return finish(s, 3, refuse("there are %zd chunks of %lld columns, expected at least 1", n_chunks, width));
    if (s[1].count < 1)
        return finish(s, 3, refuse("ends is empty, expected one more than rows"));
    Py_ssize_t n_rows = s[1].count - 1;
    if (product(n_rows, n_chunks + 1) != s[2].count)
        return finish(s, 3, refuse("cuts has %zd items, expected %zd rows of %zd", s[2].count, n_rows, n_chunks + 1));
    Py_BEGIN_ALLOW_THREADS
    wrong = cut_all(&columns, (const int64_t *)s[1].bytes, n_rows, width, n_chunks + 1, (int64_t *)s[2].bytes);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 3, refuse("row %zd does not lie in minor", wrong));
    Py_INCREF(Py_None);
    return finish(s, 3, Py_None);
}

/* Cells of a row that have none before and none above; `seen` has the rows of columns, by their lowest bits. */
#define COUNT_APART(NAME, MINOR)                                                                                      \
    static Py_ssize_t NAME(const MINOR *minor, Py_ssize_t n, uint8_t *seen, uint8_t label)                            \
    {                                                                                                                 \
        Py_ssize_t apart = n;                                                                                         \
        const uint8_t above = (uint8_t)(label - 1);                                                                   \
        uint64_t before = (uint64_t)minor[0] - 2;                                                                     \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                          \
            uint64_t here = (uint64_t)minor[i];                                                                       \
            uint8_t *place = seen + (here & (SEEN - 1));                                                              \
            if (UNLIKELY(*place == above || here - before == 1))                                                      \
                apart--;                                                                                              \
            *place = label;                                                                                           \
            before = here;                                                                                            \
        }                                                                                                             \
        return apart;                                                                                                 \
    }

COUNT_APART(apart_32, int32_t)
COUNT_APART(apart_64, int64_t)

static int same_cells(const Minor *minor, int64_t a, int64_t b, int64_t n)
{
    Py_ssize_t size = minor->wide ? 8 : 4;
    return memcmp(minor->bytes + size * a, minor->bytes + size * b, (size_t)(size * n)) == 0;
}

/* Start new labels, with the row above marked. */
static void mark_above(const Minor *minor, int64_t start, int64_t stop, uint8_t *seen)
{
    memset(seen, NEVER, SEEN);
    for (int64_t i = start; i < stop; i++)
        seen[column_at(minor, i) & (SEEN - 1)] = ABOVE;
}

/* -1 - row for a row that is wrong; see the NumPy form. */
static Py_ssize_t count_apart(const Minor *minor, const int64_t *starts, const int64_t *stops, Py_ssize_t n_rows,
                              uint8_t *seen)
{
    Py_ssize_t total = 0, apart = 0, n_filled = 0;
    int64_t start = 0, stop = 0, above_start = 0, above_stop = 0, first_start = 0, first_stop = 0;
    for (Py_ssize_t row = 0; row < n_rows; row++) {
        start = starts[row], stop = stops[row];
        if (!is_range(start, stop, minor->count) || stop - start > PY_SSIZE_T_MAX - total)
            return -1 - row;
        total += (Py_ssize_t)(stop - start);
    }
    unsigned label = FIRST;
    memset(seen, NEVER, SEEN);
    for (Py_ssize_t row = 0; row < n_rows && apart < total - apart; row++, label++) {
        start = starts[row], stop = stops[row];
        if (!is_range(start, stop, minor->count))
            return -1 - row;
        if (label > LAST) {
            mark_above(minor, above_start, above_stop, seen);
            label = FIRST;
        }
        if (start < stop) {
            if (n_filled == 1 && stop - start == first_stop - first_start
                && same_cells(minor, start, first_start, stop - start))
                return 0;
            if (n_filled++ == 0)
                first_start = start, first_stop = stop;
            Py_ssize_t n = (Py_ssize_t)(stop - start);
            apart += minor->wide ? apart_64((const int64_t *)minor->bytes + start, n, seen, (uint8_t)label)
                                 : apart_32((const int32_t *)minor->bytes + start, n, seen, (uint8_t)label);
        }
        above_start = start, above_stop = stop;
    }
    return n_filled < 2 ? 0 : apart;
}

static PyObject *least_blocks(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *minor, *starts, *stops;
    Py_ssize_t found;
    Minor columns;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OOO", &minor, &starts, &stops))
        return NULL;
    if (open_minor(minor, &s[0], &columns) < 0 || open_kind(starts, &s[1], "starts", I64) < 0
        || open_kind(stops, &s[2], "stops", I64) < 0 || same_count(&s[1], &s[2]) < 0)
        return finish(s, 3, NULL);
    uint8_t *seen = malloc(SEEN);
    if (!seen)
        return finish(s, 3, PyErr_NoMemory());
    Py_BEGIN_ALLOW_THREADS
    found = count_apart(&columns, (const int64_t *)s[1].bytes, (const int64_t *)s[2].bytes, s[1].count, seen);
    Py_END_ALLOW_THREADS
    free(seen);
    if (found < 0)
        return finish(s, 3, refuse("row %zd does not lie in minor", -1 - found));
    return finish(s, 3, PyLong_FromSsize_t(found));
}

/* Points to where rows end, and columns. 0 where they do not increase row by row, or leave the chunk. */
#define ROWS_OF_POINTS(NAME, ITEM, OUT)                                                                               \
    static int NAME(const uint8_t *points, Py_ssize_t n, int64_t n_rows, int64_t width, int64_t column, int64_t *ends,\
                    OUT *minor)                                                                                       \
    {                                                                                                                 \
        Py_ssize_t i = 0;                                                                                             \
        ends[0] = 0;                                                                                                  \
        for (int64_t row = 0; row < n_rows; row++) {                                                                  \
            int64_t before = -1;                                                                                      \
            for (; i < n; i++) {                                                                                      \
                ITEM point[2];                                                                                        \
                memcpy(point, points + i * (Py_ssize_t)sizeof point, sizeof point);                                   \
                if (point[0] != (uint64_t)row)                                                                        \
                    break;                                                                                            \
                if (UNLIKELY(point[1] >= (uint64_t)width || (int64_t)point[1] <= before))                             \
                    return 0;                                                                                         \
                before = (int64_t)point[1];                                                                           \
                minor[i] = (OUT)(before + column);                                                                    \
            }                                                                                                         \
            ends[row + 1] = i;                                                                                        \
        }                                                                                                             \
        return i == n;                                                                                                \
    }

ROWS_OF_POINTS(rows_2_32, uint16_t, int32_t)
ROWS_OF_POINTS(rows_4_32, uint32_t, int32_t)
ROWS_OF_POINTS(rows_8_32, uint64_t, int32_t)
ROWS_OF_POINTS(rows_2_64, uint16_t, int64_t)
ROWS_OF_POINTS(rows_4_64, uint32_t, int64_t)
ROWS_OF_POINTS(rows_8_64, uint64_t, int64_t)

static PyObject *points_to_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *points, *ends, *minor;
    long long width, column;
    int item, fine;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OiLLOO", &points, &item, &width, &column, &ends, &minor))
        return NULL;
    if (open_bytes(points, &s[0], "points") < 0 || open_kind_out(ends, &s[1], "ends", I64) < 0
        || open_values_out(minor, &s[2], "minor") < 0)
        return finish(s, 3, NULL);
    if (s[2].kind != I32 && s[2].kind != I64)
        return finish(s, 3, refuse("minor must hold int32 or int64"));
    if (item != 2 && item != 4 && item != 8)
        return finish(s, 3, refuse("item is %d, expected 2, 4 or 8", item));
    int64_t most = s[2].kind == I64 ? INT64_MAX : INT32_MAX;
    if (column < 0 || width < 1 || width - 1 > most - column)
        return finish(s, 3, refuse("columns from %lld, %lld of them, do not fit into minor", column, width));
    if (s[1].count < 1)
        return finish(s, 3, refuse("ends is empty, expected one more than rows"));
    Py_ssize_t n = s[2].count;
    if (product(n, 2 * item) != s[0].n_bytes)
        return finish(s, 3, refuse("points has %zd bytes, expected %zd points of %d", s[0].n_bytes, n, 2 * item));
    Py_BEGIN_ALLOW_THREADS
    const uint8_t *from = s[0].bytes;
    int64_t n_rows = s[1].count - 1, *to = (int64_t *)s[1].bytes;
    if (s[2].kind == I64) {
        int64_t *out = (int64_t *)s[2].bytes;
        fine = item == 2 ? rows_2_64(from, n, n_rows, width, column, to, out)
               : item == 4 ? rows_4_64(from, n, n_rows, width, column, to, out)
                           : rows_8_64(from, n, n_rows, width, column, to, out);
    }
    else {
        int32_t *out = (int32_t *)s[2].bytes;
        fine = item == 2 ? rows_2_32(from, n, n_rows, width, column, to, out)
               : item == 4 ? rows_4_32(from, n, n_rows, width, column, to, out)
                           : rows_8_32(from, n, n_rows, width, column, to, out);
    }
    Py_END_ALLOW_THREADS
    return finish(s, 3, PyBool_FromLong(fine));
}

/* -1, or the run that leaves source or out. */
static Py_ssize_t copy_all(const Span *source, const int64_t *starts, const int64_t *places, const int64_t *lengths,
                           Py_ssize_t n, Py_ssize_t size, const Span *out)
{
    Py_ssize_t there = source->n_bytes / size, room = out->n_bytes / size;
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t start = starts[i], place = places[i], length = lengths[i];
        if (start < 0 || place < 0 || length < 0 || length > there || length > room || start > there - length
            || place > room - length)
            return i;
        uint8_t *to = out->bytes + place * size;
        const uint8_t *from = source->bytes + start * size;
        memcpy(to, from, (size_t)(length * size));
    }
    return -1;
}

static PyObject *copy_runs(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *starts, *places, *lengths, *out;
    Py_ssize_t size, wrong;
    Span s[5] = {0};
    if (!PyArg_ParseTuple(arguments, "OOOOnO", &source, &starts, &places, &lengths, &size, &out))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_kind(starts, &s[1], "starts", I64) < 0
        || open_kind(places, &s[2], "places", I64) < 0 || open_kind(lengths, &s[3], "lengths", I64) < 0
        || open_bytes_out(out, &s[4], "out") < 0 || same_count(&s[1], &s[2]) < 0 || same_count(&s[1], &s[3]) < 0
        || apart(&s[0], &s[4]) < 0)
        return finish(s, 5, NULL);
    if (size < 1)
        return finish(s, 5, refuse("item_size is %zd, expected at least 1", size));
    Py_BEGIN_ALLOW_THREADS
    wrong = copy_all(&s[0], (const int64_t *)s[1].bytes, (const int64_t *)s[2].bytes, (const int64_t *)s[3].bytes,
                     s[1].count, size, &s[4]);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 5, refuse("run %zd does not lie in source and out", wrong));
    Py_INCREF(Py_None);
    return finish(s, 5, Py_None);
}

PyMethodDef cell_functions[] = {
    {"rows_to_points", rows_to_points, METH_VARARGS, NULL},
    {"points_to_rows", points_to_rows, METH_VARARGS, NULL},
    {"cut_rows", cut_rows, METH_VARARGS, NULL},
    {"least_blocks", least_blocks, METH_VARARGS, NULL},
    {"copy_runs", copy_runs, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
