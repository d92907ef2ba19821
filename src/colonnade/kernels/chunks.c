/* Several chunks in one call: the fewer calls, the less threads wait for each other (and for Python) between them.
 *
 * `sizes` are the bytes of each chunk as stored, one behind the other in the source; each makes an equal share of the output.
 */
#ifndef _WIN32
#define _FILE_OFFSET_BITS 64
#endif
#include "native.h"
#ifndef _WIN32
#include <errno.h>
#include <unistd.h>
#endif

/* The sizes, checked: their sum is the source, the output is shared equally. Bytes or items of a share, or -1. */
Py_ssize_t open_shares(const Span *source, const Span *sizes, Py_ssize_t whole)
{
    Py_ssize_t left = source->n_bytes;
    const int64_t *each = (const int64_t *)sizes->bytes;
    for (Py_ssize_t i = 0; i < sizes->count; i++) {
        int64_t size = each[i];
        if (size < 0 || size > left) {
            refuse("sizes: chunk %zd does not lie in the source", i);
            return -1;
        }
        left -= (Py_ssize_t)size;
    }
    if (left || (sizes->count ? whole % sizes->count != 0 : whole != 0)) {
        refuse("sizes do not fit the source, or out cannot be shared by them");
        return -1;
    }
    return sizes->count ? whole / sizes->count : 0;
}

static PyObject *inflate_chunks(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *lengths, *target;
    Py_ssize_t size, share, i = 0;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OOOn", &source, &lengths, &target, &size))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_kind(lengths, &s[1], "sizes", I64) < 0
        || open_bytes_out(target, &s[2], "out") < 0 || apart(&s[0], &s[2]) < 0
        || (share = open_shares(&s[0], &s[1], s[2].n_bytes)) < 0)
        return finish(s, 3, NULL);
    if (size < 1)
        return finish(s, 3, refuse("item_size is %zd, expected at least 1", size));
    Py_ssize_t n = s[1].count;
    int64_t *each = PyMem_Malloc((size_t)(n + 1) * sizeof *each);   /* theirs may change meanwhile */
    uint8_t *planes = size > 1 ? PyMem_Malloc((size_t)share + 1) : NULL;
    void *state = PyMem_Malloc(inflate_state_size);
    if (!each || !state || (size > 1 && !planes)) {
        PyErr_NoMemory();
        goto failed;
    }
    memcpy(each, s[1].bytes, (size_t)n * sizeof *each);
    if (open_shares(&s[0], &(Span){.bytes = (uint8_t *)each, .count = n}, s[2].n_bytes) < 0)
        goto failed;
    Py_BEGIN_ALLOW_THREADS
    const uint8_t *in = s[0].bytes;
    for (; i < n; in += each[i], i++) {
        uint8_t *out = s[2].bytes + i * share;
        if (inflate_stream(state, in, (Py_ssize_t)each[i], planes ? planes : out, share) < 0)
            break;
        if (planes && share)
            move_planes(planes, out, share, size, 1);
    }
    Py_END_ALLOW_THREADS
    if (i < n)
        refuse("chunk %zd is no deflated stream of %zd bytes", i, share);
failed:
    PyMem_Free(each);
    PyMem_Free(planes);
    PyMem_Free(state);
    return finish(s, 3, PyErr_Occurred() ? NULL : Py_NewRef(Py_None));
}

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
    {"inflate_chunks", inflate_chunks, METH_VARARGS, NULL},
    {"read_pieces", read_pieces, METH_VARARGS, NULL},
    {"pick_rows", pick_rows, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
