/* Wide integer arithmetic behind sums, averages and hashes. */
#ifndef ELFSTREAM_SUMS_H
#define ELFSTREAM_SUMS_H
#include "int128.h"

/* States lie packed in group tables, on multiples of 8 bytes only: hence loads and stores without alignment. */
static inline i128 i128_load(const void *from) { i128 v; __builtin_memcpy(&v, from, sizeof v); return v; }
static inline void i128_store(void *to, i128 v) { __builtin_memcpy(to, &v, sizeof v); }
static inline void i128_accumulate(void *to, i128 v) { i128_store(to, (i128)((u128)i128_load(to) + (u128)v)); }

/* The 192-bit two's complement integer at `to`, three little-endian words, plus v. */
static inline void i192_accumulate(uint64_t *to, i128 v) {
    uint64_t low = to[0] + (uint64_t)v;
    u128 high = ((u128)to[2] << 64 | to[1]) + (u128)(v >> 64) + (low < to[0]);
    to[0] = low, to[1] = (uint64_t)high, to[2] = (uint64_t)(high >> 64);
}
static inline void i192_add(uint64_t *to, const uint64_t *from) {
    uint64_t low = to[0] + from[0];
    u128 high = ((u128)to[2] << 64 | to[1]) + ((u128)from[2] << 64 | from[1]) + (low < to[0]);
    to[0] = low, to[1] = (uint64_t)high, to[2] = (uint64_t)(high >> 64);
}
/* 1 when the value needs more than 128 bits. */
static inline int i192_narrow(const uint64_t *from, i128 *out) {
    *out = i128_make((int64_t)from[1], from[0]);
    return from[2] != ((int64_t)from[1] < 0 ? ~0ULL : 0ULL);
}

/* The two halves of a 64 x 64 bit product folded into one word; the factors stay in, so that a zero factor does not
 * wipe out the other one. */
static inline uint64_t multiply_fold(uint64_t a, uint64_t b) {
    u128 product = (u128)a * b;
    return a ^ b ^ (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* (high:low) / divisor with high < divisor: one digit of a long division. */
static inline uint64_t u128_digit(uint64_t high, uint64_t low, uint64_t divisor, uint64_t *remainder) {
    u128 dividend = (u128)high << 64 | low;
    *remainder = (uint64_t)(dividend % divisor);
    return (uint64_t)(dividend / divisor);
}

static inline u128 sum_magnitude(i128 v) { return v < 0 ? 0 - (u128)v : (u128)v; }

static inline u128 sum_ten_to(int n) {
    u128 power = 1;
    while (n-- > 0) power *= 10;
    return power;
}

static inline double i128_nearest(i128 v) { return (double)v; }
static inline double i128_scaled(double v, int scale) { return v / (double)sum_ten_to(scale); }

/* 1 when |v| has more than `digits` <= 38 decimal digits. */
static inline int sum_exceeds(i128 v, int digits) { return sum_magnitude(v) >= sum_ten_to(digits); }

/* |v| as two little-endian words; returns 1 when v is negative. */
static inline int i128_words(i128 v, uint64_t *words) {
    u128 magnitude = sum_magnitude(v);
    words[0] = (uint64_t)magnitude, words[1] = (uint64_t)(magnitude >> 64);
    return v < 0;
}

/* sum * 10**up / count, half up, as Spark does it. `up` <= 4, |sum| < 10**38. Returns 1 when the result has more than
 * `precision` digits. */
static inline int decimal_average(i128 sum, uint64_t count, int up, int precision, i128 *out) {
    u128 magnitude = sum_magnitude(sum), factor = sum_ten_to(up), low, high, value;
    uint64_t q2, q1, q0, rest;
    low = (u128)(uint64_t)magnitude * factor;
    high = (magnitude >> 64) * factor + (low >> 64);
    q2 = (uint64_t)(high >> 64) / count;
    q1 = u128_digit((uint64_t)(high >> 64) % count, (uint64_t)high, count, &rest);
    q0 = u128_digit(rest, (uint64_t)low, count, &rest);
    value = (u128)q1 << 64 | q0;
    if (q2 || value >= sum_ten_to(38)) return 1;
    value += rest >= count - rest;
    *out = sum < 0 ? (i128)(0 - value) : (i128)value;
    return value >= sum_ten_to(precision);
}

#endif
