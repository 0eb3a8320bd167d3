/* 128-bit integers for the kernels. Cython believes `i128` to be a long long, so arithmetic on it lives here, in C,
 * where the compiler knows better: a mixed expression in Cython could be narrowed to 64 bits without a word. */
#ifndef ELFSTREAM_INT128_H
#define ELFSTREAM_INT128_H
#include <stdint.h>

typedef __int128 i128;
typedef unsigned __int128 u128;

static inline i128 i128_from_i64(int64_t v) { return (i128)v; }
static inline i128 i128_make(int64_t high, uint64_t low) { return (i128)(((u128)(uint64_t)high << 64) | low); }
static inline uint64_t i128_low(i128 v) { return (uint64_t)v; }
static inline int64_t i128_high(i128 v) { return (int64_t)(v >> 64); }
static inline int i128_fits_i64(i128 v) { return v >= INT64_MIN && v <= INT64_MAX; }
static inline int i128_compare(i128 a, i128 b) { return (a > b) - (a < b); }
/* Each returns 1 when the result left 128 bits. */
static inline int i128_add(i128 a, i128 b, i128 *out) { return __builtin_add_overflow(a, b, out); }
static inline int i128_subtract(i128 a, i128 b, i128 *out) { return __builtin_sub_overflow(a, b, out); }
static inline int i128_multiply(i128 a, i128 b, i128 *out) { return __builtin_mul_overflow(a, b, out); }

static inline i128 i128_negate(i128 v) { return (i128)(0 - (u128)v); }
static inline u128 i128_magnitude(i128 v) { return v < 0 ? 0 - (u128)v : (u128)v; }
static inline int i64_multiply(int64_t a, int64_t b, int64_t *out) { return __builtin_mul_overflow(a, b, out); }

/* ---- 256-bit magnitudes: intermediates of DECIMAL arithmetic, whose values have at most 38 digits. ---- */
typedef struct { u128 high, low; } u256;

#define DECIMAL_DIGITS_MAX 38

/* 10**n for 0 <= n <= 38, the largest power of ten below 2**128. */
static inline u128 u128_ten_to(int n) {
    static const uint64_t small[20] = {
        1ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL, 100000000ULL, 1000000000ULL,
        10000000000ULL, 100000000000ULL, 1000000000000ULL, 10000000000000ULL, 100000000000000ULL,
        1000000000000000ULL, 10000000000000000ULL, 100000000000000000ULL, 1000000000000000000ULL,
        10000000000000000000ULL};
    return n < 20 ? (u128)small[n] : (u128)small[19] * small[n - 19];
}

static inline u256 u256_from(u128 v) { u256 r = {0, v}; return r; }

static inline int u256_compare(u256 a, u256 b) {
    if (a.high != b.high) return a.high < b.high ? -1 : 1;
    return (a.low > b.low) - (a.low < b.low);
}

static inline u256 u256_add(u256 a, u256 b) {
    u256 r;
    r.low = a.low + b.low;
    r.high = a.high + b.high + (r.low < a.low);
    return r;
}

static inline u256 u256_subtract(u256 a, u256 b) {
    u256 r;
    r.low = a.low - b.low;
    r.high = a.high - b.high - (a.low < b.low);
    return r;
}

/* Schoolbook multiplication in 64-bit limbs. */
static inline u256 u128_multiply_wide(u128 a, u128 b) {
    uint64_t a0 = (uint64_t)a, a1 = (uint64_t)(a >> 64), b0 = (uint64_t)b, b1 = (uint64_t)(b >> 64);
    u128 p00 = (u128)a0 * b0, p01 = (u128)a0 * b1, p10 = (u128)a1 * b0, p11 = (u128)a1 * b1;
    u128 middle = (p00 >> 64) + (uint64_t)p01 + (uint64_t)p10;
    u256 r;
    r.low = (middle << 64) | (uint64_t)p00;
    r.high = p11 + (p01 >> 64) + (p10 >> 64) + (middle >> 64);
    return r;
}

/* a * b; returns 1 when the product left 256 bits. */
static inline int u256_multiply(u256 a, u128 b, u256 *out) {
    u256 low = u128_multiply_wide(a.low, b), high = u128_multiply_wide(a.high, b);
    out->low = low.low;
    out->high = low.high + high.low;
    return high.high != 0 || out->high < low.high;
}

/* (high:low) / divisor where high < divisor, so that the quotient fits: two steps of Knuth's algorithm D in base
 * 2**64 (The Art of Computer Programming 2, 4.3.1). */
static inline u128 u256_divide_step(u128 high, u128 low, u128 divisor, u128 *remainder) {
    int shift, i;
    uint64_t d1, d0, limbs[2];
    u128 rest, quotient = 0;
    if (high == 0) {
        *remainder = low % divisor;
        return low / divisor;
    }
    shift = (divisor >> 64) ? __builtin_clzll((uint64_t)(divisor >> 64)) : 64 + __builtin_clzll((uint64_t)divisor);
    if (shift) {
        high = (high << shift) | (low >> (128 - shift));
        low <<= shift;
        divisor <<= shift;
    }
    d1 = (uint64_t)(divisor >> 64);
    d0 = (uint64_t)divisor;
    limbs[0] = (uint64_t)(low >> 64);
    limbs[1] = (uint64_t)low;
    rest = high;
    for (i = 0; i < 2; i++) {
        /* A digit of the quotient from the two top limbs is too large by at most 2. */
        u128 digit = rest / d1, left = rest % d1;
        while ((digit >> 64) || (u128)(uint64_t)digit * d0 > ((left << 64) | limbs[i])) {
            digit--;
            left += d1;
            if (left >> 64) break;
        }
        rest = ((rest << 64) | limbs[i]) - (u128)(uint64_t)digit * divisor;
        quotient = (quotient << 64) | (uint64_t)digit;
    }
    *remainder = rest >> shift;
    return quotient;
}

static inline u256 u256_divide(u256 a, u128 divisor, u128 *remainder) {
    u256 q;
    u128 rest = a.high % divisor;
    q.high = a.high / divisor;
    q.low = u256_divide_step(rest, a.low, divisor, remainder);
    return q;
}

/* a / 10**n rounded half up, n >= 0. */
static inline u256 u256_drop_digits(u256 a, int n) {
    u128 rest, power;
    u256 q;
    if (n == 0) return a;
    while (n > DECIMAL_DIGITS_MAX) { /* rounding half up looks at the first dropped digit only, so the rest may go first */
        int step = n - DECIMAL_DIGITS_MAX < DECIMAL_DIGITS_MAX ? n - DECIMAL_DIGITS_MAX : DECIMAL_DIGITS_MAX;
        a = u256_divide(a, u128_ten_to(step), &rest);
        n -= step;
    }
    power = u128_ten_to(n);
    q = u256_divide(a, power, &rest);
    if (rest >= power - rest) q = u256_add(q, u256_from(1));
    return q;
}

/* ---- DECIMAL arithmetic. Each returns 1 when the result has more than `precision` digits (or a division is by zero).
 * Results are rounded half up (away from zero), as java.math.BigDecimal does it for Spark. ---- */

/* A magnitude at scale `from` to a signed value at scale `to`. */
static inline int decimal_finish(u256 magnitude, int negative, int from, int to, int precision, i128 *out) {
    if (to < from) {
        magnitude = u256_drop_digits(magnitude, from - to);
    } else if (to > from) {
        int up = to - from;
        for (; up > DECIMAL_DIGITS_MAX; up -= DECIMAL_DIGITS_MAX)
            if (u256_multiply(magnitude, u128_ten_to(DECIMAL_DIGITS_MAX), &magnitude)) return 1;
        if (u256_multiply(magnitude, u128_ten_to(up), &magnitude)) return 1;
    }
    if (magnitude.high || magnitude.low >= u128_ten_to(precision)) return 1;
    *out = negative ? i128_negate((i128)magnitude.low) : (i128)magnitude.low;
    return 0;
}

static inline int decimal_rescale(i128 v, int from, int to, int precision, i128 *out) {
    if (from == to) {
        *out = v;
        return i128_magnitude(v) >= u128_ten_to(precision);
    }
    return decimal_finish(u256_from(i128_magnitude(v)), v < 0, from, to, precision, out);
}

/* a (scale sa) + b (scale sb); b is negated first where `minus`. */
static inline int decimal_add(i128 a, int sa, i128 b, int sb, int minus, int scale, int precision, i128 *out) {
    int common = sa > sb ? sa : sb, na = a < 0, nb = (b < 0) != (minus != 0), order;
    u256 x, y;
    if (sa == sb && sa == scale) {
        i128 sum = minus ? a - b : a + b; /* 38 digits each: the sum fits 128 bits */
        *out = sum;
        return i128_magnitude(sum) >= u128_ten_to(precision);
    }
    x = u128_multiply_wide(i128_magnitude(a), u128_ten_to(common - sa));
    y = u128_multiply_wide(i128_magnitude(b), u128_ten_to(common - sb));
    if (na == nb) return decimal_finish(u256_add(x, y), na, common, scale, precision, out);
    order = u256_compare(x, y);
    if (order >= 0) return decimal_finish(u256_subtract(x, y), na, common, scale, precision, out);
    return decimal_finish(u256_subtract(y, x), nb, common, scale, precision, out);
}

static inline int decimal_multiply(i128 a, int sa, i128 b, int sb, int scale, int precision, i128 *out) {
    int negative = (a < 0) != (b < 0);
    if (sa + sb == scale && i128_fits_i64(a) && i128_fits_i64(b)) {
        *out = a * b;
        return i128_magnitude(*out) >= u128_ten_to(precision);
    }
    return decimal_finish(u128_multiply_wide(i128_magnitude(a), i128_magnitude(b)), negative, sa + sb, scale,
                          precision, out);
}

/* A numerator beyond 256 bits means a quotient beyond 38 digits, as the divisor has at most 38. */
static inline int decimal_divide(i128 a, int sa, i128 b, int sb, int scale, int precision, i128 *out) {
    int up = scale + sb - sa;
    u128 divisor = i128_magnitude(b), rest;
    u256 top = u256_from(i128_magnitude(a)), q;
    if (b == 0) return 1;
    if (up < 0) {
        u256 wide = u128_multiply_wide(divisor, u128_ten_to(-up));
        if (wide.high) { *out = 0; return 0; } /* |a| < 10**38 is below half of the divisor */
        divisor = wide.low;
    }
    for (; up > 0; up -= DECIMAL_DIGITS_MAX)
        if (u256_multiply(top, u128_ten_to(up > DECIMAL_DIGITS_MAX ? DECIMAL_DIGITS_MAX : up), &top)) return 1;
    q = u256_divide(top, divisor, &rest);
    if (rest >= divisor - rest) q = u256_add(q, u256_from(1));
    return decimal_finish(q, (a < 0) != (b < 0), scale, scale, precision, out);
}

/* The quotient towards zero; 1 when it is beyond BIGINT. */
static inline int decimal_quotient(i128 a, int sa, i128 b, int sb, int64_t *out) {
    u128 x = i128_magnitude(a), y = i128_magnitude(b), rest;
    int negative = (a < 0) != (b < 0);
    u256 q, wide;
    if (b == 0) return 1;
    if (sb >= sa) {
        q = u256_divide(u128_multiply_wide(x, u128_ten_to(sb - sa)), y, &rest);
    } else {
        wide = u128_multiply_wide(y, u128_ten_to(sa - sb));
        q = u256_from(wide.high ? 0 : x / wide.low);
    }
    if (q.high || q.low > (u128)INT64_MAX + negative) return 1;
    *out = negative ? (int64_t)(0 - (uint64_t)q.low) : (int64_t)q.low;
    return 0;
}

/* The remainder has the sign of a. */
static inline int decimal_remainder(i128 a, int sa, i128 b, int sb, int scale, int precision, i128 *out) {
    u128 x = i128_magnitude(a), y = i128_magnitude(b), rest;
    u256 wide;
    if (b == 0) return 1;
    if (sb >= sa) {
        u256_divide(u128_multiply_wide(x, u128_ten_to(sb - sa)), y, &rest);
    } else {
        wide = u128_multiply_wide(y, u128_ten_to(sa - sb));
        rest = wide.high ? x : x % wide.low;
    }
    return decimal_finish(u256_from(rest), a < 0, sa > sb ? sa : sb, scale, precision, out);
}

/* Towards minus infinity (up = 0) or plus infinity (up = 1), to scale 0. */
static inline int decimal_to_whole(i128 v, int scale, int up, int precision, i128 *out) {
    i128 power = (i128)u128_ten_to(scale), q = v / power, rest = v % power;
    if (rest > 0 && up) q++;
    if (rest < 0 && !up) q--;
    *out = q;
    return i128_magnitude(q) >= u128_ten_to(precision);
}

/* Seconds to microseconds, towards zero; 1 when that is beyond int64, or loses digits where `exact`. */
static inline int decimal_micros(i128 seconds, int scale, int exact, int64_t *out) {
    i128 power, q;
    if (scale <= 6) {
        if (i128_multiply(seconds, (i128)u128_ten_to(6 - scale), &q)) return 1;
    } else {
        power = (i128)u128_ten_to(scale - 6);
        q = seconds / power;
        if (exact && seconds % power != 0) return 1;
    }
    if (!i128_fits_i64(q)) return 1;
    *out = (int64_t)q;
    return 0;
}

/* v / 10**scale where that is one correctly rounded operation; 1 when it is not. */
static inline int decimal_to_double(i128 v, int scale, double *out) {
    static const double tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (scale > 22 || i128_magnitude(v) > ((u128)1 << 53)) return 1;
    *out = (double)(int64_t)v / tens[scale];
    return 0;
}

/* mantissa * 10**exponent where both are exact doubles (Clinger's fast path); 1 when they are not. */
static inline int double_from_digits(uint64_t mantissa, int exponent, double *out) {
    static const double tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (mantissa > ((uint64_t)1 << 53) || exponent < -22 || exponent > 22) return 1;
    *out = exponent < 0 ? (double)mantissa / tens[-exponent] : (double)mantissa * tens[exponent];
    return 0;
}

/* v * 10 + digit of a magnitude below 10**37. */
static inline i128 i128_push_digit(i128 v, int digit) { return v * 10 + digit; }

/* Decimal digits with `scale` of them behind the point, as java.math.BigDecimal.toPlainString; returns the size. */
static inline int decimal_text(i128 v, int scale, char *to) {
    char digits[48];
    int count = 0, size = 0;
    u128 rest = i128_magnitude(v);
    while (rest >> 64) { /* 128-bit divisions are slow: 18 digits a time */
        uint64_t low = (uint64_t)(rest % 1000000000000000000ULL);
        int i;
        rest /= 1000000000000000000ULL;
        for (i = 0; i < 18; i++) { digits[count++] = (char)('0' + low % 10); low /= 10; }
    }
    for (uint64_t left = (uint64_t)rest; left; left /= 10) digits[count++] = (char)('0' + left % 10);
    while (count <= scale) digits[count++] = '0';
    if (v < 0) to[size++] = '-';
    while (count) {
        if (count == scale) to[size++] = '.';
        to[size++] = digits[--count];
    }
    return size;
}

#endif
