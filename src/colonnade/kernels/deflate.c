/* Bytes to a stream of zlib (RFC 1950, 1951) that holds literals and runs of one byte, and no other matches.
 *
 * Numbers and text of one length, shuffled, have long runs (bytes that are 0 in all) and bytes that follow no other:
 * there a search for matches finds little and takes most of the time. Blocks are short, and each has Huffman codes of
 * its own, so that these suit the plane of bytes that a block is of. What codes would not make shorter is stored.
 */
#include "native.h"

enum {
    BLOCK = 32768,            /* bytes, at most; half a plane of a chunk of 65,536 rows */
    SMALLEST = 4096,          /* shorter ones would spend too much on their codes */
    PARTS = 16,               /* of a chunk: about as many as it has planes */
    MOST_RUNS = BLOCK / 8 + 1,
    END = 256,                /* the symbol after the last */
    SYMBOLS = 286,
    LONGEST = 13,             /* bits of a code: four, and what was left before, fit into 64 bits */
    HEAD_SYMBOLS = 19,
    LONGEST_HEAD = 7,
    MOST_HEAD = SYMBOLS + 1,  /* lengths of codes that a block begins with */
    LONGEST_RUN = 258,
    SHORT = 256,              /* bytes for each run, on the average, below which it is asked whether runs pay */
};

typedef struct { uint16_t start, length; } Run;
typedef struct { uint8_t *out, *end; uint64_t bits; int n_bits, is_full; } Writer;
typedef struct { uint32_t count[SYMBOLS]; uint8_t length[SYMBOLS]; uint16_t code[SYMBOLS]; } Codes;
typedef struct { uint8_t symbol[MOST_HEAD], extra[MOST_HEAD]; int n; } Head;
typedef struct { Codes codes, head_codes; Head head; int n_lengths, n_head; } Plan;
typedef struct {
    Run runs[MOST_RUNS];
    Py_ssize_t n_runs;
    uint32_t bytes[256]; /* how often each occurs in the block */
    Plan plan;
} State;

/* -- bits -- */

static inline void add_bits(Writer *w, uint64_t value, int n)
{
    w->bits |= value << w->n_bits;
    w->n_bits += n;
}

/* The whole bytes among the bits go out; eight bytes are written, of which the next ones take the place of the rest. */
static inline void flush_bits(Writer *w)
{
    if (UNLIKELY(w->end - w->out < 8)) { /* only where the source is changed meanwhile */
        w->bits = 0, w->n_bits = 0, w->is_full = 1;
        return;
    }
    store64(w->out, w->bits);
    w->out += w->n_bits >> 3;
    w->bits >>= w->n_bits & 56;
    w->n_bits &= 7;
}

/* -- codes -- */

/* Counts below 2**17, each shifted by 9 with its symbol below, in increasing order: by byte, from the lowest. */
static void sort_counts(uint32_t *sorted, int n)
{
    uint32_t other[SYMBOLS], *from = sorted, *to = other;
    for (int shift = 9; shift < 26; shift += 8) {
        int place[257] = {0};
        for (int i = 0; i < n; i++)
            place[(from[i] >> shift & 255) + 1]++;
        if (place[1] == n) /* all are 0 here, and in what is above often */
            continue;
        for (int i = 0; i < 255; i++)
            place[i + 1] += place[i];
        for (int i = 0; i < n; i++)
            to[place[from[i] >> shift & 255]++] = from[i];
        uint32_t *swap = from;
        from = to, to = swap;
    }
    if (from != sorted)
        memcpy(sorted, from, (size_t)n * sizeof *sorted);
}

/* Depths of the leaves of Huffman's tree over counts that increase, in place of `parent`. At least two leaves. */
static void find_depths(const uint32_t *count, int n, uint16_t *parent)
{
    uint32_t weight[SYMBOLS];
    int leaf = 0, node = 0;
    uint16_t above[SYMBOLS]; /* of the inner nodes */
    for (int made = 0; made < n - 1; made++) {
        uint32_t sum = 0;
        for (int side = 0; side < 2; side++) {
            if (leaf < n && (node >= made || count[leaf] <= weight[node])) {
                sum += count[leaf];
                parent[leaf++] = (uint16_t)made;
            }
            else {
                sum += weight[node];
                above[node++] = (uint16_t)made;
            }
        }
        weight[made] = sum;
    }
    uint16_t depth[SYMBOLS];
    depth[n - 2] = 0;
    for (int i = n - 3; i >= 0; i--)
        depth[i] = (uint16_t)(depth[above[i]] + 1);
    for (int i = 0; i < n; i++)
        parent[i] = (uint16_t)(depth[parent[i]] + 1);
}

/* Lengths of codes for all symbols with a count, none longer than `most` bits; and the codes, their first bit lowest. */
static void make_codes(Codes *c, int n_symbols, int most)
{
    uint32_t sorted[SYMBOLS], counts[SYMBOLS] = {0};
    uint16_t depths[SYMBOLS];
    int n = 0, of_length[SYMBOLS + 1] = {0};
    for (int i = 0; i < n_symbols; i++) {
        c->length[i] = 0;
        if (c->count[i]) /* a block has fewer than 2**17 symbols */
            sorted[n++] = c->count[i] << 9 | (uint32_t)i;
    }
    if (n == 1) {
        c->length[sorted[0] & 511] = 1;
        c->code[sorted[0] & 511] = 0;
        return;
    }
    sort_counts(sorted, n);
    for (int i = 0; i < n; i++)
        counts[i] = sorted[i] >> 9;
    find_depths(counts, n, depths);
    for (int i = 0; i < n; i++)
        of_length[depths[i] < most ? depths[i] : most]++;
    /* Codes that were cut take more room than there is: a shorter one is made longer for each that is too many. */
    int64_t taken = 0;
    for (int i = 1; i <= most; i++)
        taken += (int64_t)of_length[i] << (most - i);
    for (; taken > (int64_t)1 << most; taken--) {
        int i = most - 1;
        while (!of_length[i])
            i--;
        of_length[i]--, of_length[i + 1] += 2, of_length[most]--;
    }
    uint16_t next[LONGEST + 2] = {0};
    for (int i = 1; i <= most; i++)
        next[i + 1] = (uint16_t)((next[i] + of_length[i]) << 1);
    for (int i = 0, bits = most; i < n; i++) { /* the rarest have the longest */
        while (!of_length[bits])
            bits--;
        of_length[bits]--;
        c->length[sorted[i] & 511] = (uint8_t)bits;
    }
    for (int i = 0; i < n_symbols; i++) {
        unsigned bits = c->length[i], code = bits ? next[bits]++ : 0, turned = 0;
        for (unsigned j = 0; j < bits; j++)
            turned |= (code >> j & 1) << (bits - 1 - j);
        c->code[i] = (uint16_t)turned;
    }
}

/* -- runs -- */

/* Of a run of 3 to 258: its symbol, and the number and value of its extra bits. */
static inline int symbol_of_run(unsigned length, int *n_extra, unsigned *extra)
{
    unsigned above = length - 3, bits = (unsigned)highest_bit(above | 4) - 2;
    *n_extra = 0, *extra = 0;
    if (length == LONGEST_RUN)
        return 285;
    *n_extra = (int)bits;
    *extra = above & ((1u << bits) - 1);
    return 257 + (int)(4 * bits + (above >> bits));
}

/* The length of a run that one symbol encodes: one or two bytes are never left over. */
static inline unsigned part_of_run(unsigned left)
{
    return left <= LONGEST_RUN ? left : left < LONGEST_RUN + 3 ? left - 3 : LONGEST_RUN;
}

/* The bytes just before `p`, of `n` that are looked at, that equal the one before them; fewer than eight do. */
static inline Py_ssize_t equal_before(const uint8_t *p, Py_ssize_t n)
{
    if (n >= 8) {
        uint64_t differing = load64(p - 8) ^ load64(p - 9);
        return differing ? (63 - highest_bit(differing)) / 8 : 8;
    }
    Py_ssize_t equal = 0;
    while (equal < n && p[-1 - equal] == p[-2 - equal])
        equal++;
    return equal;
}

/* Bytes that equal the one before them, eight or more; all that have sixteen are found. */
static void find_runs(State *s, const uint8_t *p, Py_ssize_t n)
{
    Py_ssize_t i = 1, next = 1;
    s->n_runs = 0;
    while (i + 8 <= n) {
        if (load64(p + i) != load64(p + i - 1)) {
            i += 8;
            continue;
        }
        Py_ssize_t start = i, stop = i + 8;
        start -= equal_before(p + start, start - next);
        uint64_t differing = 0;
        while (stop + 8 <= n && !(differing = load64(p + stop) ^ load64(p + stop - 1)))
            stop += 8;
        if (differing)
            stop += lowest_bit(differing) / 8;
        else
            while (stop < n && p[stop] == p[stop - 1])
                stop++;
        s->runs[s->n_runs++] = (Run){(uint16_t)start, (uint16_t)(stop - start)};
        next = stop + 1;
        i = next;
    }
}

static void count_some(uint32_t (*counts)[256], const uint8_t *p, Py_ssize_t n)
{
    Py_ssize_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight = load64(p + i);
        for (int j = 0; j < 8; j++)
            counts[j][eight >> (8 * j) & 255]++;
    }
    for (; i < n; i++)
        counts[0][p[i]]++;
}

/* How often each byte occurs in a block whose runs are found: equal bytes counted one by one would wait for each other. */
static void count_bytes(State *s, const uint8_t *p, Py_ssize_t n)
{
    uint32_t counts[8][256] = {{0}};
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < s->n_runs; i++) {
        Run run = s->runs[i];
        count_some(counts, p + at, run.start - at);
        counts[0][p[run.start]] += run.length;
        at = run.start + run.length;
    }
    count_some(counts, p + at, n - at);
    memset(s->bytes, 0, sizeof s->bytes);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 256; j++)
            s->bytes[j] += counts[i][j];
}

/* The counts of all symbols of a block, whose bytes are counted; answers the extra bits of its runs. */
static int64_t count_block(State *s, const uint8_t *p)
{
    int64_t n_extra_bits = 0;
    memset(s->plan.codes.count, 0, sizeof s->plan.codes.count);
    memcpy(s->plan.codes.count, s->bytes, sizeof s->bytes);
    for (Py_ssize_t i = 0; i < s->n_runs; i++) {
        unsigned left = s->runs[i].length, part;
        s->plan.codes.count[p[s->runs[i].start]] -= left;
        for (; left; left -= part) {
            int n_extra;
            unsigned extra;
            part = part_of_run(left);
            s->plan.codes.count[symbol_of_run(part, &n_extra, &extra)]++;
            n_extra_bits += n_extra + 1; /* and one for the distance */
        }
    }
    s->plan.codes.count[END] = 1;
    return n_extra_bits;
}

/* -- blocks -- */

static const uint8_t head_order[HEAD_SYMBOLS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

/* The lengths of codes, repeated ones shortened; the distance of runs is the only one, of one bit. */
static void make_head(State *s, int n_lengths)
{
    Head *head = &s->plan.head;
    uint8_t lengths[MOST_HEAD];
    memcpy(lengths, s->plan.codes.length, (size_t)n_lengths);
    lengths[n_lengths++] = 1;
    head->n = 0;
    memset(s->plan.head_codes.count, 0, sizeof s->plan.head_codes.count);
    for (int i = 0; i < n_lengths;) {
        int same = 1, left;
        uint8_t length = lengths[i];
        while (i + same < n_lengths && lengths[i + same] == length)
            same++;
        i += same;
        left = same;
        if (length) {
            head->symbol[head->n] = length, head->extra[head->n++] = 0;
            left--;
        }
        while (left >= 3) {
            int most = length ? 6 : 138, part = left < most ? left : most;
            int symbol = length ? 16 : part > 10 ? 18 : 17;
            head->symbol[head->n] = (uint8_t)symbol, head->extra[head->n++] = (uint8_t)(part - (symbol == 18 ? 11 : 3));
            left -= part;
        }
        while (left-- > 0)
            head->symbol[head->n] = length, head->extra[head->n++] = 0;
    }
    for (int i = 0; i < head->n; i++)
        s->plan.head_codes.count[head->symbol[i]]++;
    make_codes(&s->plan.head_codes, HEAD_SYMBOLS, LONGEST_HEAD);
}

static int extra_of_head(int symbol) { return symbol == 16 ? 2 : symbol == 17 ? 3 : symbol == 18 ? 7 : 0; }

static inline void write_literals(Writer *w, const uint8_t *p, Py_ssize_t n, const uint32_t *table)
{
    Py_ssize_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int j = 0; j < 4; j++) {
            uint32_t one = table[p[i + j]];
            add_bits(w, one >> 8, (int)(one & 255));
        }
        flush_bits(w);
    }
    for (; i < n; i++)
        add_bits(w, table[p[i]] >> 8, (int)(table[p[i]] & 255));
    flush_bits(w);
}

static void write_codes(State *s, Writer *writer, const uint8_t *p, Py_ssize_t n, int is_last)
{
    Writer own = *writer, *w = &own; /* what is written could be the writer itself, for all the compiler knows */
    uint32_t table[256];
    Py_ssize_t at = 0;
    add_bits(w, (uint64_t)(is_last | 2 << 1), 3);
    add_bits(w, (uint64_t)(s->plan.n_lengths - 257), 5);
    add_bits(w, 0, 5);
    add_bits(w, (uint64_t)(s->plan.n_head - 4), 4);
    flush_bits(w);
    for (int i = 0; i < s->plan.n_head; i++) {
        add_bits(w, s->plan.head_codes.length[head_order[i]], 3);
        flush_bits(w);
    }
    for (int i = 0; i < s->plan.head.n; i++) {
        int symbol = s->plan.head.symbol[i];
        add_bits(w, s->plan.head_codes.code[symbol], s->plan.head_codes.length[symbol]);
        add_bits(w, s->plan.head.extra[i], extra_of_head(symbol));
        flush_bits(w);
    }
    for (int i = 0; i < 256; i++)
        table[i] = (uint32_t)s->plan.codes.code[i] << 8 | s->plan.codes.length[i];
    for (Py_ssize_t i = 0; i < s->n_runs; i++) {
        unsigned left = s->runs[i].length, part;
        write_literals(w, p + at, s->runs[i].start - at, table);
        at = s->runs[i].start + left;
        for (; left; left -= part) {
            int n_extra;
            unsigned extra;
            part = part_of_run(left);
            int symbol = symbol_of_run(part, &n_extra, &extra);
            add_bits(w, s->plan.codes.code[symbol], s->plan.codes.length[symbol]);
            add_bits(w, extra, n_extra + 1); /* and the distance, a bit that is 0 */
            flush_bits(w);
        }
    }
    write_literals(w, p + at, n - at, table);
    add_bits(w, s->plan.codes.code[END], s->plan.codes.length[END]);
    flush_bits(w);
    *writer = own;
}

static void store_block(Writer *w, const uint8_t *p, Py_ssize_t n, int is_last)
{
    add_bits(w, (uint64_t)is_last, 3);
    add_bits(w, 0, (8 - (w->n_bits & 7)) & 7);
    add_bits(w, (uint64_t)n | (uint64_t)(~n & 0xFFFF) << 16, 32);
    flush_bits(w);
    memcpy(w->out, p, (size_t)n);
    w->out += n;
}

/* The codes of a block with the runs that it has; answers the bits it takes. */
static int64_t plan_block(State *s, const uint8_t *p)
{
    Plan *plan = &s->plan;
    int64_t n_bits = 3 + 14 + count_block(s, p);
    make_codes(&plan->codes, SYMBOLS, LONGEST);
    plan->n_lengths = SYMBOLS, plan->n_head = HEAD_SYMBOLS;
    while (plan->n_lengths > 257 && !plan->codes.length[plan->n_lengths - 1])
        plan->n_lengths--;
    make_head(s, plan->n_lengths);
    while (plan->n_head > 4 && !plan->head_codes.length[head_order[plan->n_head - 1]])
        plan->n_head--;
    n_bits += 3 * plan->n_head;
    for (int i = 0; i < plan->head.n; i++)
        n_bits += plan->head_codes.length[plan->head.symbol[i]] + extra_of_head(plan->head.symbol[i]);
    for (int i = 0; i < plan->n_lengths; i++)
        n_bits += (int64_t)plan->codes.count[i] * plan->codes.length[i];
    return n_bits;
}

/* 0, or -1 where there is no room. */
static int write_block(State *s, Writer *w, const uint8_t *p, Py_ssize_t n, int is_last)
{
    find_runs(s, p, n);
    count_bytes(s, p, n);
    int64_t n_bits = plan_block(s, p);
    Py_ssize_t n_runs = s->n_runs;
    if (n_runs * SHORT > n) { /* runs that are short and many take more than literals of a bit or two */
        Plan with_runs = s->plan;
        s->n_runs = 0;
        int64_t without = plan_block(s, p);
        if (without > n_bits)
            s->plan = with_runs, s->n_runs = n_runs;
        else
            n_bits = without;
    }
    int64_t coded = n_bits / 8 + 1;
    int is_stored = coded >= n + 5;
    if (w->end - w->out < (is_stored ? n + 5 : coded) + 16) /* and what flush_bits writes after it */
        return -1;
    if (is_stored)
        store_block(w, p, n, is_last);
    else
        write_codes(s, w, p, n, is_last);
    return 0;
}

/* Adler-32: sums side by side, joined before they grow too large for 16 bits. */
WIDE static uint32_t adler_sum(const uint8_t *bytes, Py_ssize_t n)
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

/* Blocks of at most `part` bytes. Bytes of the stream, or 0 where it does not fit. */
static Py_ssize_t write_stream(State *s, const uint8_t *in, Py_ssize_t n, uint8_t *out, Py_ssize_t room, Py_ssize_t part)
{
    Writer w = {out + 2, out + room, 0, 0, 0};
    if (room < 32)
        return 0;
    out[0] = 0x78, out[1] = 0x01;
    Py_ssize_t at = 0;
    do {
        Py_ssize_t some = n - at < part ? n - at : part;
        if (write_block(s, &w, in + at, some, at + some == n) < 0)
            return 0;
        at += some;
    } while (at < n);
    add_bits(&w, 0, (8 - (w.n_bits & 7)) & 7);
    flush_bits(&w);
    if (w.is_full || w.end - w.out < 4)
        return 0;
    uint32_t sum = swap32(adler_sum(in, n));
    memcpy(w.out, &sum, 4);
    return w.out + 4 - out;
}

static Py_ssize_t part_for(Py_ssize_t n)
{
    Py_ssize_t part = n / PARTS;
    return part < SMALLEST ? SMALLEST : part > BLOCK ? BLOCK : part;
}

/* (source, out) of a call; even: in blocks as long as they may be. */
static PyObject *run(PyObject *arguments, int even)
{
    PyObject *source, *target;
    Span s[2] = {0};
    Py_ssize_t n_bytes = 0;
    if (!PyArg_ParseTuple(arguments, "OO", &source, &target))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_bytes_out(target, &s[1], "out") < 0 || apart(&s[0], &s[1]) < 0)
        return finish(s, 2, NULL);
    State *state = PyMem_Malloc(sizeof *state);
    if (state == NULL)
        return finish(s, 2, PyErr_NoMemory());
    Py_BEGIN_ALLOW_THREADS
    Py_ssize_t part = even ? BLOCK : part_for(s[0].n_bytes);
    n_bytes = write_stream(state, s[0].bytes, s[0].n_bytes, s[1].bytes, s[1].n_bytes, part);
    Py_END_ALLOW_THREADS
    PyMem_Free(state);
    return finish(s, 2, PyLong_FromSsize_t(n_bytes));
}

static PyObject *deflate(PyObject *Py_UNUSED(module), PyObject *arguments) { return run(arguments, 0); }
static PyObject *deflate_even(PyObject *Py_UNUSED(module), PyObject *arguments) { return run(arguments, 1); }

PyMethodDef deflate_functions[] = {
    {"deflate", deflate, METH_VARARGS, NULL},
    {"deflate_even", deflate_even, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
