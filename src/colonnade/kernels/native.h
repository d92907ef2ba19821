/* What the C files of the kernels share: buffers that are opened and checked, and a few words.
 *
 * Rules of every kernel:
 * 1. Lengths, item sizes, alignment and indices are checked before memory is touched: bytes come from hostile files.
 * 2. The loop runs without the GIL and touches no Python object.
 * 3. A number that is checked is loaded once, into a local: another thread may change the buffer meanwhile.
 * 4. Malformed input is a ValueError; what stands in the output then means nothing.
 */
#ifndef COLONNADE_NATIVE_H
#define COLONNADE_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Simple loops are compiled twice, for the processor at hand: 256-bit vectors where it has them. Only for static functions. */
#if defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) \
    && (!defined(__clang__) || __clang_major__ >= 14)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the C form is written for little-endian machines; the NumPy form serves others"
#endif

/* Names that files share carry a prefix of their own and stay inside the module: a plain name such as `finish` would bind to
 * that of another library in the process. A function that is WIDE is static besides: compilers export its resolver
 * whatever its visibility. tests/rooms/test_native_symbols.py lists what a build exports. */
#define apart colonnade_apart
#define unpack_into colonnade_unpack_into
#define bitmap_functions colonnade_bitmap_functions
#define bitshuffle_functions colonnade_bitshuffle_functions
#define block_functions colonnade_block_functions
#define blosclz_functions colonnade_blosclz_functions
#define cell_functions colonnade_cell_functions
#define checksum_functions colonnade_checksum_functions
#define chunk_functions colonnade_chunk_functions
#define close_spans colonnade_close_spans
#define coded_functions colonnade_coded_functions
#define compare_functions colonnade_compare_functions
#define count_mask colonnade_count_mask
#define deflate_functions colonnade_deflate_functions
#define finish colonnade_finish
#define group_functions colonnade_group_functions
#define hash_functions colonnade_hash_functions
#define heap_functions colonnade_heap_functions
#define holds_item colonnade_holds_item
#define lz4_functions colonnade_lz4_functions
#define lzf_functions colonnade_lzf_functions
#define mask_functions colonnade_mask_functions
#define move_planes colonnade_move_planes
#define open_any_order_out colonnade_open_any_order_out
#define open_bytes colonnade_open_bytes
#define open_bytes_out colonnade_open_bytes_out
#define open_kind colonnade_open_kind
#define open_kind_out colonnade_open_kind_out
#define open_look colonnade_open_look
#define open_mask colonnade_open_mask
#define open_mask_out colonnade_open_mask_out
#define open_optional_mask colonnade_open_optional_mask
#define open_values colonnade_open_values
#define open_values_out colonnade_open_values_out
#define packing_functions colonnade_packing_functions
#define read_at colonnade_read_at
#define refuse colonnade_refuse
#define refuse_read colonnade_refuse_read
#define same_count colonnade_same_count
#define shuffle_functions colonnade_shuffle_functions
#define sort_functions colonnade_sort_functions
#define string_functions colonnade_string_functions
#define suits_look colonnade_suits_look
#define take_functions colonnade_take_functions
#define take_items colonnade_take_items
#define total_functions colonnade_total_functions
#define unpack_eights colonnade_unpack_eights
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

typedef enum { I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, OTHER } Kind;

/* A buffer that is open. Zeroed, it may be closed too. */
typedef struct {
    Py_buffer view;
    const char *name;    /* the argument, for messages */
    uint8_t *bytes;
    Py_ssize_t n_bytes;
    Py_ssize_t count;    /* items */
    Py_ssize_t size;     /* bytes of an item */
    Kind kind;
    int swapped;         /* items are big-endian */
} Span;

/* Each answers 0, or -1 with an exception set. */
int open_bytes(PyObject *object, Span *span, const char *name);        /* any contiguous buffer, read */
int open_bytes_out(PyObject *object, Span *span, const char *name);    /* any contiguous buffer, written */
int open_values(PyObject *object, Span *span, const char *name);       /* native numbers, aligned */
int open_values_out(PyObject *object, Span *span, const char *name);
int open_any_order_out(PyObject *object, Span *span, const char *name);/* numbers of either byte order, written */
int open_mask(PyObject *object, Span *span, const char *name);         /* one byte an item, not 0 is true */
int open_mask_out(PyObject *object, Span *span, const char *name);
int open_optional_mask(PyObject *object, Span *span, const char *name, Py_ssize_t count); /* None: bytes is NULL */
int open_kind(PyObject *object, Span *span, const char *name, Kind kind);
int open_kind_out(PyObject *object, Span *span, const char *name, Kind kind);
void close_spans(Span *spans, int n);

PyObject *refuse(const char *format, ...); /* raises ValueError, answers NULL */
int same_count(const Span *a, const Span *b);
int apart(const Span *source, const Span *out); /* refuses an output that lies over its source */
PyObject *finish(Span *spans, int n, PyObject *result);

/* Fills `out` from `in`; -1 for bytes that are not of the format, or do not give exactly `room` bytes. */
typedef int (*Unpacker)(const uint8_t *in, Py_ssize_t n, uint8_t *out, Py_ssize_t room);
PyObject *unpack_into(PyObject *arguments, Unpacker unpack, const char *format); /* a call: (source, out) */

static inline int is_float(Kind kind) { return kind == F32 || kind == F64; }
static inline int is_signed(Kind kind) { return kind <= I64; }

/* a * b for lengths: -1 where it does not fit. */
static inline Py_ssize_t product(Py_ssize_t a, Py_ssize_t b)
{
    return (a < 0 || b < 0 || (b > 0 && a > PY_SSIZE_T_MAX / b)) ? -1 : a * b;
}

static inline uint64_t load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline uint32_t load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint16_t load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline void store16(uint8_t *p, uint16_t v) { memcpy(p, &v, 2); }
static inline void store64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }

#if defined(__GNUC__)
#define swap64(v) __builtin_bswap64(v)
#define swap32(v) __builtin_bswap32(v)
#define swap16(v) __builtin_bswap16(v)
#define lowest_bit(v) __builtin_ctzll(v)
#define highest_bit(v) (63 - __builtin_clzll(v))
#define count_bits(v) __builtin_popcountll(v)
#define UNLIKELY(c) __builtin_expect(!!(c), 0)
#else
static inline uint64_t swap64(uint64_t v)
{
    v = (v & 0x00FF00FF00FF00FFull) << 8 | (v >> 8 & 0x00FF00FF00FF00FFull);
    v = (v & 0x0000FFFF0000FFFFull) << 16 | (v >> 16 & 0x0000FFFF0000FFFFull);
    return v << 32 | v >> 32;
}
static inline uint32_t swap32(uint32_t v) { return (uint32_t)(swap64(v) >> 32); }
static inline uint16_t swap16(uint16_t v) { return (uint16_t)(v << 8 | v >> 8); }
static inline int lowest_bit(uint64_t v) { int n = 0; while (!(v & 1)) { v >>= 1; n++; } return n; }
static inline int highest_bit(uint64_t v) { int n = 0; while (v >>= 1) n++; return n; }
static inline int count_bits(uint64_t v)
{
    v -= v >> 1 & 0x5555555555555555ull;
    v = (v & 0x3333333333333333ull) + (v >> 2 & 0x3333333333333333ull);
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0Full;
    return (int)(v * 0x0101010101010101ull >> 56);
}
#define UNLIKELY(c) (c)
#endif

/* Bytes of a mask as 0 and 1. */
static inline uint64_t truths(uint64_t w)
{
    return (((w & 0x7F7F7F7F7F7F7F7Full) + 0x7F7F7F7F7F7F7F7Full) | w) >> 7 & 0x0101010101010101ull;
}

/* A copy of what lies `distance` before; where that is less than the length, it repeats itself. */
static inline void repeat_bytes(uint8_t *to, Py_ssize_t distance, Py_ssize_t length)
{
    const uint8_t *from = to - distance;
    if (distance == 1) {
        memset(to, *from, (size_t)length);
        return;
    }
    while (length > distance) {  /* what is copied doubles each time */
        memcpy(to, from, (size_t)distance);
        to += distance, length -= distance, distance *= 2;
    }
    memcpy(to, from, (size_t)length);
}

/* Byte planes of items to items (undo) or back, see shuffle.c. */
void move_planes(const uint8_t *in, uint8_t *out, Py_ssize_t n_bytes, Py_ssize_t size, int undo);
/* Numbers of `bits` bits, the highest first: each stands for itself and the minimum; `mark`, all bits 1, for the fill. */
typedef struct {
    const uint8_t *bytes;
    Py_ssize_t n_bytes;
    unsigned bits;
    int has_fill;
    uint64_t minimum, mark, fill;
} Packing;
/* A beginning of n such numbers as items of this size: how many, as far as it goes by eights. In unpack.c. */
Py_ssize_t unpack_eights(const Packing *p, Py_ssize_t n, Py_ssize_t size, uint8_t *out);
/* Whether one of n items of 1, 2, 4 or 8 bytes, at a place that suits them, is this one. In compare.c. */
int holds_item(const uint8_t *items, Py_ssize_t n, Py_ssize_t size, uint64_t item);
/* An item that is looked for while the bytes are at hand; size 0: nothing is. 0, or -1 with an exception set. */
typedef struct {
    uint64_t item;
    Py_ssize_t size;
} Look;
int open_look(PyObject *object, Look *look);
int suits_look(const Span *span, const Look *look);  /* whether the bytes are such items */
static inline PyObject *looked(const Look *look, int found)
{
    return Py_NewRef(look->size == 0 ? Py_None : found ? Py_True : Py_False);
}
/* Bytes of a file from an address: 0, 1 when it ends before, -1 when it cannot be read (errno). In chunks.c. */
int read_at(int file, int64_t address, Py_ssize_t size, uint8_t *out);
/* The exception for these, and for 2: sizes and addresses make no sense. NULL. */
PyObject *refuse_read(int state);
/* Items gathered by row number: the first place whose row is not among the n, or -1. In take.c. */
Py_ssize_t take_items(const uint8_t *in, uint64_t n, const int64_t *rows, Py_ssize_t n_rows, uint8_t *out, Py_ssize_t size);
/* How many bytes are not 0. */
Py_ssize_t count_mask(const uint8_t *mask, Py_ssize_t n);

/* The functions of each file. */
extern PyMethodDef shuffle_functions[], checksum_functions[], bitshuffle_functions[], packing_functions[],
    compare_functions[], mask_functions[], take_functions[], total_functions[], group_functions[], string_functions[],
    heap_functions[], hash_functions[], sort_functions[], bitmap_functions[], coded_functions[],
    blosclz_functions[], lz4_functions[], block_functions[], deflate_functions[], chunk_functions[],
    cell_functions[], lzf_functions[];

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
