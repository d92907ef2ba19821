/* Elements of a matrix to the rectangles they make. */
#include "native.h"

typedef struct {
    int64_t from, to;   /* columns */
    Py_ssize_t block;
} Run;

/* How many blocks there are, or -1 - i where place i does not follow the one before. Runs of the row before are walked
 * along with those of this one: both are in the order of their columns. */
static Py_ssize_t grow(const int64_t *places, Py_ssize_t n, int64_t width, int64_t *first, int64_t *last, Run *runs)
{
    Py_ssize_t n_runs = 0, n_blocks = 0, here = 0, above = 0, above_end = 0;
    int64_t row = -2, row_start = 0, before = -1;
    for (Py_ssize_t i = 0; i < n;) {
        int64_t start = places[i], stop = start;
        if (UNLIKELY(start <= before))
            return -1 - i;
        if (row < 0 || start - row_start >= width) {
            int64_t now = start / width;
            above = now == row + 1 ? here : n_runs;
            above_end = here = n_runs;
            row = now;
            row_start = now * width;
        }
        int64_t from = start - row_start, room = width - from;
        for (i++; i < n && stop - start + 1 < room; i++, stop++)
            if (stop == INT64_MAX || places[i] != stop + 1)
                break;
        int64_t to = from + (stop - start);
        before = stop;
        while (above < above_end && runs[above].from < from)
            above++;
        Py_ssize_t block = n_blocks;
        if (above < above_end && runs[above].from == from && runs[above].to == to)
            block = runs[above].block;
        else
            first[n_blocks++] = start;
        last[block] = stop;
        runs[n_runs++] = (Run){from, to, block};
    }
    return n_blocks;
}

static PyObject *grow_blocks(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *places, *first, *last;
    long long width;
    Py_ssize_t found = 0;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OLOO", &places, &width, &first, &last))
        return NULL;
    if (open_kind(places, &s[0], "places", I64) < 0 || open_kind_out(first, &s[1], "first", I64) < 0
        || open_kind_out(last, &s[2], "last", I64) < 0 || same_count(&s[0], &s[1]) < 0 || same_count(&s[0], &s[2]) < 0)
        return finish(s, 3, NULL);
    if (width < 1)
        return finish(s, 3, refuse("width is %lld, expected at least 1", width));
    Py_ssize_t n = s[0].count;
    if (!n)
        return finish(s, 3, PyLong_FromLong(0));
    Run *runs = (size_t)n > SIZE_MAX / sizeof *runs ? NULL : malloc((size_t)n * sizeof *runs);
    if (!runs)
        return finish(s, 3, PyErr_NoMemory());
    Py_BEGIN_ALLOW_THREADS
    found = grow((const int64_t *)s[0].bytes, n, width, (int64_t *)s[1].bytes, (int64_t *)s[2].bytes, runs);
    Py_END_ALLOW_THREADS
    free(runs);
    if (found < 0)
        return finish(s, 3, refuse("places do not increase from 0 on at place %zd", -1 - found));
    return finish(s, 3, PyLong_FromSsize_t(found));
}

PyMethodDef block_functions[] = {
    {"grow_blocks", grow_blocks, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
