/* Packed numbers eight at a time, where the processor has vectors of 256 bits.
 *
 * Eight numbers of b bits take b bytes, so that each eight begin with a whole byte and look alike: the bytes of each number
 * are brought into a lane of its own by one order of bytes, moved down by one shift a lane, and cut.
 */
#include "native.h"

#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define VECTOR __attribute__((target("avx2")))

enum { NARROW = 25, WIDEST = 57 };  /* bits that lie in 4, and in 8, bytes wherever they begin in the first */

typedef struct {
    __m256i minimum, mark, fill;
    int has_fill;
} Meaning;

/* -- up to 25 bits: lanes of 32 bits, four from each of two loads -- */

typedef struct {
    __m256i order, shift, cut;
    unsigned second;  /* byte from which the second load is */
} Plan;

VECTOR static Plan plan_narrow(unsigned bits)
{
    uint8_t order[32];
    uint32_t shift[8];
    Plan plan = {.second = 4 * bits / 8};
    for (unsigned j = 0; j < 8; j++) {
        unsigned bit = j * bits, byte = bit / 8 - (j < 4 ? 0 : plan.second);
        for (unsigned k = 0; k < 4; k++)
            order[4 * j + k] = (uint8_t)(byte + 3 - k);
        shift[j] = 32 - bit % 8 - bits;
    }
    plan.order = _mm256_loadu_si256((const __m256i *)order);
    plan.shift = _mm256_loadu_si256((const __m256i *)shift);
    plan.cut = _mm256_set1_epi32((int)((1u << bits) - 1));
    return plan;
}

VECTOR static inline __m256i load_two(const uint8_t *first, const uint8_t *second)
{
    __m128i low = _mm_loadu_si128((const __m128i *)first), high = _mm_loadu_si128((const __m128i *)second);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

VECTOR static inline __m256i eight(const Plan *plan, const uint8_t *bytes)
{
    __m256i lanes = _mm256_shuffle_epi8(load_two(bytes, bytes + plan->second), plan->order);
    return _mm256_and_si256(_mm256_srlv_epi32(lanes, plan->shift), plan->cut);
}

/* The numbers from here on that two loads reach without leaving the bytes. */
static Py_ssize_t reached(Py_ssize_t n_bytes, unsigned bits, unsigned last_load, Py_ssize_t n)
{
    Py_ssize_t need = (Py_ssize_t)last_load + 16;
    if (n_bytes < need)
        return 0;
    Py_ssize_t eights = (n_bytes - need) / (Py_ssize_t)bits + 1;
    return eights < n / 8 ? 8 * eights : n / 8 * 8;
}

#define NARROW_LOOP(NAME, SET, STORE)                                                                          \
    VECTOR static Py_ssize_t NAME(const Packing *p, Py_ssize_t n, uint8_t *out)                                \
    {                                                                                                          \
        Plan plan = plan_narrow(p->bits);                                                                      \
        Meaning m = {SET(p->minimum), _mm256_set1_epi32((int)p->mark), SET(p->fill), p->has_fill};             \
        Py_ssize_t count = reached(p->n_bytes, p->bits, plan.second, n);                                       \
        const uint8_t *bytes = p->bytes;                                                                       \
        for (Py_ssize_t i = 0; i < count; i += 8, bytes += p->bits) {                                          \
            __m256i numbers = eight(&plan, bytes);                                                             \
            __m256i marked = m.has_fill ? _mm256_cmpeq_epi32(numbers, m.mark) : _mm256_setzero_si256();        \
            STORE(out, i, numbers, marked, &m);                                                                \
        }                                                                                                      \
        return count;                                                                                          \
    }

#define SET8(x) _mm256_set1_epi8((char)(x))
#define SET16(x) _mm256_set1_epi16((short)(x))
#define SET32(x) _mm256_set1_epi32((int)(x))
#define SET64(x) _mm256_set1_epi64x((long long)(x))

/* Lanes of 32 bits, of which the upper half is 0 or (marks) equal to the lower, as 8 lanes of 16 bits. */
VECTOR static inline __m128i halved(__m256i lanes)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
}

VECTOR static inline __m128i marks_halved(__m256i marks)
{
    return _mm_packs_epi32(_mm256_castsi256_si128(marks), _mm256_extracti128_si256(marks, 1));
}

VECTOR static inline void put8(uint8_t *out, Py_ssize_t i, __m256i numbers, __m256i marked, const Meaning *m)
{
    __m128i zero = _mm_setzero_si128();
    __m128i values = _mm_add_epi8(_mm_packus_epi16(halved(numbers), zero), _mm256_castsi256_si128(m->minimum));
    __m128i marks = _mm_packs_epi16(marks_halved(marked), zero);
    values = _mm_blendv_epi8(values, _mm256_castsi256_si128(m->fill), marks);
    _mm_storel_epi64((__m128i *)(out + i), values);
}

VECTOR static inline void put16(uint8_t *out, Py_ssize_t i, __m256i numbers, __m256i marked, const Meaning *m)
{
    __m128i values = _mm_add_epi16(halved(numbers), _mm256_castsi256_si128(m->minimum));
    values = _mm_blendv_epi8(values, _mm256_castsi256_si128(m->fill), marks_halved(marked));
    _mm_storeu_si128((__m128i *)(out + 2 * i), values);
}

VECTOR static inline void put32(uint8_t *out, Py_ssize_t i, __m256i numbers, __m256i marked, const Meaning *m)
{
    __m256i values = _mm256_blendv_epi8(_mm256_add_epi32(numbers, m->minimum), m->fill, marked);
    _mm256_storeu_si256((__m256i *)(out + 4 * i), values);
}

VECTOR static inline void put_half(uint8_t *out, __m128i numbers, __m128i marked, const Meaning *m)
{
    __m256i values = _mm256_add_epi64(_mm256_cvtepu32_epi64(numbers), m->minimum);
    values = _mm256_blendv_epi8(values, m->fill, _mm256_cvtepi32_epi64(marked));
    _mm256_storeu_si256((__m256i *)out, values);
}

VECTOR static inline void put64(uint8_t *out, Py_ssize_t i, __m256i numbers, __m256i marked, const Meaning *m)
{
    put_half(out + 8 * i, _mm256_castsi256_si128(numbers), _mm256_castsi256_si128(marked), m);
    put_half(out + 8 * i + 32, _mm256_extracti128_si256(numbers, 1), _mm256_extracti128_si256(marked, 1), m);
}

NARROW_LOOP(narrow_8, SET8, put8)
NARROW_LOOP(narrow_16, SET16, put16)
NARROW_LOOP(narrow_32, SET32, put32)
NARROW_LOOP(narrow_64, SET64, put64)

/* -- up to 57 bits: lanes of 64 bits, two from each of four loads -- */

VECTOR static Py_ssize_t wide_64(const Packing *p, Py_ssize_t n, uint8_t *out)
{
    unsigned begin[4];
    uint8_t order[64];
    uint64_t shift[8];
    for (unsigned j = 0; j < 8; j++) {
        unsigned bit = j * p->bits, pair = j / 2;
        begin[pair] = 2 * pair * p->bits / 8;
        for (unsigned k = 0; k < 8; k++)
            order[8 * j + k] = (uint8_t)(bit / 8 - begin[pair] + 7 - k);
        shift[j] = 64 - bit % 8 - p->bits;
    }
    __m256i cut = SET64(p->mark), minimum = SET64(p->minimum), fill = SET64(p->fill);
    Py_ssize_t count = reached(p->n_bytes, p->bits, begin[3], n);
    const uint8_t *bytes = p->bytes;
    for (Py_ssize_t i = 0; i < count; i += 8, bytes += p->bits)
        for (int half = 0; half < 2; half++) {
            __m256i lanes = load_two(bytes + begin[2 * half], bytes + begin[2 * half + 1]);
            lanes = _mm256_shuffle_epi8(lanes, _mm256_loadu_si256((const __m256i *)(order + 32 * half)));
            lanes = _mm256_srlv_epi64(lanes, _mm256_loadu_si256((const __m256i *)(shift + 4 * half)));
            __m256i numbers = _mm256_and_si256(lanes, cut), values = _mm256_add_epi64(numbers, minimum);
            if (p->has_fill)
                values = _mm256_blendv_epi8(values, fill, _mm256_cmpeq_epi64(numbers, cut));
            _mm256_storeu_si256((__m256i *)(out + 8 * (i + 4 * half)), values);
        }
    return count;
}

Py_ssize_t unpack_eights(const Packing *p, Py_ssize_t n, Py_ssize_t size, uint8_t *out)
{
    if (p->bits == 0 || p->bits > WIDEST || !__builtin_cpu_supports("avx2"))
        return 0;
    if (p->bits > NARROW)
        return size == 8 ? wide_64(p, n, out) : 0;
    switch (size) {
    case 1: return p->bits < 8 ? narrow_8(p, n, out) : 0;
    case 2: return p->bits < 16 ? narrow_16(p, n, out) : 0;
    case 4: return narrow_32(p, n, out);
    default: return narrow_64(p, n, out);
    }
}
#else
Py_ssize_t unpack_eights(const Packing *Py_UNUSED(p), Py_ssize_t Py_UNUSED(n), Py_ssize_t Py_UNUSED(size), uint8_t *Py_UNUSED(out))
{
    return 0;
}
#endif
