/* Fixed-length strings to Arrow's offsets and data; text checked.
 *
 * Padding: 0 ends at the first NUL (HDF5's null-terminated), 1 loses NULs at the end, 2 loses spaces at the end.
 * Check: 0 nothing, 1 ASCII, 2 UTF-8 (no surrogates, nothing overlong, up to U+10FFFF).
 */
#include "native.h"

enum { TERMINATED, NULLS, SPACES };
enum { ANYTHING, ASCII, UTF8 };

/* Whether all bytes are below 128; the last 8 (or 4) are looked at together, some of them twice. */
static int is_ascii(const uint8_t *p, Py_ssize_t n)
{
    uint64_t all = 0;
    if (n >= 8) {
        for (Py_ssize_t i = 0; i + 8 <= n; i += 8)
            all |= load64(p + i);
        all |= load64(p + n - 8);
    }
    else if (n >= 4)
        all = load32(p) | load32(p + n - 4);
    else
        for (Py_ssize_t i = 0; i < n; i++)
            all |= p[i];
    return !(all & 0x8080808080808080ull);
}

/* Bytes of the sequence at p, 0 when it is none. */
static int sequence(const uint8_t *p, Py_ssize_t n)
{
    unsigned lead = p[0];
    int length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || length > n)
        return 0;
    for (int i = 1; i < length; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((lead == 0xE0 && p[1] < 0xA0) || (lead == 0xED && p[1] > 0x9F) || (lead == 0xF0 && p[1] < 0x90)
        || (lead == 0xF4 && p[1] > 0x8F))
        return 0;
    return length;
}

static int is_utf8(const uint8_t *p, Py_ssize_t n)
{
    if (is_ascii(p, n))
        return 1;
    for (Py_ssize_t i = 0; i < n;) {
        int step = sequence(p + i, n - i);
        if (!step)
            return 0;
        i += step;
    }
    return 1;
}

static int is_right(const uint8_t *p, Py_ssize_t n, int check)
{
    return check == ANYTHING || (check == ASCII ? is_ascii(p, n) : is_utf8(p, n));
}

/* Where the first NUL is, or n. */
static Py_ssize_t before_nul(const uint8_t *p, Py_ssize_t n)
{
    Py_ssize_t i = 0;
    while (i < n) {
        if (n >= 8 && i > n - 8)
            i = n - 8;  /* bytes before i are not 0 */
        if (n - i < 8)
            break;
        uint64_t word = load64(p + i), zero = (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
        if (zero)
            return i + lowest_bit(zero) / 8;
        i += 8;
    }
    while (i < n && p[i])
        i++;
    return i;
}

/* How many bytes are left without padding at the end. */
static Py_ssize_t before_padding(const uint8_t *p, Py_ssize_t n, uint8_t pad)
{
    uint64_t eight = pad * 0x0101010101010101ull;
    for (; n >= 8; n -= 8) {
        uint64_t other = swap64(load64(p + n - 8) ^ eight);
        if (other)
            return n - lowest_bit(other) / 8;
    }
    while (n > 0 && p[n - 1] == pad)
        n--;
    return n;
}

static Py_ssize_t trimmed(const uint8_t *p, Py_ssize_t width, int padding)
{
    return padding == TERMINATED ? before_nul(p, width) : before_padding(p, width, padding == SPACES ? ' ' : 0);
}

/* Strings are short: eight bytes at a time, past the end of the string where both sides have room. */
static void copy_short(uint8_t *to, const uint8_t *from, Py_ssize_t n, int has_room)
{
    if (!has_room || n > 32) {
        memcpy(to, from, (size_t)n);
        return;
    }
    for (Py_ssize_t i = 0; i < n; i += 8)
        store64(to + i, load64(from + i));
}

typedef struct {
    const uint8_t *missing;
    int wide;  /* offsets of 64 bits */
    uint8_t *offsets;
    Py_ssize_t at;  /* bytes of data so far */
} Offsets;

static int put_offset(Offsets *o, Py_ssize_t row)
{
    if (o->wide)
        ((int64_t *)o->offsets)[row] = o->at;
    else if (o->at > INT32_MAX)
        return -1;
    else
        ((int32_t *)o->offsets)[row] = (int32_t)o->at;
    return 0;
}

static int64_t get_offset(const Span *offsets, Py_ssize_t row)
{
    return offsets->kind == I64 ? ((const int64_t *)offsets->bytes)[row] : ((const int32_t *)offsets->bytes)[row];
}

/* 0, or -1 where the offsets are too narrow; bad_row is the first that fails the check. */
static int unpad(const uint8_t *in, Py_ssize_t n, Py_ssize_t width, int padding, int check, Offsets *o, uint8_t *data,
                 Py_ssize_t *bad_row)
{
    Py_ssize_t end = n * width;
    if (put_offset(o, 0) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!(o->missing && o->missing[i])) {
            const uint8_t *p = in + i * width;
            Py_ssize_t length = trimmed(p, width, padding);
            if (*bad_row < 0 && UNLIKELY(!is_right(p, length, check)))
                *bad_row = i;
            copy_short(data + o->at, p, length, end - i * width >= 32);
            o->at += length;
        }
        if (put_offset(o, i + 1) < 0)
            return -1;
    }
    return 0;
}

static int known(int value, int most, const char *name)
{
    if (value >= 0 && value <= most)
        return 0;
    refuse("%s is %d, expected 0 to %d", name, value, most);
    return -1;
}

static int open_offsets(PyObject *object, Span *span, int write)
{
    if ((write ? open_values_out : open_values)(object, span, "offsets") < 0)
        return -1;
    if (span->kind != I32 && span->kind != I64) {
        refuse("offsets must hold int32 or int64");
        return -1;
    }
    if (span->count < 1) {
        refuse("offsets is empty, expected one more than rows");
        return -1;
    }
    return 0;
}

static PyObject *fixed_to_arrow(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *source, *missing, *offsets, *data;
    Py_ssize_t width, bad_row = -1;
    int padding, check, status;
    Span s[4] = {0};
    if (!PyArg_ParseTuple(arguments, "OniiOOO", &source, &width, &padding, &check, &missing, &offsets, &data))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_offsets(offsets, &s[1], 1) < 0
        || open_bytes_out(data, &s[2], "data") < 0 || known(padding, SPACES, "padding") < 0
        || known(check, UTF8, "check") < 0
        || open_optional_mask(missing, &s[3], "missing", s[1].count - 1) < 0)
        return finish(s, 4, NULL);
    Py_ssize_t n = s[1].count - 1;
    if (width < 1 || product(n, width) != s[0].n_bytes)
        return finish(s, 4, refuse("source has %zd bytes, expected %zd strings of %zd", s[0].n_bytes, n, width));
    if (s[2].n_bytes < s[0].n_bytes)
        return finish(s, 4, refuse("data has %zd bytes, expected at least %zd", s[2].n_bytes, s[0].n_bytes));
    Offsets o = {s[3].bytes, s[1].kind == I64, s[1].bytes, 0};
    Py_BEGIN_ALLOW_THREADS
    status = unpad(s[0].bytes, n, width, padding, check, &o, s[2].bytes, &bad_row);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return finish(s, 4, refuse("the strings have more bytes than offsets of 32 bits can count"));
    return finish(s, 4, Py_BuildValue("nn", o.at, bad_row));
}

/* The first row that fails the check, or -1; -2 - row where offsets are wrong. */
static Py_ssize_t check_rows(const Span *offsets, const Span *data, const uint8_t *missing, int check)
{
    Py_ssize_t bad = -1;
    int64_t start = get_offset(offsets, 0);
    for (Py_ssize_t i = 0; i + 1 < offsets->count; i++) {
        int64_t stop = get_offset(offsets, i + 1);
        if (start < 0 || stop < start || stop > data->n_bytes)
            return -2 - i;
        if (bad < 0 && !(missing && missing[i]) && !is_right(data->bytes + start, stop - start, check))
            bad = i;
        start = stop;
    }
    return bad;
}

static PyObject *check_text(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *offsets, *data, *missing;
    int check;
    Span s[3] = {0};
    Py_ssize_t bad;
    if (!PyArg_ParseTuple(arguments, "OOiO", &offsets, &data, &check, &missing))
        return NULL;
    if (open_offsets(offsets, &s[0], 0) < 0 || open_bytes(data, &s[1], "data") < 0 || known(check, UTF8, "check") < 0
        || open_optional_mask(missing, &s[2], "missing", s[0].count - 1) < 0)
        return finish(s, 3, NULL);
    Py_BEGIN_ALLOW_THREADS
    bad = check_rows(&s[0], &s[1], s[2].bytes, check);
    Py_END_ALLOW_THREADS
    if (bad < -1)
        return finish(s, 3, refuse("offsets of row %zd do not lie in the data", -2 - bad));
    return finish(s, 3, PyLong_FromSsize_t(bad));
}

/* The shortest and longest string in lengths[0..1]; 0, or -1 - row where offsets are wrong. */
static Py_ssize_t length_bounds(const int32_t *offsets, Py_ssize_t n, Py_ssize_t n_data, int64_t *lengths)
{
    int64_t least = n ? INT32_MAX : 0, most = 0;
    if (n && offsets[0] < 0)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t length = (int64_t)offsets[i + 1] - offsets[i];
        if (UNLIKELY(length < 0 || offsets[i + 1] > n_data))
            return -1 - i;
        least = length < least ? length : least;
        most = length > most ? length : most;
    }
    lengths[0] = least;
    lengths[1] = most;
    return 0;
}

/* None is longer than the width. Where both sides have room, the rest of a string is overwritten by the next one. */
static void pad_rows(const int32_t *offsets, Py_ssize_t n, const uint8_t *data, Py_ssize_t n_data, uint8_t *out,
                     Py_ssize_t width)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t from = offsets[i], length = offsets[i + 1] - from;
        uint8_t *to = out + i * width;
        copy_short(to, data + from, length, from + 32 <= n_data && (n - i) * width >= 32);
        memset(to + length, 0, (size_t)(width - length));
    }
}

static PyObject *arrow_to_fixed(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *offsets, *data, *out;
    Py_ssize_t width, wrong;
    int64_t lengths[2] = {0, 0};
    int has_nul = 0;
    Span s[3] = {0};
    if (!PyArg_ParseTuple(arguments, "OOnO", &offsets, &data, &width, &out))
        return NULL;
    if (open_kind(offsets, &s[0], "offsets", I32) < 0 || open_bytes(data, &s[1], "data") < 0
        || open_bytes_out(out, &s[2], "out") < 0 || apart(&s[1], &s[2]) < 0)
        return finish(s, 3, NULL);
    if (s[0].count < 1)
        return finish(s, 3, refuse("offsets is empty, expected one more than rows"));
    Py_ssize_t n = s[0].count - 1;
    if (width < 1 || product(n, width) != s[2].n_bytes)
        return finish(s, 3, refuse("out has %zd bytes, expected %zd strings of %zd", s[2].n_bytes, n, width));
    const int32_t *ends = (const int32_t *)s[0].bytes;
    Py_BEGIN_ALLOW_THREADS
    wrong = length_bounds(ends, n, s[1].n_bytes, lengths);
    if (!wrong && n) {
        has_nul = memchr(s[1].bytes + ends[0], 0, (size_t)(ends[n] - ends[0])) != NULL;
        if (lengths[1] <= width)
            pad_rows(ends, n, s[1].bytes, s[1].n_bytes, s[2].bytes, width);
    }
    Py_END_ALLOW_THREADS
    if (wrong)
        return finish(s, 3, refuse("offsets of row %zd do not lie in the data", -1 - wrong));
    return finish(s, 3, Py_BuildValue("LLN", (long long)lengths[0], (long long)lengths[1], PyBool_FromLong(has_nul)));
}

PyMethodDef string_functions[] = {
    {"fixed_to_arrow", fixed_to_arrow, METH_VARARGS, NULL},
    {"arrow_to_fixed", arrow_to_fixed, METH_VARARGS, NULL},
    {"check_text", check_text, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
