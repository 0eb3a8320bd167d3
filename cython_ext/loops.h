/* Loops over plain arrays that the compiler turns into vector code, and searches in short texts.

On x86-64 the baseline (SSE2) cannot compare 64-bit integers; where gcc and glibc can choose at load time, the loops are
compiled for AVX2 as well. Every version gives the same result. */
#ifndef ELFSTREAM_LOOPS_H
#define ELFSTREAM_LOOPS_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define VECTOR_VERSIONS __attribute__((target_clones("avx2", "default")))
#else
#define VECTOR_VERSIONS
#endif

#define ROWS(condition)                     \
    for (Py_ssize_t i = 0; i < n; i++) {    \
        out[i] = (uint8_t)(condition);      \
    }                                       \
    break

/* out[i] = a[i] op b, with op as the numbers EQ NE LT LE GT GE of exprs_compare. */
VECTOR_VERSIONS
static void compare_longs_scalar(int op, const int64_t *restrict a, int64_t b, uint8_t *restrict out, Py_ssize_t n) {
    switch (op) {
    case 0: ROWS(a[i] == b);
    case 1: ROWS(a[i] != b);
    case 2: ROWS(a[i] < b);
    case 3: ROWS(a[i] <= b);
    case 4: ROWS(a[i] > b);
    default: ROWS(a[i] >= b);
    }
}

/* out[i] = a[i] op b[i]. */
VECTOR_VERSIONS
static void compare_longs(int op, const int64_t *a, const int64_t *b, uint8_t *restrict out, Py_ssize_t n) {
    switch (op) {
    case 0: ROWS(a[i] == b[i]);
    case 1: ROWS(a[i] != b[i]);
    case 2: ROWS(a[i] < b[i]);
    case 3: ROWS(a[i] <= b[i]);
    case 4: ROWS(a[i] > b[i]);
    default: ROWS(a[i] >= b[i]);
    }
}

#undef ROWS

/* Where `needle` of 2 bytes and more stands first in `text`; NULL where it does not. For short texts: one load and one
comparison for each position, where the C library's memmem costs as much to call. The size is bounded by the caller, since
this takes size * needle_size steps at worst. */
static inline const char *find_in_short(const char *text, size_t size, const char *needle, size_t needle_size) {
    if (needle_size > size) {
        return NULL;
    }
    const char *last = text + (size - needle_size);
    if (needle_size >= 4) {
        uint32_t first, here;
        memcpy(&first, needle, 4);
        for (const char *at = text; at <= last; at++) {
            memcpy(&here, at, 4);
            if (here == first && memcmp(at + 4, needle + 4, needle_size - 4) == 0) {
                return at;
            }
        }
        return NULL;
    }
    uint16_t first, here;
    memcpy(&first, needle, 2);
    for (const char *at = text; at <= last; at++) {
        memcpy(&here, at, 2);
        if (here == first && (needle_size == 2 || at[2] == needle[2])) {
            return at;
        }
    }
    return NULL;
}

#endif
