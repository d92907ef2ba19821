/* Buffers of Python objects, opened and checked. */
#include "native.h"

PyObject *refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyErr_FormatV(PyExc_ValueError, format, arguments);
    va_end(arguments);
    return NULL;
}

static Kind kind_of(const char *format, Py_ssize_t size, int *swapped)
{
    char letter = 'B';
    *swapped = 0;
    if (format != NULL) {
        if (*format == '>' || *format == '!') {
            *swapped = size > 1;
            format++;
        }
        else if (*format == '<' || *format == '=' || *format == '@') {
            format++;
        }
        if (format[0] == '\0' || format[1] != '\0')
            return OTHER;
        letter = *format;
    }
    int step = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
    if (step < 0)
        return OTHER;
    if (strchr("bhilqn", letter))
        return (Kind)(I8 + step);
    if (strchr("BHILQN?", letter))
        return (Kind)(U8 + step);
    if (letter == 'f' && size == 4)
        return F32;
    return letter == 'd' && size == 8 ? F64 : OTHER;
}

static int open_span(PyObject *object, Span *span, const char *name, int flags)
{
    span->name = name;
    if (PyObject_GetBuffer(object, &span->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) {
        span->view.obj = NULL;
        if (!PyErr_ExceptionMatches(PyExc_MemoryError)) {
            PyErr_Clear();
            refuse("%s must be a contiguous buffer%s", name, flags & PyBUF_WRITABLE ? " that can be written" : "");
        }
        return -1;
    }
    if (span->view.format != NULL && strchr(span->view.format, 'O')) {
        refuse("%s must not hold Python objects", name);
        return -1;
    }
    span->bytes = span->view.buf;
    span->n_bytes = span->view.len;
    span->size = span->view.itemsize > 0 ? span->view.itemsize : 1;
    span->count = span->n_bytes / span->size;
    span->kind = kind_of(span->view.format, span->size, &span->swapped);
    return 0;
}

int open_bytes(PyObject *object, Span *span, const char *name) { return open_span(object, span, name, 0); }

int open_bytes_out(PyObject *object, Span *span, const char *name)
{
    return open_span(object, span, name, PyBUF_WRITABLE);
}

static int open_numbers(PyObject *object, Span *span, const char *name, int flags, int any_order)
{
    if (open_span(object, span, name, flags) < 0)
        return -1;
    if (span->kind == OTHER) {
        refuse("%s must hold integers or floats of 1, 2, 4 or 8 bytes", name);
        return -1;
    }
    if (span->swapped && !any_order) {
        refuse("%s must be in the byte order of this machine", name);
        return -1;
    }
    if (span->count > 0 && (uintptr_t)span->bytes % (uintptr_t)span->size) {
        refuse("%s must be aligned", name);
        return -1;
    }
    return 0;
}

int open_values(PyObject *object, Span *span, const char *name) { return open_numbers(object, span, name, 0, 0); }

int open_values_out(PyObject *object, Span *span, const char *name)
{
    return open_numbers(object, span, name, PyBUF_WRITABLE, 0);
}

int open_any_order_out(PyObject *object, Span *span, const char *name)
{
    return open_numbers(object, span, name, PyBUF_WRITABLE, 1);
}

static int checked_kind(Span *span, Kind kind)
{
    static const char *words[] = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                                  "float32", "float64"};
    if (span->kind == kind)
        return 0;
    refuse("%s must hold %s", span->name, words[kind]);
    return -1;
}

int open_kind(PyObject *object, Span *span, const char *name, Kind kind)
{
    return open_values(object, span, name) < 0 ? -1 : checked_kind(span, kind);
}

int open_kind_out(PyObject *object, Span *span, const char *name, Kind kind)
{
    return open_values_out(object, span, name) < 0 ? -1 : checked_kind(span, kind);
}

static int checked_mask(Span *span)
{
    if (span->size == 1)
        return 0;
    refuse("%s must hold one byte an item", span->name);
    return -1;
}

int open_mask(PyObject *object, Span *span, const char *name)
{
    return open_bytes(object, span, name) < 0 ? -1 : checked_mask(span);
}

int open_mask_out(PyObject *object, Span *span, const char *name)
{
    return open_bytes_out(object, span, name) < 0 ? -1 : checked_mask(span);
}

int open_optional_mask(PyObject *object, Span *span, const char *name, Py_ssize_t count)
{
    if (object == Py_None) {
        span->bytes = NULL;
        return 0;
    }
    if (open_mask(object, span, name) < 0)
        return -1;
    if (span->count != count) {
        refuse("%s has %zd items, expected %zd", name, span->count, count);
        return -1;
    }
    return 0;
}

void close_spans(Span *spans, int n)
{
    for (int i = 0; i < n; i++)
        PyBuffer_Release(&spans[i].view);
}

int same_count(const Span *a, const Span *b)
{
    if (a->count == b->count)
        return 0;
    refuse("%s has %zd items, expected %zd", b->name, b->count, a->count);
    return -1;
}

int apart(const Span *source, const Span *out)
{
    uintptr_t a = (uintptr_t)source->bytes, b = (uintptr_t)out->bytes;
    if (source->n_bytes == 0 || out->n_bytes == 0 || a + (uintptr_t)source->n_bytes <= b
        || b + (uintptr_t)out->n_bytes <= a)
        return 0;
    refuse("%s must not lie over %s", out->name, source->name);
    return -1;
}

PyObject *finish(Span *spans, int n, PyObject *result)
{
    close_spans(spans, n);
    return result;
}

PyObject *unpack_into(PyObject *arguments, Unpacker unpack, const char *format)
{
    PyObject *source, *target;
    Span s[2] = {0};
    int wrong;
    if (!PyArg_ParseTuple(arguments, "OO", &source, &target))
        return NULL;
    if (open_bytes(source, &s[0], "source") < 0 || open_bytes_out(target, &s[1], "out") < 0
        || apart(&s[0], &s[1]) < 0)
        return finish(s, 2, NULL);
    Py_BEGIN_ALLOW_THREADS
    wrong = unpack(s[0].bytes, s[0].n_bytes, s[1].bytes, s[1].n_bytes);
    Py_END_ALLOW_THREADS
    if (wrong)
        refuse("source is not %s data of %zd bytes", format, s[1].n_bytes);
    return finish(s, 2, wrong ? NULL : Py_NewRef(Py_None));
}
