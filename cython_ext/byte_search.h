/* Searching bytes, inline: most fields of a log line are shorter than the cost of a call.
 *
 * All functions look at [p, end) and answer `end` when nothing is there. Bytes in [end, safe) may be read, never
 * more: `safe` is the end of the object that the text lies in. SSE2 belongs to every x86-64; elsewhere the plain
 * loops serve. */
#ifndef ELFSTREAM_BYTE_SEARCH_H
#define ELFSTREAM_BYTE_SEARCH_H
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef const uint8_t *byte_p;

static inline byte_p byte_search_min(byte_p a, byte_p b) { return a < b ? a : b; }

/* The first `c`. For short distances. */
static inline byte_p find_byte(byte_p p, byte_p end, byte_p safe, uint8_t c) {
#ifdef __SSE2__
    const __m128i needle = _mm_set1_epi8((char)c);
    while (p < end && safe - p >= 16) {
        int hits = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)p), needle));
        if (hits) return byte_search_min(p + __builtin_ctz((unsigned)hits), end);
        p += 16;
    }
#else
    (void)safe;
#endif
    while (p < end && *p != c) p++;
    return byte_search_min(p, end);
}

/* The first `c`. For long distances, where the C library's wider vectors pay for the call. */
static inline byte_p find_byte_far(byte_p p, byte_p end, uint8_t c) {
    byte_p hit = p < end ? (byte_p)memchr(p, c, (size_t)(end - p)) : 0;
    return hit ? hit : end;
}

/* The first blank, tab or `c`. */
static inline byte_p find_word_end(byte_p p, byte_p end, byte_p safe, uint8_t c) {
#ifdef __SSE2__
    const __m128i blank = _mm_set1_epi8(' '), tab = _mm_set1_epi8('\t'), needle = _mm_set1_epi8((char)c);
    while (p < end && safe - p >= 16) {
        __m128i text = _mm_loadu_si128((const __m128i *)p);
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(text, blank), _mm_cmpeq_epi8(text, tab)),
                                   _mm_cmpeq_epi8(text, needle));
        int hits = _mm_movemask_epi8(hit);
        if (hits) return byte_search_min(p + __builtin_ctz((unsigned)hits), end);
        p += 16;
    }
#else
    (void)safe;
#endif
    while (p < end && *p != ' ' && *p != '\t' && *p != c) p++;
    return byte_search_min(p, end);
}

/* The first byte that does not stand for itself in a JSON string: a quote, a backslash, a control character. */
static inline byte_p find_json_special(byte_p p, byte_p end, byte_p safe) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), escape = _mm_set1_epi8('\\'), last = _mm_set1_epi8(0x1f);
    while (p < end && safe - p >= 16) {
        __m128i text = _mm_loadu_si128((const __m128i *)p);
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(text, last), text);
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(text, quote), _mm_cmpeq_epi8(text, escape)), control);
        int hits = _mm_movemask_epi8(hit);
        if (hits) return byte_search_min(p + __builtin_ctz((unsigned)hits), end);
        p += 16;
    }
#else
    (void)safe;
#endif
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20) p++;
    return byte_search_min(p, end);
}

/* The first byte >= 0x80. */
static inline byte_p find_high(byte_p p, byte_p end, byte_p safe) {
#ifdef __SSE2__
    while (p < end && safe - p >= 16) {
        int hits = _mm_movemask_epi8(_mm_loadu_si128((const __m128i *)p));
        if (hits) return byte_search_min(p + __builtin_ctz((unsigned)hits), end);
        p += 16;
    }
#else
    (void)safe;
#endif
    while (p < end && *p < 0x80) p++;
    return byte_search_min(p, end);
}

static inline uint64_t load_word(byte_p p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

#endif
