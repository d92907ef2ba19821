/* MurmurHash3_x64_128 of many byte strings, and the Bloom filters of HEP001 8.7 that are made of it.
 *
 * A key has h_a, the low half of its hash with seed 0, and h_b, the high half of its hash with seed 0x9E3779B9. Its k bits
 * are (h_a + i * h_b) mod 2**64 mod m for i below k, bit b being bit b % 8 of byte b // 8.
 */
#include "native.h"

static const uint64_t C1 = 0x87C37B91114253D5ull, C2 = 0x4CF5AD432745937Full, SECOND_SEED = 0x9E3779B9u;

enum { MOST_HASHES = 1024 };  /* more would only keep a reader busy */

typedef struct {
    uint64_t low, high;
} Hash;

static inline uint64_t rotate(uint64_t v, int by) { return v << by | v >> (64 - by); }
static inline uint64_t mix1(uint64_t k) { return rotate(k * C1, 31) * C2; }
static inline uint64_t mix2(uint64_t k) { return rotate(k * C2, 33) * C1; }

static inline uint64_t scramble(uint64_t v)
{
    v = (v ^ v >> 33) * 0xFF51AFD7ED558CCDull;
    v = (v ^ v >> 33) * 0xC4CEB9FE1A85EC53ull;
    return v ^ v >> 33;
}

/* Up to 8 bytes as a number, the first lowest. */
static inline uint64_t few_bytes(const uint8_t *p, uint64_t n)
{
    uint64_t v = 0;
    if (n == 8)
        return load64(p);
    if (n == 4)
        return load32(p);
    for (uint64_t i = n; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

static inline Hash murmur(const uint8_t *p, uint64_t n, uint64_t seed)
{
    uint64_t low = seed, high = seed, left = n;
    for (; left >= 16; left -= 16, p += 16) {
        low = (rotate(low ^ mix1(load64(p)), 27) + high) * 5 + 0x52DCE729;
        high = (rotate(high ^ mix2(load64(p + 8)), 31) + low) * 5 + 0x38495AB5;
    }
    if (left > 8)
        high ^= mix2(few_bytes(p + 8, left - 8));
    if (left)
        low ^= mix1(few_bytes(p, left < 8 ? left : 8));
    low ^= n;
    high ^= n;
    low += high;
    high += low;
    low = scramble(low);
    high = scramble(high);
    low += high;
    return (Hash){low, high + low};
}

/* h_a and h_b of a key. */
static inline Hash both(const uint8_t *p, uint64_t n)
{
    return (Hash){murmur(p, n, 0).low, murmur(p, n, SECOND_SEED).high};
}

/* -- keys: items of one size, or strings between offsets -- */

typedef struct {
    Span data, offsets, present;  /* offsets.bytes NULL: items */
    Py_ssize_t size, count;
} Keys;

/* Key i: its bytes and length. 0, or -1 where its offsets are wrong. */
static inline int key_at(const Keys *k, Py_ssize_t i, const uint8_t **p, uint64_t *n)
{
    if (!k->offsets.bytes) {
        *p = k->data.bytes + i * k->size;
        *n = (uint64_t)k->size;
        return 0;
    }
    int64_t start, stop;
    if (k->offsets.kind == I64) {
        start = ((const int64_t *)k->offsets.bytes)[i];
        stop = ((const int64_t *)k->offsets.bytes)[i + 1];
    }
    else {
        start = ((const int32_t *)k->offsets.bytes)[i];
        stop = ((const int32_t *)k->offsets.bytes)[i + 1];
    }
    if (start < 0 || stop < start || stop > k->data.n_bytes)
        return -1;
    *p = k->data.bytes + start;
    *n = (uint64_t)(stop - start);
    return 0;
}

static int open_items(Keys *k, PyObject *source, Py_ssize_t size)
{
    if (open_bytes(source, &k->data, "source") < 0)
        return -1;
    if (size < 1 || k->data.n_bytes % size) {
        refuse("source has %zd bytes, not a multiple of %zd", k->data.n_bytes, size);
        return -1;
    }
    k->size = size;
    k->count = k->data.n_bytes / size;
    return 0;
}

static int open_strings(Keys *k, PyObject *offsets, PyObject *data)
{
    if (open_values(offsets, &k->offsets, "offsets") < 0 || open_bytes(data, &k->data, "data") < 0)
        return -1;
    if ((k->offsets.kind != I32 && k->offsets.kind != I64) || k->offsets.count < 1) {
        refuse("offsets must hold int32 or int64, one more than rows");
        return -1;
    }
    k->count = k->offsets.count - 1;
    return 0;
}

static PyObject *close_keys(Keys *k, PyObject *result)
{
    close_spans(&k->data, 1);
    close_spans(&k->offsets, 1);
    close_spans(&k->present, 1);
    return result;
}

static PyObject *wrong_offsets(Py_ssize_t row)
{
    return row < 0 ? Py_NewRef(Py_None) : refuse("offsets of row %zd do not lie in the data", row);
}

/* -- hashes -- */

static Py_ssize_t hash_all(const Keys *k, uint64_t seed, uint64_t *low, uint64_t *high)
{
    const uint8_t *p;
    uint64_t n;
    for (Py_ssize_t i = 0; i < k->count; i++) {
        if (key_at(k, i, &p, &n) < 0)
            return i;
        Hash hash = murmur(p, n, seed);
        low[i] = hash.low;
        high[i] = hash.high;
    }
    return -1;
}

static PyObject *hash_keys(Keys *k, unsigned long long seed, PyObject *low, PyObject *high)
{
    Span s[2] = {0};
    Py_ssize_t wrong;
    if (open_kind_out(low, &s[0], "low", U64) < 0 || open_kind_out(high, &s[1], "high", U64) < 0)
        return close_keys(k, finish(s, 2, NULL));
    if (s[0].count != k->count || s[1].count != k->count)
        return close_keys(k, finish(s, 2, refuse("low and high must have %zd items", k->count)));
    Py_BEGIN_ALLOW_THREADS
    wrong = hash_all(k, seed, (uint64_t *)s[0].bytes, (uint64_t *)s[1].bytes);
    Py_END_ALLOW_THREADS
    return close_keys(k, finish(s, 2, wrong_offsets(wrong)));
}

static int read_seed(PyObject *object, unsigned long long *seed)
{
    *seed = PyLong_AsUnsignedLongLong(object);
    if (*seed != (unsigned long long)-1 || !PyErr_Occurred())
        return 0;
    PyErr_Clear();
    refuse("seed must be an integer from 0 to 2**64 - 1");
    return -1;
}

static PyObject *hash_items(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *seed_given, *low, *high;
    Py_ssize_t size;
    unsigned long long seed;
    Keys keys = {0};
    if (!PyArg_ParseTuple(arguments, "OnOOO", &source, &size, &seed_given, &low, &high))
        return NULL;
    if (read_seed(seed_given, &seed) < 0 || open_items(&keys, source, size) < 0)
        return close_keys(&keys, NULL);
    return hash_keys(&keys, seed, low, high);
}

static PyObject *hash_strings(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *offsets, *data, *seed_given, *low, *high;
    unsigned long long seed;
    Keys keys = {0};
    if (!PyArg_ParseTuple(arguments, "OOOOO", &offsets, &data, &seed_given, &low, &high))
        return NULL;
    if (read_seed(seed_given, &seed) < 0 || open_strings(&keys, offsets, data) < 0)
        return close_keys(&keys, NULL);
    return hash_keys(&keys, seed, low, high);
}

/* -- Bloom filters -- */

typedef struct {
    uint8_t *bytes;
    uint64_t m_bits, inverse;  /* inverse: 2**64 / m_bits, rounded down */
    unsigned k;
} Bloom;

static inline uint64_t place_of(const Bloom *b, uint64_t hash)
{
#if defined(__SIZEOF_INT128__)
    uint64_t rest = hash - (uint64_t)((unsigned __int128)hash * b->inverse >> 64) * b->m_bits;
    return rest >= b->m_bits ? rest - b->m_bits : rest;
#else
    return hash % b->m_bits;
#endif
}

static inline void set_bits(const Bloom *b, Hash hash)
{
    for (unsigned i = 0; i < b->k; i++, hash.low += hash.high) {
        uint64_t place = place_of(b, hash.low);
        b->bytes[place / 8] |= (uint8_t)(1u << (place % 8));
    }
}

/* Put all present keys in: the first key whose offsets are wrong, or -1. */
static Py_ssize_t add_all(const Keys *k, const Bloom *b)
{
    const uint8_t *p;
    uint64_t n;
    for (Py_ssize_t i = 0; i < k->count; i++) {
        if (key_at(k, i, &p, &n) < 0)
            return i;
        if (!k->present.bytes || k->present.bytes[i])
            set_bits(b, both(p, n));
    }
    return -1;
}

static int open_filter(PyObject *object, Span *span, Bloom *bloom, int k)
{
    if (open_bytes_out(object, span, "filter") < 0)
        return -1;
    if (span->n_bytes < 1 || span->n_bytes > PY_SSIZE_T_MAX / 8 || k < 1 || k > MOST_HASHES) {
        refuse("a filter has at least a byte, and 1 to 1024 hashes: not %zd and %d", span->n_bytes, k);
        return -1;
    }
    uint64_t m_bits = 8 * (uint64_t)span->n_bytes;
    *bloom = (Bloom){span->bytes, m_bits, UINT64_MAX / m_bits, (unsigned)k};
    return 0;
}

static PyObject *add_keys(Keys *k, PyObject *present, int hashes, PyObject *filter)
{
    Span s = {0};
    Bloom bloom;
    Py_ssize_t wrong;
    if (open_optional_mask(present, &k->present, "present", k->count) < 0 || open_filter(filter, &s, &bloom, hashes) < 0)
        return close_keys(k, finish(&s, 1, NULL));
    Py_BEGIN_ALLOW_THREADS
    wrong = add_all(k, &bloom);
    Py_END_ALLOW_THREADS
    return close_keys(k, finish(&s, 1, wrong_offsets(wrong)));
}

static PyObject *bloom_add_items(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *present, *filter;
    Py_ssize_t size;
    int hashes;
    Keys keys = {0};
    if (!PyArg_ParseTuple(arguments, "OnOiO", &source, &size, &present, &hashes, &filter))
        return NULL;
    if (open_items(&keys, source, size) < 0)
        return close_keys(&keys, NULL);
    return add_keys(&keys, present, hashes, filter);
}

static PyObject *bloom_add_strings(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *offsets, *data, *present, *filter;
    int hashes;
    Keys keys = {0};
    if (!PyArg_ParseTuple(arguments, "OOOiO", &offsets, &data, &present, &hashes, &filter))
        return NULL;
    if (open_strings(&keys, offsets, data) < 0)
        return close_keys(&keys, NULL);
    return add_keys(&keys, present, hashes, filter);
}

PyMethodDef hash_functions[] = {
    {"hash_items", hash_items, METH_VARARGS, NULL},
    {"hash_strings", hash_strings, METH_VARARGS, NULL},
    {"bloom_add_items", bloom_add_items, METH_VARARGS, NULL},
    {"bloom_add_strings", bloom_add_strings, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
