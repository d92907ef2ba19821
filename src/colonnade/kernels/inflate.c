/* Deflated bytes (zlib's form), inflated to exactly the bytes they are said to have, straight into their place.
 *
 * A stream: two bytes of head, blocks, the Adler-32 of what they make. Of each block the head says whether it is the last, and how it
 * is kept: as it is, by the codes that the standard fixes, or by codes of its own, whose lengths come first.
 *
 * Codes are looked up by the next bits: at once up to MAIN bits of them, longer ones in a second table. An entry of a
 * table says what the code stands for and how many bits it takes, those that follow it (EXTRA) included:
 *   bits 0..4 bits in all, 5..7 what it is; of a byte: 8..15 itself, 16..23 and 24 another one behind it and that there is one;
 *   of a length or a distance: 8..11 bits of the code itself, 16.. what those that follow are added to;
 *   of a pointer to a second table: 8..11 the bits that choose in it, 16.. where it begins.
 */
#include "native.h"

enum {
    MAIN = 11, NEAR = 8,                /* bits looked up at once: of bytes and lengths, and of distances */
    LONGEST = 15,                       /* bits of a code */
    N_LITERALS = 288, N_DISTANCES = 32, END = 256,
    ROOM_LITERALS = 2342, ROOM_DISTANCES = 402, /* the most entries that complete codes can need */
    ROOM_LENGTHS = 128, N_LENGTHS = 19,
    MOST = 258,                         /* bytes of a copy */
    SPARE_IN = 16, SPARE_OUT = MOST + 48/* what the quick loop may touch beyond what it uses */
};
#define IS_POINTER 0x20u
#define IS_SPECIAL 0x40u    /* the end, or a code that means nothing */
#define IS_LITERAL 0x80u
#define IS_END (IS_SPECIAL | 0x1000u)
#define IS_TWO (1u << 24)
#define VALUE(entry) ((entry) >> 16)
#define SIZE(entry) ((entry) & 31)

typedef struct {
    uint32_t literals[ROOM_LITERALS], distances[ROOM_DISTANCES];
    uint64_t bits;          /* of the source, the next one lowest */
    unsigned n_bits;        /* how many of them count */
    unsigned beyond;        /* bytes of them that are behind the end of the source */
    const uint8_t *in, *in_end;
    uint8_t *out_begin, *out, *out_end;
} State;

static const uint16_t LENGTH_BASE[31] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83,
                                         99, 115, 131, 163, 195, 227, 258, 0, 0};
static const uint8_t LENGTH_EXTRA[31] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t DISTANCE_BASE[32] = {1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025,
                                           1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577, 0, 0};
static const uint8_t LENGTH_ORDER[N_LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

/* What a symbol stands for, as an entry whose bits are those of the code alone. */
static uint32_t literal_entry(unsigned symbol, unsigned length)
{
    if (symbol < END)
        return IS_LITERAL | symbol << 8 | length;
    if (symbol == END)
        return IS_END | length;
    if (symbol > 285)
        return IS_SPECIAL | length;
    return (uint32_t)LENGTH_BASE[symbol - 257] << 16 | length << 8 | (length + LENGTH_EXTRA[symbol - 257]);
}

static uint32_t distance_entry(unsigned symbol, unsigned length)
{
    if (symbol > 29)
        return IS_SPECIAL | length;
    return (uint32_t)DISTANCE_BASE[symbol] << 16 | length << 8 | (length + (symbol < 4 ? 0 : symbol / 2 - 1));
}

static uint32_t length_entry(unsigned symbol, unsigned length) { return symbol << 16 | length << 8 | length; }

/* The next code of `length` bits, which are kept in reverse. */
static unsigned next_code(unsigned code, unsigned length)
{
    unsigned bit = 1u << (length - 1);
    while (code & bit)
        bit >>= 1;
    return bit ? (code & (bit - 1)) | bit : 0;
}

/* Fill a table from the lengths of the codes; -1 where they are too many, or too few for all bits to mean something.
 *
 * A single code of one bit, and none at all, are let through unless `strict`, as zlib does. */
static int build(uint32_t *table, int room, unsigned root, const uint8_t *lengths, unsigned n,
                 uint32_t (*entry)(unsigned, unsigned), int strict)
{
    unsigned count[LONGEST + 1] = {0}, begin[LONGEST + 2], longest = LONGEST, length;
    uint16_t sorted[N_LITERALS];
    int left = 1;
    for (unsigned symbol = 0; symbol < n; symbol++)
        count[lengths[symbol]]++;
    while (longest && !count[longest])
        longest--;
    for (length = 1; length <= LONGEST; length++) {
        left = 2 * left - (int)count[length];
        if (left < 0)
            return -1;
    }
    if (left > 0 && (longest > 1 || (strict && longest)))
        return -1;
    if (left > 0)
        for (int place = 0; place < 1 << root; place++)
            table[place] = IS_SPECIAL | 1;
    begin[1] = 0;
    for (length = 1; length <= LONGEST; length++)
        begin[length + 1] = begin[length] + count[length];
    for (unsigned symbol = 0; symbol < n; symbol++)
        if (lengths[symbol])
            sorted[begin[lengths[symbol]]++] = (uint16_t)symbol;

    unsigned code = 0, at = 0, prefix = ~0u, sub_bits = 0;
    int sub = 1 << root;    /* where the second table begins that is being filled, then where the next one does */
    uint32_t *target = table;
    for (length = 1; length <= longest; length++) {
        for (unsigned k = 0; k < count[length]; k++, at++) {
            if (length <= root) {
                uint32_t made = entry(sorted[at], length);
                for (unsigned place = code; place < 1u << root; place += 1u << length)
                    table[place] = made;
            } else {
                if ((code & ((1u << root) - 1)) != prefix) {
                    prefix = code & ((1u << root) - 1);
                    sub_bits = length - root;
                    int open = (1 << sub_bits) - (int)(count[length] - k);
                    while (open > 0 && sub_bits + root < longest) {
                        sub_bits++;
                        open = 2 * open - (int)count[sub_bits + root];
                    }
                    if (sub + (1 << sub_bits) > room)
                        return -1;
                    table[prefix] = IS_POINTER | (uint32_t)sub << 16 | sub_bits << 8 | root;
                    target = table + sub;
                    sub += 1 << sub_bits;
                }
                /* bits of the main table are taken before those of the second one */
                uint32_t made = entry(sorted[at], length - root);
                for (unsigned place = code >> root; place < 1u << sub_bits; place += 1u << (length - root))
                    target[place] = made;
            }
            code = next_code(code, length);
        }
    }
    return 0;
}

/* Entries of the main table that have bits to spare for another byte get it. From the last on: what is looked up lies before. */
static void pair_literals(uint32_t *table)
{
    for (unsigned place = 1u << MAIN; place-- > 0;) {
        uint32_t first = table[place], second = table[place >> SIZE(first)];
        if (first & second & IS_LITERAL && SIZE(first) + SIZE(second) <= MAIN)
            table[place] = IS_TWO | (second & 0xFF00) << 8 | ((first & 0xFF00) + IS_LITERAL + SIZE(first) + SIZE(second));
    }
}

/* At least 56 bits, or what there is; bits behind the end are 0. */
static inline void refill(State *s)
{
    if (s->in_end - s->in >= 8) {
        s->bits |= load64(s->in) << s->n_bits;
        s->in += (63 - s->n_bits) >> 3;
        s->n_bits |= 56;
        return;
    }
    while (s->n_bits < 56) {
        if (s->in < s->in_end)
            s->bits |= (uint64_t)*s->in++ << s->n_bits;
        else
            s->beyond++;
        s->n_bits += 8;
    }
}

static inline unsigned take(State *s, unsigned n)
{
    unsigned value = (unsigned)(s->bits & ((1ull << n) - 1));
    s->bits >>= n;
    s->n_bits -= n;
    return value;
}

/* Whether bits behind the end of the source were used. */
static inline int is_past(const State *s) { return s->beyond > s->n_bits / 8; }

static int read_codes(State *s)
{
    uint8_t lengths[N_LITERALS + N_DISTANCES] = {0};
    uint32_t table[ROOM_LENGTHS];
    refill(s);
    unsigned n_literals = take(s, 5) + 257, n_distances = take(s, 5) + 1, n_lengths = take(s, 4) + 4, at = 0;
    if (n_literals > 286 || n_distances > 30)
        return -1;
    for (unsigned k = 0; k < n_lengths; k++) {
        refill(s);
        lengths[LENGTH_ORDER[k]] = (uint8_t)take(s, 3);
    }
    if (build(table, ROOM_LENGTHS, 7, lengths, N_LENGTHS, length_entry, 1) < 0)
        return -1;
    memset(lengths, 0, N_LENGTHS);
    while (at < n_literals + n_distances) {
        refill(s);
        uint32_t entry = table[s->bits & 127];
        if (entry & IS_SPECIAL)
            return -1;
        take(s, SIZE(entry));
        unsigned symbol = VALUE(entry), repeats;
        uint8_t length = 0;
        if (symbol < 16) {
            lengths[at++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == 16) {
            if (at == 0)
                return -1;
            length = lengths[at - 1];
            repeats = 3 + take(s, 2);
        } else {
            repeats = symbol == 17 ? 3 + take(s, 3) : 11 + take(s, 7);
        }
        if (repeats > n_literals + n_distances - at)
            return -1;
        memset(lengths + at, length, repeats);
        at += repeats;
    }
    if (is_past(s) || !lengths[END]
        || build(s->literals, ROOM_LITERALS, MAIN, lengths, n_literals, literal_entry, 0) < 0)
        return -1;
    pair_literals(s->literals);
    return build(s->distances, ROOM_DISTANCES, NEAR, lengths + n_literals, n_distances, distance_entry, 0);
}

static int fixed_codes(State *s)
{
    uint8_t lengths[N_LITERALS];
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    if (build(s->literals, ROOM_LITERALS, MAIN, lengths, N_LITERALS, literal_entry, 1) < 0)
        return -1;
    memset(lengths, 5, N_DISTANCES);
    return build(s->distances, ROOM_DISTANCES, NEAR, lengths, N_DISTANCES, distance_entry, 1);
}

/* The entry of the next code, its bits taken from `bits`: of a pointer those of the main table are. */
#define FIND(entry, table, root) \
    entry = (table)[bits & ((1u << (root)) - 1)]; \
    if (UNLIKELY(entry & IS_POINTER)) { \
        bits >>= (root); \
        n_bits -= (root); \
        entry = (table)[VALUE(entry) + (bits & ((1u << (entry >> 8 & 15)) - 1))]; \
    }
#define USE(entry) (bits >>= SIZE(entry), n_bits -= SIZE(entry))
/* The number that an entry stands for, with the bits that follow its code, which it uses up. */
#define WHOLE(entry) (VALUE(entry) + (unsigned)((bits & ((1ull << SIZE(entry)) - 1)) >> ((entry) >> 8 & 15)))

/* The least multiple of a distance that is a word at least. */
static const uint8_t PERIODS[8] = {0, 0, 8, 9, 8, 10, 12, 14};

/* A copy of what lies `distance` before; up to SPARE_OUT bytes from `to` on may be written. */
static inline void copy_quick(uint8_t *to, unsigned distance, unsigned length)
{
    const uint8_t *from = to - distance;
    uint8_t *end = to + length;
    if (length <= 16 && length <= distance) {
        memcpy(to, from, 16);
    } else if (distance >= 16) {
        do {
            memcpy(to, from, 16);
            memcpy(to + 16, from + 16, 16);
            to += 32, from += 32;
        } while (to < end);
    } else if (distance == 1) {
        memset(to, *from, length);
    } else {
        if (distance < 8) {     /* one by one, up to where what repeats is as long as a word */
            unsigned period = PERIODS[distance];
            for (unsigned k = 0; k < period; k++)
                to[k] = from[k];
            to += period;
        }
        for (; to < end; to += 8, from += 8)
            memcpy(to, from, 8);
    }
}

/* Codes of a block as long as there is room on both sides; 1 when the block has ended, 0 when there is no more room, -1 for
 * what means nothing. */
static int decode_quick(State *s)
{
    uint64_t bits = s->bits;
    unsigned n_bits = s->n_bits;
    const uint8_t *in = s->in, *in_last = s->in_end - SPARE_IN;
    uint8_t *out = s->out, *out_last = s->out_end - SPARE_OUT;
    const uint32_t *literals = s->literals, *distances = s->distances;
    int state = 0;
#define FILL() (bits |= load64(in) << n_bits, in += (63 - n_bits) >> 3, n_bits |= 56)
#define PUT(entry) (USE(entry), store16(out, (uint16_t)((entry) >> 8)), out += 1 + ((entry) >> 24 & 1))
    while (in <= in_last && out <= out_last) {
        uint32_t entry;
        FILL();
        FIND(entry, literals, MAIN)
        if (entry & IS_LITERAL) {
            PUT(entry);
            FIND(entry, literals, MAIN)
            if (entry & IS_LITERAL) {
                PUT(entry);
                FIND(entry, literals, MAIN)
                if (entry & IS_LITERAL) {
                    PUT(entry);
                    continue;
                }
            }
            /* 30 bits were used at most, 15 more of a code now: what follows it is there, too */
        }
        if (UNLIKELY(entry & IS_SPECIAL)) {
            state = (entry & IS_END) == IS_END ? 1 : -1;
            USE(entry);
            break;
        }
        unsigned length = WHOLE(entry), distance;
        USE(entry);
        FILL();
        FIND(entry, distances, NEAR)
        distance = WHOLE(entry);
        USE(entry);
        if (UNLIKELY((entry & IS_SPECIAL) || distance > (size_t)(out - s->out_begin))) {
            state = -1;
            break;
        }
        copy_quick(out, distance, length);
        out += length;
    }
#undef FILL
#undef PUT
    s->bits = bits & (n_bits < 64 ? (1ull << n_bits) - 1 : ~0ull);
    s->n_bits = n_bits;
    s->in = in;
    s->out = out;
    return state;
}

/* One code of a block, carefully; 1 when it ends the block, -1 for what means nothing. */
static int decode_one(State *s)
{
    refill(s);
    uint64_t bits = s->bits;
    unsigned n_bits = s->n_bits;
    uint32_t entry;
    int state = 0;
    FIND(entry, s->literals, MAIN)
    if (entry & IS_LITERAL) {
        USE(entry);
        for (unsigned k = 0; k <= (entry >> 24 & 1); k++) {
            if (s->out == s->out_end)
                return -1;
            *s->out++ = (uint8_t)(entry >> (8 + 8 * k));
        }
    } else if (entry & IS_SPECIAL) {
        state = (entry & IS_END) == IS_END ? 1 : -1;
        USE(entry);
    } else {
        unsigned length = WHOLE(entry), distance;
        USE(entry);
        FIND(entry, s->distances, NEAR)
        distance = WHOLE(entry);
        USE(entry);
        if ((entry & IS_SPECIAL) || distance > (size_t)(s->out - s->out_begin)
            || length > (size_t)(s->out_end - s->out))
            return -1;
        repeat_bytes(s->out, distance, length);
        s->out += length;
    }
    s->bits = bits;
    s->n_bits = n_bits;
    return is_past(s) ? -1 : state;
}

static int decode_block(State *s)
{
    int state = 0;
    while (!state) {
        if (s->in_end - s->in >= SPARE_IN && s->out_end - s->out >= SPARE_OUT)
            state = decode_quick(s);
        if (!state)
            state = decode_one(s);
    }
    return state;
}

/* Give back the whole bytes that were taken in advance. */
static int give_back(State *s)
{
    unsigned whole = s->n_bits / 8;
    if (s->beyond > whole)
        return -1;
    s->in -= whole - s->beyond;
    s->beyond = 0;
    s->bits = 0;
    s->n_bits = 0;
    return 0;
}

/* Bytes kept as they are: their number, the same inverted, they themselves. */
static int copy_block(State *s)
{
    take(s, s->n_bits & 7);
    if (give_back(s) < 0 || s->in_end - s->in < 4)
        return -1;
    unsigned length = load16(s->in), inverse = load16(s->in + 2);
    s->in += 4;
    if (length != (inverse ^ 0xFFFF) || length > s->in_end - s->in || length > s->out_end - s->out)
        return -1;
    memcpy(s->out, s->in, length);
    s->in += length;
    s->out += length;
    return 0;
}

static int inflate_blocks(State *s)
{
    unsigned last;
    do {
        refill(s);
        last = take(s, 1);
        unsigned kind = take(s, 2);
        if (kind == 0) {
            if (copy_block(s) < 0)
                return -1;
        } else if (kind == 3 || (kind == 1 ? fixed_codes(s) : read_codes(s)) < 0 || decode_block(s) < 0) {
            return -1;
        }
    } while (!last);
    take(s, s->n_bits & 7);
    return give_back(s);
}

/* Sums side by side, joined before they grow too large for 16 bits. */
WIDE static uint32_t sum_of(const uint8_t *bytes, Py_ssize_t n)
{
    enum { LANES = 32, STEPS = 22, PRIME = 65521 };
    uint64_t a = 1, b = 0;
    while (n >= LANES) {
        uint16_t sums[LANES] = {0}, weighted[LANES] = {0};
        uint32_t plain = 0, times = 0;
        Py_ssize_t steps = n / LANES < STEPS ? n / LANES : STEPS;
        for (Py_ssize_t step = 0; step < steps; step++, bytes += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                weighted[lane] = (uint16_t)(weighted[lane] + sums[lane]);
                sums[lane] = (uint16_t)(sums[lane] + bytes[lane]);
            }
        for (int lane = 0; lane < LANES; lane++) {
            plain += sums[lane];
            times += weighted[lane] * (uint32_t)LANES + sums[lane] * (uint32_t)(LANES - lane);
        }
        b = (b + a * (uint64_t)(steps * LANES) + times) % PRIME;
        a = (a + plain) % PRIME;
        n -= steps * LANES;
    }
    while (n-- > 0) {
        a += *bytes++;
        b += a;
    }
    return (uint32_t)(b % PRIME) << 16 | (uint32_t)(a % PRIME);
}

uint32_t adler32(const uint8_t *bytes, Py_ssize_t n) { return sum_of(bytes, n); }

const size_t inflate_state_size = sizeof(State);

/* 0, or -1 when `in` does not begin with a stream of exactly `room` bytes. */
Py_ssize_t inflate_stream(void *state, const uint8_t *in, Py_ssize_t n, uint8_t *out, Py_ssize_t room)
{
    State *s = state;
    if (n < 6)
        return -1;
    unsigned method = in[0], flags = in[1];
    if ((method & 15) != 8 || method >> 4 > 7 || flags & 0x20 || (method << 8 | flags) % 31)
        return -1;
    s->bits = 0, s->n_bits = 0, s->beyond = 0;
    s->in = in + 2, s->in_end = in + n;
    s->out_begin = s->out = out, s->out_end = out + room;
    if (inflate_blocks(s) < 0 || s->out != s->out_end || s->in_end - s->in < 4)
        return -1;
    return swap32(load32(s->in)) == adler32(out, room) ? 0 : -1;
}

/* (source, out) of a call through `work`, which has memory of its own; its answer, or PY_SSIZE_T_MIN with an exception. */
Py_ssize_t code_stream(PyObject *arguments, size_t state_size, Coder *work, Py_ssize_t *room)
{
    PyObject *source, *target;
    Span s[2] = {0};
    Py_ssize_t answer = PY_SSIZE_T_MIN;
    void *state = NULL;
    if (!PyArg_ParseTuple(arguments, "OO", &source, &target))
        return answer;
    if (open_bytes(source, &s[0], "source") == 0 && open_bytes_out(target, &s[1], "out") == 0 && apart(&s[0], &s[1]) == 0) {
        *room = s[1].n_bytes;
        if ((state = PyMem_Malloc(state_size)) != NULL) {
            Py_BEGIN_ALLOW_THREADS
            answer = work(state, s[0].bytes, s[0].n_bytes, s[1].bytes, s[1].n_bytes);
            Py_END_ALLOW_THREADS
            PyMem_Free(state);
        }
        else
            PyErr_NoMemory();
    }
    close_spans(s, 2);
    return answer;
}

static PyObject *inflate(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_ssize_t room = 0, answer = code_stream(arguments, sizeof(State), inflate_stream, &room);
    if (answer == PY_SSIZE_T_MIN)
        return NULL;
    return answer ? refuse("source is no deflated stream of %zd bytes", room) : Py_NewRef(Py_None);
}

PyMethodDef inflate_functions[] = {
    {"inflate", inflate, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
