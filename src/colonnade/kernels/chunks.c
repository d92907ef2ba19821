/* Bytes of an open file from several addresses in one call: the fewer calls, the less threads wait for each other (and for
 * Python) between them. */
#ifndef _WIN32
#define _FILE_OFFSET_BITS 64
#endif
#include "native.h"
#ifndef _WIN32
#include <errno.h>
#include <unistd.h>
#endif

#ifndef _WIN32
int read_at(int file, int64_t address, Py_ssize_t size, uint8_t *out)
{
    while (size) {
        ssize_t n = pread(file, out, (size_t)size, (off_t)address);
        if (n == 0)
            return 1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        out += n, address += n, size -= n;
    }
    return 0;
}
#else
int read_at(int Py_UNUSED(file), int64_t Py_UNUSED(address), Py_ssize_t Py_UNUSED(size), uint8_t *Py_UNUSED(out))
{
    return 3;
}
#endif

PyObject *refuse_read(int state)
{
    if (state == -1)
        return PyErr_SetFromErrno(PyExc_OSError);
    return refuse(state == 1 ? "the file ends inside a piece"
                  : state == 2 ? "sizes and addresses make no sense" : "this system cannot read at a place");
}

static int read_all(int file, const int64_t *addresses, const int64_t *sizes, Py_ssize_t n, uint8_t *out, Py_ssize_t room,
                    const Look *look, int *found)
{
    Py_ssize_t looked_at = 0, done = 0;
    const uint8_t *all = out;
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t size = sizes[i], address = addresses[i];
        if (size < 0 || size > room || address < 0 || address > INT64_MAX - size)
            return 2;
        int state = read_at(file, address, (Py_ssize_t)size, out);
        if (state)
            return state;
        out += size, room -= (Py_ssize_t)size, done += (Py_ssize_t)size;
        if (look->size && !*found) {  /* whole items of what is there now: it is still in the processor's cache */
            Py_ssize_t items = (done - looked_at) / look->size;
            *found = holds_item(all + looked_at, items, look->size, look->item);
            looked_at += items * look->size;
        }
    }
    return room ? 2 : 0;
}

static PyObject *read_pieces(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *addresses, *sizes, *target, *wanted;
    int file, state, found = 0;
    Span s[3] = {0};
    Look look;
    if (!PyArg_ParseTuple(arguments, "iOOOO", &file, &addresses, &sizes, &target, &wanted) || open_look(wanted, &look) < 0)
        return NULL;
    if (open_kind(addresses, &s[0], "addresses", I64) < 0 || open_kind(sizes, &s[1], "sizes", I64) < 0
        || same_count(&s[0], &s[1]) < 0 || open_bytes_out(target, &s[2], "out") < 0
        || suits_look(&s[2], &look) < 0)
        return finish(s, 3, NULL);
    Py_BEGIN_ALLOW_THREADS
    state = read_all(file, (int64_t *)s[0].bytes, (int64_t *)s[1].bytes, s[0].count, s[2].bytes, s[2].n_bytes,
                     &look, &found);
    Py_END_ALLOW_THREADS
    return finish(s, 3, state ? refuse_read(state) : looked(&look, found));
}

/* Of each chunk the bytes from its first wanted item to its last, into scratch, where the items are then gathered from. */
static int pick_all(int file, const int64_t *addresses, const int64_t *ends, Py_ssize_t n_chunks, const Span *places,
                    Py_ssize_t n_items, Py_ssize_t size, uint8_t *scratch, uint8_t *out)
{
    int64_t begin = 0;
    for (Py_ssize_t i = 0; i < n_chunks; i++) {
        int64_t end = ends[i], address = addresses[i];
        const int64_t *some = (const int64_t *)places->bytes + begin;
        if (end < begin || end > places->count || address < 0 || address > INT64_MAX - n_items * size)
            return 2;
        if (end == begin)
            continue;
        int64_t first = some[0], last = some[end - begin - 1];
        int is_before = 0;
        for (Py_ssize_t j = 0; j < end - begin; j++)
            is_before |= some[j] < first;
        if (first < 0 || last < first || last >= n_items || is_before)
            return 2;
        int state = read_at(file, address + first * size, (Py_ssize_t)(last - first + 1) * size, scratch + first * size);
        if (state)
            return state;
        if (take_items(scratch, (uint64_t)last + 1, some, (Py_ssize_t)(end - begin), out + begin * size, size) >= 0)
            return 2;
        begin = end;
    }
    return begin == places->count ? 0 : 2;
}

static PyObject *pick_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *addresses, *ends, *places, *target;
    Py_ssize_t n_items, size, whole;
    int file, state = 2;
    Span s[4] = {0};
    if (!PyArg_ParseTuple(arguments, "iOOOnnO", &file, &addresses, &ends, &places, &n_items, &size, &target))
        return NULL;
    if (open_kind(addresses, &s[0], "addresses", I64) < 0 || open_kind(ends, &s[1], "ends", I64) < 0
        || open_kind(places, &s[2], "places", I64) < 0 || open_bytes_out(target, &s[3], "out") < 0
        || same_count(&s[0], &s[1]) < 0)
        return finish(s, 4, NULL);
    if (size < 1 || (whole = product(n_items, size)) < 0 || product(s[2].count, size) != s[3].n_bytes)
        return finish(s, 4, refuse("n_items, item_size and out do not fit each other"));
    uint8_t *scratch = PyMem_Malloc((size_t)whole + 1);
    if (scratch == NULL)
        return finish(s, 4, PyErr_NoMemory());
    Py_BEGIN_ALLOW_THREADS
    state = pick_all(file, (int64_t *)s[0].bytes, (int64_t *)s[1].bytes, s[0].count, &s[2], n_items, size, scratch,
                     s[3].bytes);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
    return finish(s, 4, state ? refuse_read(state) : Py_NewRef(Py_None));
}

PyMethodDef chunk_functions[] = {
    {"read_pieces", read_pieces, METH_VARARGS, NULL},
    {"pick_rows", pick_rows, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
