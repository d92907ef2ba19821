/* HDF5's global heap to Arrow: collections walked, references gathered into offsets and data.
 *
 * A collection (III.E): "GCOL", version 1, 3 reserved, size of the whole (8 bytes); then objects: index (2), reference
 * count (2), 4 reserved, size (8), data padded to 8. Index 0 is the free space at the end. A reference in a chunk: length
 * in items (4), address of the collection (8), index of the object (4). Length 0 is empty in any case; any other
 * must be that of the object.
 */
#include "native.h"

enum { HEADER = 16, REFERENCE = 16 };

/* One step of a walk. */
typedef struct {
    const uint8_t *bytes;  /* of the collection */
    uint64_t size;
    uint64_t at;
    unsigned index;
    uint64_t object_at, object_size;
} Walk;

/* 0, or -1 if these bytes are not a valid collection. */
static int begin(Walk *walk, const uint8_t *bytes, uint64_t n_bytes)
{
    if (n_bytes < HEADER || memcmp(bytes, "GCOL", 4) != 0 || bytes[4] != 1)
        return -1;
    walk->bytes = bytes;
    walk->size = load64(bytes + 8);
    walk->at = HEADER;
    return walk->size < HEADER || walk->size > n_bytes ? -1 : 0;
}

/* 1 with the next object, 0 at the end, -1 when an object leaves the collection. */
static int next(Walk *walk)
{
    uint64_t left = walk->size - walk->at;
    if (left < HEADER)
        return 0;
    const uint8_t *p = walk->bytes + walk->at;
    walk->index = load16(p);
    if (walk->index == 0)
        return 0;
    walk->object_at = walk->at + HEADER;
    walk->object_size = load64(p + 8);
    if (walk->object_size > left - HEADER)
        return -1;
    uint64_t padded = (walk->object_size + 7) / 8 * 8;
    walk->at += HEADER + (padded > left - HEADER ? left - HEADER : padded);
    return 1;
}

/* Slots that a collection needs (its highest index + 1), or -1. */
static int64_t measure_one(const uint8_t *bytes, uint64_t n_bytes)
{
    Walk walk;
    int64_t slots = 1;
    int more;
    if (begin(&walk, bytes, n_bytes) < 0)
        return -1;
    while ((more = next(&walk)) > 0)
        slots = walk.index >= slots ? (int64_t)walk.index + 1 : slots;
    return more < 0 ? -1 : slots;
}

/* The first collection that is not sound, or -1. */
static Py_ssize_t measure_all(const Span *heap, const Span *places, int64_t *slots)
{
    for (Py_ssize_t i = 0; i < places->count; i++) {
        int64_t place = ((const int64_t *)places->bytes)[i];
        if (place < 0 || place > heap->n_bytes)
            return i;
        slots[i] = measure_one(heap->bytes + place, (uint64_t)(heap->n_bytes - place));
        if (slots[i] < 0)
            return i;
    }
    return -1;
}

static PyObject *heap_slots(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *heap, *places, *slots;
    Span s[3] = {0};
    Py_ssize_t wrong;
    if (!PyArg_ParseTuple(arguments, "OOO", &heap, &places, &slots))
        return NULL;
    if (open_bytes(heap, &s[0], "heap") < 0 || open_kind(places, &s[1], "places", I64) < 0
        || open_kind_out(slots, &s[2], "slots", I64) < 0 || same_count(&s[1], &s[2]) < 0)
        return finish(s, 3, NULL);
    Py_BEGIN_ALLOW_THREADS
    wrong = measure_all(&s[0], &s[1], (int64_t *)s[2].bytes);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 3, refuse("collection %zd is not a valid global heap collection", wrong));
    return finish(s, 3, Py_NewRef(Py_None));
}

/* Objects of one collection into the tables; 0, or -1 where it is not sound or has too few slots. */
static int list_one(const uint8_t *bytes, uint64_t n_bytes, int64_t place, int64_t *starts, int64_t *sizes, int64_t slots)
{
    Walk walk;
    int more;
    for (int64_t i = 0; i < slots; i++) {
        starts[i] = 0;
        sizes[i] = -1;
    }
    if (begin(&walk, bytes, n_bytes) < 0)
        return -1;
    while ((more = next(&walk)) > 0) {
        if (walk.index >= slots)
            return -1;
        starts[walk.index] = place + (int64_t)walk.object_at;
        sizes[walk.index] = (int64_t)walk.object_size;
    }
    return more;
}

static Py_ssize_t list_all(const Span *heap, const Span *places, const Span *firsts, int64_t *starts, int64_t *sizes,
                           Py_ssize_t n_slots)
{
    int64_t first = ((const int64_t *)firsts->bytes)[0];
    for (Py_ssize_t i = 0; i < places->count; i++) {
        int64_t place = ((const int64_t *)places->bytes)[i], end = ((const int64_t *)firsts->bytes)[i + 1];
        if (place < 0 || place > heap->n_bytes || first < 0 || end < first || end > n_slots)
            return i;
        if (list_one(heap->bytes + place, (uint64_t)(heap->n_bytes - place), place, starts + first, sizes + first,
                     end - first) < 0)
            return i;
        first = end;
    }
    return -1;
}

static PyObject *heap_objects(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *heap, *places, *firsts, *starts, *sizes;
    Span s[5] = {0};
    Py_ssize_t wrong;
    if (!PyArg_ParseTuple(arguments, "OOOOO", &heap, &places, &firsts, &starts, &sizes))
        return NULL;
    if (open_bytes(heap, &s[0], "heap") < 0 || open_kind(places, &s[1], "places", I64) < 0
        || open_kind(firsts, &s[2], "firsts", I64) < 0 || open_kind_out(starts, &s[3], "starts", I64) < 0
        || open_kind_out(sizes, &s[4], "sizes", I64) < 0 || same_count(&s[3], &s[4]) < 0)
        return finish(s, 5, NULL);
    if (s[2].count != s[1].count + 1)
        return finish(s, 5, refuse("firsts has %zd items, expected %zd", s[2].count, s[1].count + 1));
    Py_BEGIN_ALLOW_THREADS
    wrong = list_all(&s[0], &s[1], &s[2], (int64_t *)s[3].bytes, (int64_t *)s[4].bytes, s[3].count);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 5, refuse("collection %zd is not a valid global heap collection, or its slots are wrong", wrong));
    return finish(s, 5, Py_NewRef(Py_None));
}

/* -- references -- */

typedef struct {
    const uint8_t *heap;
    int64_t heap_bytes;
    const uint64_t *addresses;
    const int64_t *firsts;  /* one more than addresses */
    const int64_t *starts, *sizes;
    Py_ssize_t n_addresses, n_slots;
    Py_ssize_t last;  /* the collection of the reference before: the next is mostly in the same */
} Heap;

static Py_ssize_t find_collection(Heap *h, uint64_t address)
{
    if (h->last < h->n_addresses && h->addresses[h->last] == address)
        return h->last;
    Py_ssize_t low = 0, high = h->n_addresses;
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (h->addresses[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == h->n_addresses || h->addresses[low] != address)
        return -1;
    return h->last = low;
}

/* The bytes of an object that a reference names: NULL when there is none, or not `length` of them. */
static const uint8_t *resolve(Heap *h, const uint8_t *reference, uint64_t length)
{
    Py_ssize_t which = find_collection(h, load64(reference + 4));
    if (which < 0)
        return NULL;
    int64_t first = h->firsts[which], end = h->firsts[which + 1], index = load32(reference + 12);
    if (first < 0 || end < first || end > h->n_slots || index >= end - first)
        return NULL;
    int64_t start = h->starts[first + index], size = h->sizes[first + index];
    if (start < 0 || size < 0 || start > h->heap_bytes || size > h->heap_bytes - start || length != (uint64_t)size)
        return NULL;
    return h->heap + start;
}

/* The length of a row in bytes, cut at the first NUL where that is asked for; -1 when it leads nowhere. */
static int64_t row_length(Heap *h, const uint8_t *reference, uint64_t item_size, int cut, const uint8_t **data)
{
    uint64_t length = load32(reference) * item_size;
    *data = NULL;
    if (length == 0)
        return 0;
    *data = resolve(h, reference, length);
    if (*data == NULL)
        return -1;
    const uint8_t *end = cut ? memchr(*data, 0, length) : NULL;
    return end ? end - *data : (int64_t)length;
}

/* -1, or the first row that leads nowhere; -2 - row where offsets overflow. */
static Py_ssize_t measure_rows(Heap *h, const Span *references, uint64_t item_size, int cut, Span *offsets)
{
    int64_t at = 0;
    const uint8_t *data;
    int wide = offsets->kind == I64;
    for (Py_ssize_t i = 0; i < offsets->count; i++) {
        if (wide)
            ((int64_t *)offsets->bytes)[i] = at;
        else if (at > INT32_MAX)
            return -2 - i;
        else
            ((int32_t *)offsets->bytes)[i] = (int32_t)at;
        if (i + 1 == offsets->count)
            break;
        int64_t length = row_length(h, references->bytes + i * REFERENCE, item_size, cut, &data);
        if (length < 0)
            return i;
        if (length > INT64_MAX - at)
            return -2 - i;
        at += length;
    }
    return -1;
}

static Py_ssize_t copy_rows(Heap *h, const Span *references, uint64_t item_size, int cut, const Span *offsets, Span *out)
{
    const uint8_t *data;
    int wide = offsets->kind == I64;
    for (Py_ssize_t i = 0; i + 1 < offsets->count; i++) {
        int64_t start = wide ? ((const int64_t *)offsets->bytes)[i] : ((const int32_t *)offsets->bytes)[i];
        int64_t length = row_length(h, references->bytes + i * REFERENCE, item_size, cut, &data);
        if (length < 0 || start < 0 || start > out->n_bytes || length > out->n_bytes - start)
            return i;
        if (length)
            memcpy(out->bytes + start, data, (size_t)length);
    }
    return -1;
}

enum { HEAP, ADDRESSES, FIRSTS, STARTS, SIZES, REFERENCES, OFFSETS, DATA };

static int open_heap(PyObject **o, Span *s, Heap *heap)
{
    if (open_bytes(o[HEAP], &s[HEAP], "heap") < 0 || open_kind(o[ADDRESSES], &s[ADDRESSES], "addresses", U64) < 0
        || open_kind(o[FIRSTS], &s[FIRSTS], "firsts", I64) < 0 || open_kind(o[STARTS], &s[STARTS], "starts", I64) < 0
        || open_kind(o[SIZES], &s[SIZES], "sizes", I64) < 0 || same_count(&s[STARTS], &s[SIZES]) < 0
        || open_bytes(o[REFERENCES], &s[REFERENCES], "references") < 0)
        return -1;
    if (s[FIRSTS].count != s[ADDRESSES].count + 1) {
        refuse("firsts has %zd items, expected %zd", s[FIRSTS].count, s[ADDRESSES].count + 1);
        return -1;
    }
    *heap = (Heap){s[HEAP].bytes, s[HEAP].n_bytes, (const uint64_t *)s[ADDRESSES].bytes,
                   (const int64_t *)s[FIRSTS].bytes, (const int64_t *)s[STARTS].bytes,
                   (const int64_t *)s[SIZES].bytes, s[ADDRESSES].count, s[STARTS].count, 0};
    return 0;
}

static int check_rows(const Span *references, const Span *offsets, Py_ssize_t item_size)
{
    if (offsets->kind != I32 && offsets->kind != I64) {
        refuse("offsets must hold int32 or int64");
        return -1;
    }
    if (offsets->count < 1 || product(offsets->count - 1, REFERENCE) != references->n_bytes) {
        refuse("references has %zd bytes, which does not suit %zd offsets", references->n_bytes, offsets->count);
        return -1;
    }
    if (item_size < 1 || item_size > INT32_MAX) {
        refuse("item_size is %zd, expected at least 1", item_size);
        return -1;
    }
    return 0;
}

static PyObject *heap_offsets(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *o[7];
    Span s[7] = {0};
    Heap heap;
    Py_ssize_t item_size, wrong;
    int cut;
    if (!PyArg_ParseTuple(arguments, "OOOOOOnpO", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &item_size, &cut, &o[6]))
        return NULL;
    if (open_heap(o, s, &heap) < 0 || open_values_out(o[OFFSETS], &s[OFFSETS], "offsets") < 0
        || check_rows(&s[REFERENCES], &s[OFFSETS], item_size) < 0)
        return finish(s, 7, NULL);
    Py_BEGIN_ALLOW_THREADS
    wrong = measure_rows(&heap, &s[REFERENCES], (uint64_t)item_size, cut, &s[OFFSETS]);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 7, refuse("the reference of row %zd leads to no such object", wrong));
    if (wrong < -1)
        return finish(s, 7, refuse("the rows have more bytes than the offsets can count"));
    return finish(s, 7, Py_NewRef(Py_None));
}

static PyObject *heap_data(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *o[8];
    Span s[8] = {0};
    Heap heap;
    Py_ssize_t item_size, wrong;
    int cut;
    if (!PyArg_ParseTuple(arguments, "OOOOOOnpOO", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &item_size, &cut, &o[6],
                          &o[7]))
        return NULL;
    if (open_heap(o, s, &heap) < 0 || open_values(o[OFFSETS], &s[OFFSETS], "offsets") < 0
        || open_bytes_out(o[DATA], &s[DATA], "data") < 0 || check_rows(&s[REFERENCES], &s[OFFSETS], item_size) < 0)
        return finish(s, 8, NULL);
    Py_BEGIN_ALLOW_THREADS
    wrong = copy_rows(&heap, &s[REFERENCES], (uint64_t)item_size, cut, &s[OFFSETS], &s[DATA]);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 8, refuse("the reference of row %zd leads to no such object, or its offset is wrong", wrong));
    return finish(s, 8, Py_NewRef(Py_None));
}

PyMethodDef heap_functions[] = {
    {"heap_slots", heap_slots, METH_VARARGS, NULL},
    {"heap_objects", heap_objects, METH_VARARGS, NULL},
    {"heap_offsets", heap_offsets, METH_VARARGS, NULL},
    {"heap_data", heap_data, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
