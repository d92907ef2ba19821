/* Numbers packed into the bits they need: HDF5's scale-offset (filter 6).
 *
 * They are packed without gaps, the highest bit of each number first. A chunk:
 *   0  bits of a number (4 bytes)     4  size of the minimum (1 byte)     5  minimum     21  packed numbers
 * Integers are stored less the minimum. Floats are stored as multiples of 10**-decimals above the minimum, which is
 * a float. Where a fill is defined, all bits 1 means it. As many bits as the type has mean that numbers are not packed.
 * HDF5 1.14.4 and later cannot read the last kind, so it is never written here.
 */
#include "native.h"

enum { HEADER = 21 };

/* -- packed bits -- */

typedef struct {
    const uint8_t *bytes;
    Py_ssize_t n_bytes;
    unsigned bits;  /* of a number: 1 to 64 */
} Packed;

/* A number that begins after `skip` bits of a byte; the byte and those after it are in memory. */
static inline uint64_t unpack_bits(const uint8_t *byte, unsigned skip, unsigned bits)
{
    uint64_t value = 0;
    unsigned left = bits;
    while (left) {
        unsigned some = 8 - skip < left ? 8 - skip : left;
        value = value << some | (((unsigned)*byte++ >> (8 - skip - some)) & (0xFFu >> (8 - some)));
        left -= some;
        skip = 0;
    }
    return value;
}

/* Number i, which lies inside the bytes. */
static inline uint64_t unpack_slowly(const Packed *p, uint64_t i)
{
    uint64_t bit = i * p->bits;
    return unpack_bits(p->bytes + bit / 8, bit % 8, p->bits);
}

/* The same for numbers of at most 57 bits with 8 bytes from their first byte on. */
static inline uint64_t unpack_quickly(const uint8_t *bytes, uint64_t bit, unsigned bits)
{
    return swap64(load64(bytes + bit / 8)) << (bit % 8) >> (64 - bits);
}

/* How many numbers, from the first on, can be unpacked quickly. */
static Py_ssize_t quick_count(const Packed *p, Py_ssize_t n)
{
    if (p->bits > 57 || p->n_bytes < 8)
        return 0;
    uint64_t last_bit = ((uint64_t)p->n_bytes - 8) * 8 + 7;  /* a number may begin here */
    uint64_t count = last_bit / p->bits + 1;
    return count < (uint64_t)n ? (Py_ssize_t)count : n;
}

/* -- scale-offset -- */

typedef struct {
    Packed packed;
    Kind kind;
    Py_ssize_t size;
    int swapped;
    int has_fill, plain;  /* plain: numbers are not packed */
    uint64_t minimum, fill, mark;
    double scale;
} Scaled;

static inline uint64_t scaled_bits(const Scaled *s, uint64_t number)
{
    if (s->has_fill && number == s->mark)
        return s->fill;
    if (s->kind == F32) {
        float least, value;
        uint32_t low = (uint32_t)s->minimum, out;
        memcpy(&least, &low, 4);
        value = (float)(int32_t)(uint32_t)number / (float)s->scale + least;
        memcpy(&out, &value, 4);
        return out;
    }
    if (s->kind == F64) {
        double least, value;
        memcpy(&least, &s->minimum, 8);
        value = (double)(int64_t)number / s->scale + least;
        memcpy(&number, &value, 8);
        return number;
    }
    return number + s->minimum;
}

static inline void put(uint8_t *out, uint64_t bits, Py_ssize_t size, int swapped)
{
    if (swapped)
        bits = swap64(bits) >> (64 - 8 * (unsigned)size);
    memcpy(out, &bits, (size_t)size);
}

static inline uint64_t get(const uint8_t *in, Py_ssize_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, in, (size_t)size);
    return bits;
}

/* Number i as its bits in this machine's order; it lies inside the chunk. */
static inline uint64_t one_number(const Scaled *s, uint64_t i)
{
    if (s->plain)
        return get(s->packed.bytes + i * (uint64_t)s->size, s->size);
    return scaled_bits(s, s->packed.bits ? unpack_slowly(&s->packed, i) : 0);
}

/* MANY numbers from one load: they lie in the 64 bits from the first on, even where that begins inside a byte (8 numbers
 * begin at a byte, 4 at a half). The rest, up to `quick`, one by one. */
#define UNPACK_LOOP(T, MANY)                                                                                  \
    {                                                                                                         \
        Py_ssize_t i = from;                                                                                  \
        for (; i + (MANY) <= quick; i += (MANY)) {                                                            \
            uint64_t bit = (uint64_t)i * bits, word = swap64(load64(bytes + bit / 8)) << (bit % 8);           \
            for (int j = 0; j < (MANY); j++, word <<= bits)                                                   \
                out[i + j] = (T)((T)(word >> (64 - bits)) + minimum);                                         \
        }                                                                                                     \
        for (; i < quick; i++)                                                                                \
            out[i] = (T)((T)unpack_quickly(bytes, (uint64_t)i * bits, bits) + minimum);                       \
    }

#define INTEGER_LOOP(T)                                                                                       \
    static Py_ssize_t integers_##T(const Scaled *s, Py_ssize_t from, Py_ssize_t n, T *out)                    \
    {                                                                                                         \
        Py_ssize_t quick = quick_count(&s->packed, n);                                                        \
        const uint8_t *bytes = s->packed.bytes;                                                               \
        unsigned bits = s->packed.bits;                                                                       \
        T minimum = (T)s->minimum;                                                                            \
        if (bits == 8)                                                                                        \
            for (Py_ssize_t i = from; i < quick; i++)                                                         \
                out[i] = (T)(bytes[i] + minimum);                                                             \
        else if (bits == 16)                                                                                  \
            for (Py_ssize_t i = from; i < quick; i++)                                                         \
                out[i] = (T)((T)swap16(load16(bytes + 2 * i)) + minimum);                                     \
        else if (bits == 32)                                                                                  \
            for (Py_ssize_t i = from; i < quick; i++)                                                         \
                out[i] = (T)((T)swap32(load32(bytes + 4 * i)) + minimum);                                     \
        else if (bits < 8)                                                                                    \
            UNPACK_LOOP(T, 8)                                                                                 \
        else if (bits < 16)                                                                                   \
            UNPACK_LOOP(T, 4)                                                                                 \
        else if (bits <= 28)                                                                                  \
            UNPACK_LOOP(T, 2)                                                                                 \
        else                                                                                                  \
            UNPACK_LOOP(T, 1)                                                                                 \
        if (s->has_fill) {                                                                                    \
            T mark = (T)((T)s->mark + minimum), fill = (T)s->fill;                                            \
            for (Py_ssize_t i = from; i < quick; i++)                                                         \
                out[i] = out[i] == mark ? fill : out[i];                                                      \
        }                                                                                                     \
        return quick > from ? quick : from;                                                                   \
    }
INTEGER_LOOP(uint8_t)
INTEGER_LOOP(uint16_t)
INTEGER_LOOP(uint32_t)
INTEGER_LOOP(uint64_t)

static Py_ssize_t quick_floats(const Scaled *s, Py_ssize_t n, uint8_t *out)
{
    Py_ssize_t quick = quick_count(&s->packed, n);
    for (Py_ssize_t i = 0; i < quick; i++) {
        uint64_t number = unpack_quickly(s->packed.bytes, (uint64_t)i * s->packed.bits, s->packed.bits);
        put(out + i * s->size, scaled_bits(s, number), s->size, 0);
    }
    return quick;
}

/* A beginning of the numbers, in this machine's order. */
static Py_ssize_t decode_quickly(const Scaled *s, Py_ssize_t n, uint8_t *out)
{
    if (s->plain || s->packed.bits == 0)
        return 0;
    if (is_float(s->kind))
        return quick_floats(s, n, out);
    Packing eights = {s->packed.bytes, s->packed.n_bytes, s->packed.bits, s->has_fill, s->minimum, s->mark, s->fill};
    Py_ssize_t from = unpack_eights(&eights, n, s->size, out);
    switch (s->size) {
    case 1: return integers_uint8_t(s, from, n, out);
    case 2: return integers_uint16_t(s, from, n, (uint16_t *)out);
    case 4: return integers_uint32_t(s, from, n, (uint32_t *)out);
    default: return integers_uint64_t(s, from, n, (uint64_t *)out);
    }
}

static void swap_items(uint8_t *bytes, Py_ssize_t n, Py_ssize_t size)
{
    for (Py_ssize_t i = 0; i < n; i++)
        put(bytes + i * size, get(bytes + i * size, size), size, 1);
}

static void decode_all(const Scaled *s, Py_ssize_t n, uint8_t *out)
{
    Py_ssize_t i = decode_quickly(s, n, out);
    if (s->plain && n) {
        memcpy(out, s->packed.bytes, (size_t)(n * s->size));
        i = n;
    }
    for (; i < n; i++)
        put(out + i * s->size, one_number(s, (uint64_t)i), s->size, 0);
    if (s->swapped)
        swap_items(out, n, s->size);
}

/* Parses the header of a chunk of n_bytes; 0 if it is inconsistent, or number n - 1 is not in the chunk. */
static int read_head(Scaled *s, const uint8_t *head, Py_ssize_t n_bytes, Py_ssize_t n)
{
    s->packed = (Packed){head + HEADER, n_bytes - HEADER, load32(head)};
    s->minimum = 0;
    memcpy(&s->minimum, head + 5, head[4] < 8 ? head[4] : 8);
    if (n_bytes < HEADER || s->packed.bits > 8 * (unsigned)s->size)
        return 0;
    s->plain = s->packed.bits == 8 * (unsigned)s->size;
    s->mark = s->packed.bits < 64 ? ((uint64_t)1 << s->packed.bits) - 1 : UINT64_MAX;
    Py_ssize_t whole = product(n, (Py_ssize_t)s->packed.bits);
    return whole >= 0 && whole / 8 + (whole % 8 != 0) <= s->packed.n_bytes;
}

/* What is the same for all chunks: 0, or -1 with an exception set. */
static int read_type(Scaled *s, const Span *out, PyObject *fill, int decimals)
{
    s->kind = out->kind;
    s->size = out->size;
    s->swapped = out->swapped;
    s->scale = pow(10.0, decimals);
    if (fill == Py_None)
        return 0;
    Span f = {0};
    if (open_bytes(fill, &f, "fill") < 0)
        return -1;
    int wrong = f.n_bytes != s->size;
    if (!wrong)
        s->fill = get(f.bytes, s->size);
    close_spans(&f, 1);
    if (wrong) {
        refuse("fill must have %zd bytes", s->size);
        return -1;
    }
    s->has_fill = 1;
    return 0;
}

/* Both; numbers 0 to n must lie in the chunk. 0, or -1 with an exception set. */
static int read_scaled(Scaled *s, const Span *chunk, const Span *out, PyObject *fill, int decimals, Py_ssize_t n)
{
    if (chunk->n_bytes < HEADER) {
        refuse("chunk has %zd bytes, fewer than its header", chunk->n_bytes);
        return -1;
    }
    if (read_type(s, out, fill, decimals) < 0)
        return -1;
    if (!read_head(s, chunk->bytes, chunk->n_bytes, n)) {
        refuse("chunk has %zd bytes, too few for %zd numbers of %u bits, or they are not numbers of the type", chunk->n_bytes,
               n, s->packed.bits);
        return -1;
    }
    return 0;
}

static PyObject *decode_scaleoffset(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *chunk, *out, *fill;
    int decimals;
    Span s[2] = {0};
    Scaled scaled = {0};
    if (!PyArg_ParseTuple(arguments, "OOOi", &chunk, &out, &fill, &decimals))
        return NULL;
    if (open_bytes(chunk, &s[0], "chunk") < 0 || open_any_order_out(out, &s[1], "out") < 0
        || read_scaled(&scaled, &s[0], &s[1], fill, decimals, s[1].count) < 0)
        return finish(s, 2, NULL);
    Py_BEGIN_ALLOW_THREADS
    decode_all(&scaled, s[1].count, s[1].bytes);
    Py_END_ALLOW_THREADS
    return finish(s, 2, Py_NewRef(Py_None));
}

/* The sizes of chunks, checked: their sum is the source, the output is shared equally. Items of a share, or -1. */
static Py_ssize_t open_shares(const Span *source, const Span *sizes, Py_ssize_t whole)
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

static PyObject *decode_scaleoffset_chunks(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *chunks, *sizes, *out, *fill, *wanted;
    int decimals, found = 0;
    Py_ssize_t share, done = 0;
    Span s[3] = {0};
    Look look;
    if (!PyArg_ParseTuple(arguments, "OOOOiO", &chunks, &sizes, &out, &fill, &decimals, &wanted) || open_look(wanted, &look) < 0)
        return NULL;
    if (open_bytes(chunks, &s[0], "chunks") < 0 || open_kind(sizes, &s[1], "sizes", I64) < 0
        || open_any_order_out(out, &s[2], "out") < 0 || (share = open_shares(&s[0], &s[1], s[2].count)) < 0)
        return finish(s, 3, NULL);
    if (look.size && look.size != s[2].size)
        return finish(s, 3, refuse("look has %zd bytes, expected %zd", look.size, s[2].size));
    Py_ssize_t n = s[1].count, left = s[0].n_bytes;
    Scaled *each = PyMem_Calloc((size_t)n + 1, sizeof *each);
    if (!each)
        return finish(s, 3, PyErr_NoMemory());
    for (; done < n; done++) {
        int64_t size = ((int64_t *)s[1].bytes)[done];
        Span one = {.bytes = s[0].bytes + (s[0].n_bytes - left), .n_bytes = (Py_ssize_t)size};
        if (size < 0 || size > left || read_scaled(&each[done], &one, &s[2], fill, decimals, share) < 0)
            break;
        left -= (Py_ssize_t)size;
    }
    if (done == n) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < n; i++) {
            uint8_t *made = s[2].bytes + i * share * s[2].size;
            decode_all(&each[i], share, made);
            if (look.size && !found)  /* while it is in the processor's cache */
                found = holds_item(made, share, look.size, look.item);
        }
        Py_END_ALLOW_THREADS
    } else if (!PyErr_Occurred()) {
        refuse("sizes: chunk %zd does not lie in the source", done);
    }
    PyMem_Free(each);
    return finish(s, 3, done == n ? looked(&look, found) : NULL);
}

static Py_ssize_t decode_some(const Scaled *s, Py_ssize_t n, const int64_t *rows, Py_ssize_t n_rows, uint8_t *out)
{
    Py_ssize_t quick = s->plain || s->packed.bits == 0 ? 0 : quick_count(&s->packed, n);
    for (Py_ssize_t i = 0; i < n_rows; i++) {
        uint64_t row = (uint64_t)rows[i], bits;
        if (UNLIKELY(row >= (uint64_t)n))
            return i;
        if (row < (uint64_t)quick)
            bits = scaled_bits(s, unpack_quickly(s->packed.bytes, row * s->packed.bits, s->packed.bits));
        else
            bits = one_number(s, row);
        put(out + i * s->size, bits, s->size, s->swapped);
    }
    return -1;
}

static PyObject *decode_scaleoffset_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *chunk, *rows, *out, *fill;
    int decimals;
    Py_ssize_t n, wrong;
    Span s[3] = {0};
    Scaled scaled = {0};
    if (!PyArg_ParseTuple(arguments, "OnOOOi", &chunk, &n, &rows, &out, &fill, &decimals))
        return NULL;
    if (n < 0)
        return refuse("n_items is %zd, expected at least 0", n);
    if (open_bytes(chunk, &s[0], "chunk") < 0 || open_any_order_out(out, &s[1], "out") < 0
        || open_kind(rows, &s[2], "rows", I64) < 0 || same_count(&s[2], &s[1]) < 0
        || read_scaled(&scaled, &s[0], &s[1], fill, decimals, n) < 0)
        return finish(s, 3, NULL);
    Py_BEGIN_ALLOW_THREADS
    wrong = decode_some(&scaled, n, (const int64_t *)s[2].bytes, s[2].count, s[1].bytes);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 3, refuse("rows names a row at place %zd that is not among the %zd", wrong, n));
    return finish(s, 3, Py_NewRef(Py_None));
}

/* Single rows of chunks in a file, each by the few bytes that hold it. 0, or as read_at; 2 where a chunk makes no sense. */
static int read_rows(int file, const int64_t *const where[3], Py_ssize_t count, Py_ssize_t n, Scaled *s, uint8_t *out)
{
    uint8_t head[HEADER], held[16];
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t address = where[0][i], size = where[1][i], place = where[2][i];
        if (address < 0 || size < HEADER || address > INT64_MAX - size || place < 0 || place >= n)
            return 2;
        int state = read_at(file, address, HEADER, head);
        if (state)
            return state;
        if (!read_head(s, head, (Py_ssize_t)size, n))
            return 2;
        uint64_t bit = (uint64_t)place * s->packed.bits, number = 0;  /* within the chunk, by read_head */
        Py_ssize_t some = (Py_ssize_t)(bit % 8 + s->packed.bits + 7) / 8;
        if (s->packed.bits && (state = read_at(file, address + HEADER + (int64_t)(bit / 8), some, held)))
            return state;
        if (s->packed.bits)
            number = s->plain ? get(held, s->size) : unpack_bits(held, bit % 8, s->packed.bits);
        put(out + i * s->size, s->plain ? number : scaled_bits(s, number), s->size, s->swapped);
    }
    return 0;
}

static PyObject *read_packed_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *given[3], *out, *fill;
    int file, decimals, state;
    Py_ssize_t n;
    Span s[4] = {0};
    Scaled scaled = {0};
    if (!PyArg_ParseTuple(arguments, "iOOOnOOi", &file, &given[0], &given[1], &given[2], &n, &out, &fill, &decimals))
        return NULL;
    if (open_kind(given[0], &s[0], "addresses", I64) < 0 || open_kind(given[1], &s[1], "sizes", I64) < 0
        || open_kind(given[2], &s[2], "places", I64) < 0 || open_any_order_out(out, &s[3], "out") < 0
        || same_count(&s[0], &s[1]) < 0 || same_count(&s[0], &s[2]) < 0 || same_count(&s[0], &s[3]) < 0
        || read_type(&scaled, &s[3], fill, decimals) < 0)
        return finish(s, 4, NULL);
    const int64_t *const where[3] = {(int64_t *)s[0].bytes, (int64_t *)s[1].bytes, (int64_t *)s[2].bytes};
    Py_BEGIN_ALLOW_THREADS
    state = read_rows(file, where, s[3].count, n, &scaled, s[3].bytes);
    Py_END_ALLOW_THREADS
    return finish(s, 4, state ? refuse_read(state) : Py_NewRef(Py_None));
}

/* Rows of chunks that are read whole, one after another, into scratch of `room` bytes. As read_rows. */
static int pick_packed(int file, const int64_t *const where[3], Py_ssize_t n_chunks, const Span *places, Py_ssize_t n,
                       Scaled *s, uint8_t *scratch, int64_t room, uint8_t *out)
{
    int64_t begin = 0;
    for (Py_ssize_t i = 0; i < n_chunks; i++) {
        int64_t address = where[0][i], size = where[1][i], end = where[2][i];
        if (address < 0 || size < HEADER || size > room || address > INT64_MAX - size || end < begin || end > places->count)
            return 2;
        int state = read_at(file, address, (Py_ssize_t)size, scratch);
        if (state)
            return state;
        const int64_t *some = (const int64_t *)places->bytes + begin;
        if (!read_head(s, scratch, (Py_ssize_t)size, n)
            || decode_some(s, n, some, (Py_ssize_t)(end - begin), out + begin * s->size) >= 0)
            return 2;
        begin = end;
    }
    return begin == places->count ? 0 : 2;
}

static PyObject *pick_packed_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *given[4], *out, *fill;
    int file, decimals, state;
    Py_ssize_t n;
    int64_t room = HEADER;
    Span s[5] = {0};
    Scaled scaled = {0};
    if (!PyArg_ParseTuple(arguments, "iOOOOnOOi", &file, &given[0], &given[1], &given[2], &given[3], &n, &out, &fill,
                          &decimals))
        return NULL;
    if (open_kind(given[0], &s[0], "addresses", I64) < 0 || open_kind(given[1], &s[1], "sizes", I64) < 0
        || open_kind(given[2], &s[2], "ends", I64) < 0 || open_kind(given[3], &s[3], "places", I64) < 0
        || open_any_order_out(out, &s[4], "out") < 0 || same_count(&s[0], &s[1]) < 0 || same_count(&s[0], &s[2]) < 0
        || same_count(&s[3], &s[4]) < 0 || read_type(&scaled, &s[4], fill, decimals) < 0)
        return finish(s, 5, NULL);
    const int64_t *const where[3] = {(int64_t *)s[0].bytes, (int64_t *)s[1].bytes, (int64_t *)s[2].bytes};
    for (Py_ssize_t i = 0; i < s[0].count; i++)
        room = where[1][i] > room ? where[1][i] : room;
    if (n < 0 || room > PY_SSIZE_T_MAX)
        return finish(s, 5, refuse_read(2));
    uint8_t *scratch = PyMem_Malloc((size_t)room);
    if (scratch == NULL)
        return finish(s, 5, PyErr_NoMemory());
    Py_BEGIN_ALLOW_THREADS
    state = pick_packed(file, where, s[0].count, &s[3], n, &scaled, scratch, room, s[4].bytes);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
    return finish(s, 5, state ? refuse_read(state) : Py_NewRef(Py_None));
}

/* -- scale-offset, written -- */

/* The least and greatest of the values that are not the fill, as 64 bits; both 0 where all are. */
#define SPAN_LOOP(T, KIND, LEAST, GREATEST)                                                                   \
    WIDE static void span_##KIND(const T *v, Py_ssize_t n, int has_fill, T fill, uint64_t *low, uint64_t *high) \
    {                                                                                                         \
        T least = GREATEST, greatest = LEAST;                                                                 \
        if (has_fill)                                                                                         \
            for (Py_ssize_t i = 0; i < n; i++) {                                                              \
                T down = v[i] == fill ? GREATEST : v[i], up = v[i] == fill ? LEAST : v[i];                    \
                least = down < least ? down : least;                                                          \
                greatest = up > greatest ? up : greatest;                                                     \
            }                                                                                                 \
        else                                                                                                  \
            for (Py_ssize_t i = 0; i < n; i++) {                                                              \
                least = v[i] < least ? v[i] : least;                                                          \
                greatest = v[i] > greatest ? v[i] : greatest;                                                 \
            }                                                                                                 \
        *low = least <= greatest ? (uint64_t)least : 0;                                                       \
        *high = least <= greatest ? (uint64_t)greatest : 0;                                                   \
    }
SPAN_LOOP(int8_t, I8, INT8_MIN, INT8_MAX)
SPAN_LOOP(int16_t, I16, INT16_MIN, INT16_MAX)
SPAN_LOOP(int32_t, I32, INT32_MIN, INT32_MAX)
SPAN_LOOP(int64_t, I64, INT64_MIN, INT64_MAX)
SPAN_LOOP(uint8_t, U8, 0, UINT8_MAX)
SPAN_LOOP(uint16_t, U16, 0, UINT16_MAX)
SPAN_LOOP(uint32_t, U32, 0, UINT32_MAX)
SPAN_LOOP(uint64_t, U64, 0, UINT64_MAX)

static void find_span(const Span *values, int has_fill, uint64_t fill, uint64_t *low, uint64_t *high)
{
#define FIND(T, KIND) \
    case KIND: span_##KIND((const T *)values->bytes, values->count, has_fill, (T)fill, low, high); break;
    switch (values->kind) {
        FIND(int8_t, I8) FIND(int16_t, I16) FIND(int32_t, I32) FIND(int64_t, I64)
        FIND(uint8_t, U8) FIND(uint16_t, U16) FIND(uint32_t, U32) FIND(uint64_t, U64)
    default: break;
    }
#undef FIND
}

/* The least number of bits for `count` different numbers. */
static unsigned bits_for(uint64_t count)
{
    unsigned bits = 0;
    while (bits < 64 && ((uint64_t)1 << bits) < count)
        bits++;
    return bits;
}

typedef struct {
    uint8_t *out;
    uint64_t held;    /* bits that are not written yet, the first highest */
    unsigned free;    /* of its 64 bits: 1 to 64 */
} Packer;

/* At most 63 bits. */
static inline void pack_number(Packer *p, uint64_t number, unsigned bits)
{
    if (bits < p->free) {
        p->free -= bits;
        p->held |= number << p->free;
        return;
    }
    unsigned over = bits - p->free;
    store64(p->out, swap64(p->held | number >> over));
    p->out += 8;
    p->free = 64 - over;
    p->held = over ? number << p->free : 0;
}

static void end_packing(Packer *p)
{
    uint64_t last = swap64(p->held);
    memcpy(p->out, &last, (64 - p->free + 7) / 8);
}

#define ENCODE_LOOP(T)                                                                                        \
    static void encode_##T(const T *v, Py_ssize_t n, uint8_t *out, unsigned bits, T minimum, int has_fill, T fill) \
    {                                                                                                         \
        Packer packer = {out, 0, 64};                                                                         \
        uint64_t mark = ((uint64_t)1 << bits) - 1;                                                            \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                  \
            T value = v[i]; /* masked, so that one changed by another thread stays within its bits */         \
            uint64_t number = (uint64_t)(T)(value - minimum) & mark;                                          \
            pack_number(&packer, has_fill && value == fill ? mark : number, bits);                            \
        }                                                                                                     \
        end_packing(&packer);                                                                                 \
    }
ENCODE_LOOP(uint8_t)
ENCODE_LOOP(uint16_t)
ENCODE_LOOP(uint32_t)
ENCODE_LOOP(uint64_t)

static void encode_all(const Span *values, uint8_t *out, unsigned bits, uint64_t minimum, int has_fill, uint64_t fill)
{
#define ENCODE(T) encode_##T((const T *)values->bytes, values->count, out, bits, (T)minimum, has_fill, (T)fill)
    switch (values->size) {
    case 1: ENCODE(uint8_t); break;
    case 2: ENCODE(uint16_t); break;
    case 4: ENCODE(uint32_t); break;
    default: ENCODE(uint64_t);
    }
#undef ENCODE
}

static void write_header(uint8_t *out, unsigned bits, uint64_t minimum)
{
    memset(out, 0, HEADER);
    out[0] = (uint8_t)bits;
    out[4] = 8;
    store64(out + 5, minimum);
}

static PyObject *encode_scaleoffset(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *values, *out, *fill_given;
    Span s[3] = {0};
    uint64_t fill = 0, low = 0, high = 0;
    Py_ssize_t used = 0;
    int has_fill;
    if (!PyArg_ParseTuple(arguments, "OOO", &values, &out, &fill_given))
        return NULL;
    has_fill = fill_given != Py_None;
    if (open_values(values, &s[0], "values") < 0 || open_bytes_out(out, &s[1], "out") < 0
        || (has_fill && open_bytes(fill_given, &s[2], "fill") < 0))
        return finish(s, 3, NULL);
    if (is_float(s[0].kind))
        return finish(s, 3, refuse("values must hold integers"));
    if (has_fill && s[2].n_bytes != s[0].size)
        return finish(s, 3, refuse("fill must have %zd bytes", s[0].size));
    if (s[0].n_bytes > PY_SSIZE_T_MAX - HEADER - 1 || s[1].n_bytes < HEADER + 1 + s[0].n_bytes)
        return finish(s, 3, refuse("out has %zd bytes, expected at least 22 more than the values", s[1].n_bytes));
    Py_BEGIN_ALLOW_THREADS
    if (has_fill)
        fill = get(s[2].bytes, s[0].size);
    find_span(&s[0], has_fill, fill, &low, &high);
    uint64_t mask = UINT64_MAX >> (64 - 8 * (unsigned)s[0].size), span = (high - low) & mask;
    if (span <= mask - 2) {  /* else the span fills the type */
        unsigned bits = bits_for(span + 1 + (has_fill ? 1 : 0));
        if (bits < 8 * (unsigned)s[0].size) {
            write_header(s[1].bytes, bits, low);
            used = HEADER + 1 + (Py_ssize_t)((uint64_t)s[0].count * bits / 8);
            s[1].bytes[used - 1] = 0;
            if (bits)
                encode_all(&s[0], s[1].bytes + HEADER, bits, low, has_fill, fill);
        }
    }
    Py_END_ALLOW_THREADS
    return finish(s, 3, PyLong_FromSsize_t(used));
}

PyMethodDef packing_functions[] = {
    {"decode_scaleoffset", decode_scaleoffset, METH_VARARGS, NULL},
    {"decode_scaleoffset_chunks", decode_scaleoffset_chunks, METH_VARARGS, NULL},
    {"read_packed_rows", read_packed_rows, METH_VARARGS, NULL},
    {"pick_packed_rows", pick_packed_rows, METH_VARARGS, NULL},
    {"decode_scaleoffset_rows", decode_scaleoffset_rows, METH_VARARGS, NULL},
    {"encode_scaleoffset", encode_scaleoffset, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
