/* HDF5's checksums. Fletcher-32, of data: sums over big-endian 16-bit words, an odd last byte as the high one.
 * Lookup3, of metadata: three words of 32 bits, mixed for each 12 bytes (Bob Jenkins, public domain). */
#include "native.h"

enum { LANES = 32, GROUPS = 256 };  /* lanes of 32 bits overflow after 360 groups */

static uint64_t fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    return sum;
}

/* The sums of GROUPS groups of words: of all, and of each times how many words come with or after it.
 * Words are read in this machine's order: swapping the bytes of all words swaps those of their sums modulo 65535. */
WIDE static void add_groups(const uint8_t *bytes, int groups, uint64_t *plain, uint64_t *weighted)
{
    uint32_t once[LANES] = {0}, often[LANES] = {0};
    for (int g = 0; g < groups; g++) {
        uint16_t words[LANES];
        memcpy(words, bytes + (size_t)g * sizeof words, sizeof words);
        for (int j = 0; j < LANES; j++) {
            once[j] += words[j];
            often[j] += once[j];
        }
    }
    for (unsigned j = 0; j < LANES; j++) {
        *plain += once[j];
        *weighted += (uint64_t)often[j] * LANES - (uint64_t)once[j] * j;
    }
}

static uint32_t fletcher(const uint8_t *bytes, Py_ssize_t n_bytes)
{
    uint64_t first = 0, second = 0;
    Py_ssize_t n = n_bytes / 2, i = 0;
    while (n - i >= LANES) {
        Py_ssize_t groups = (n - i) / LANES < GROUPS ? (n - i) / LANES : GROUPS;
        uint64_t plain = 0, weighted = 0;
        add_groups(bytes + 2 * i, (int)groups, &plain, &weighted);
        second = fold(second + first * (uint64_t)(groups * LANES) + weighted);
        first = fold(first + plain);
        i += groups * LANES;
    }
    for (; i < n; i++) {
        first += load16(bytes + 2 * i);
        second += first;
    }
    if (n_bytes % 2) {
        first += bytes[n_bytes - 1];
        second += first;
    }
    return (uint32_t)swap16((uint16_t)fold(second)) << 16 | swap16((uint16_t)fold(first));
}

static PyObject *fletcher32(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source;
    Span s = {0};
    uint32_t sum = 0;
    if (!PyArg_ParseTuple(arguments, "O", &source))
        return NULL;
    if (open_bytes(source, &s, "source") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sum = fletcher(s.bytes, s.n_bytes);
    Py_END_ALLOW_THREADS
    return finish(&s, 1, PyLong_FromUnsignedLong(sum));
}

static uint32_t turn(uint32_t word, int bits)
{
    return word << bits | word >> (32 - bits);
}

static uint32_t load_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* 12 bytes, the first of them the lowest of the first word. */
static void add_words(const uint8_t *bytes, uint32_t *w)
{
    for (int i = 0; i < 3; i++)
        w[i] += load_word(bytes + 4 * i);
}

static const int turns[6] = {4, 6, 8, 16, 19, 4};

/* The sum of bytes, of which `done` are in the words already. */
static uint32_t jenkins_from(uint32_t *w, const uint8_t *bytes, Py_ssize_t n_bytes, Py_ssize_t done)
{
    uint8_t rest[12] = {0};
    bytes += done, n_bytes -= done;
    for (; n_bytes > 12; bytes += 12, n_bytes -= 12) {
        add_words(bytes, w);
        for (int i = 0; i < 6; i++) {
            uint32_t *to = &w[i % 3], *by = &w[(i + 2) % 3];
            *to = (*to - *by) ^ turn(*by, turns[i]);
            *by += w[(i + 1) % 3];
        }
    }
    if (n_bytes == 0)
        return w[2];
    memcpy(rest, bytes, (size_t)n_bytes);
    add_words(rest, w);
    static const int last[7] = {14, 11, 25, 16, 4, 14, 24};
    for (int i = 0; i < 7; i++) {
        uint32_t *to = &w[(i + 2) % 3], by = w[(i + 1) % 3];
        *to = (*to ^ by) - turn(by, last[i]);
    }
    return w[2];
}

static uint32_t jenkins(const uint8_t *bytes, Py_ssize_t n_bytes)
{
    uint32_t start = 0xDEADBEEFu + (uint32_t)n_bytes;
    uint32_t w[3] = {start, start, start};
    return jenkins_from(w, bytes, n_bytes, 0);
}

enum { SUMS = 8 };  /* that many are summed side by side: each step of one waits for the step before */

#if defined(__GNUC__)
typedef uint32_t Lanes __attribute__((vector_size(4 * SUMS)));

/* The first bytes of some, a multiple of 12. */
WIDE static void mix_side_by_side(const uint8_t *const *bytes, Py_ssize_t n_bytes, uint32_t words[3][SUMS])
{
    Lanes w[3];
    memcpy(w, words, sizeof w);
    for (Py_ssize_t at = 0; at < n_bytes; at += 12) {
        for (int i = 0; i < 3; i++) {
            Lanes more;
            for (int j = 0; j < SUMS; j++)
                more[j] = load32(bytes[j] + at + 4 * i);
            w[i] += more;
        }
        for (int i = 0; i < 6; i++) {
            Lanes *to = &w[i % 3], *by = &w[(i + 2) % 3];
            *to = (*to - *by) ^ (*by << turns[i] | *by >> (32 - turns[i]));
            *by += w[(i + 1) % 3];
        }
    }
    memcpy(words, w, sizeof w);
}
#endif

/* The sums of as many pieces of bytes as are side by side. */
static void sum_group(const uint8_t *const *bytes, const Py_ssize_t *lengths, uint32_t *sums)
{
    uint32_t w[3][SUMS];
    Py_ssize_t least = lengths[0];
    for (int j = 0; j < SUMS; j++) {
        w[0][j] = w[1][j] = w[2][j] = 0xDEADBEEFu + (uint32_t)lengths[j];
        least = lengths[j] < least ? lengths[j] : least;
    }
    Py_ssize_t together = 0;
#if defined(__GNUC__)
    together = least > 12 ? (least - 1) / 12 * 12 : 0;  /* the last bytes of each are mixed otherwise */
    mix_side_by_side(bytes, together, w);
#endif
    for (int j = 0; j < SUMS; j++) {
        uint32_t own[3] = {w[0][j], w[1][j], w[2][j]};
        sums[j] = jenkins_from(own, bytes[j], lengths[j], together);
    }
}

/* -1, or the piece that does not lie in the source. */
static Py_ssize_t sum_pieces(const Span *source, const int64_t *starts, const int64_t *stops, Py_ssize_t n, uint32_t *sums)
{
    const uint8_t *bytes[SUMS];
    Py_ssize_t lengths[SUMS];
    for (Py_ssize_t i = 0; i < n; i += SUMS) {
        Py_ssize_t here = n - i < SUMS ? n - i : SUMS;
        for (Py_ssize_t j = 0; j < here; j++) {
            int64_t start = starts[i + j], stop = stops[i + j];
            if (start < 0 || stop < start || stop > source->n_bytes)
                return i + j;
            bytes[j] = source->bytes + start;
            lengths[j] = (Py_ssize_t)(stop - start);
        }
        if (here == SUMS)
            sum_group(bytes, lengths, sums + i);
        else
            for (Py_ssize_t j = 0; j < here; j++)
                sums[i + j] = jenkins(bytes[j], lengths[j]);
    }
    return -1;
}

static PyObject *lookup3_each(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *starts, *stops, *sums;
    Py_ssize_t wrong;
    Span s[4] = {0};
    if (!PyArg_ParseTuple(arguments, "OOOO", &source, &starts, &stops, &sums))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_kind(starts, &s[1], "starts", I64) < 0
        || open_kind(stops, &s[2], "stops", I64) < 0 || open_kind_out(sums, &s[3], "sums", U32) < 0
        || same_count(&s[1], &s[2]) < 0 || same_count(&s[1], &s[3]) < 0)
        return finish(s, 4, NULL);
    Py_BEGIN_ALLOW_THREADS
    wrong = sum_pieces(&s[0], (const int64_t *)s[1].bytes, (const int64_t *)s[2].bytes, s[1].count,
                       (uint32_t *)s[3].bytes);
    Py_END_ALLOW_THREADS
    if (wrong >= 0)
        return finish(s, 4, refuse("piece %zd does not lie in source", wrong));
    Py_INCREF(Py_None);
    return finish(s, 4, Py_None);
}

static PyObject *lookup3(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source;
    Span s = {0};
    uint32_t sum = 0;
    if (!PyArg_ParseTuple(arguments, "O", &source))
        return NULL;
    if (open_bytes(source, &s, "source") < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sum = jenkins(s.bytes, s.n_bytes);
    Py_END_ALLOW_THREADS
    return finish(&s, 1, PyLong_FromUnsignedLong(sum));
}

PyMethodDef checksum_functions[] = {
    {"fletcher32", fletcher32, METH_VARARGS, NULL},
    {"lookup3", lookup3, METH_VARARGS, NULL},
    {"lookup3_each", lookup3_each, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
