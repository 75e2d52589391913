// Exponential and logarithm of arrays, in float64, and rounding helpers of the vector loops.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace sim {

// Compiled for several instruction sets, chosen when the library is loaded; without contraction
// (-ffp-contract=off) all give the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SIM_CLONES __attribute__((target_clones("arch=haswell", "default")))
#else
#define SIM_CLONES
#endif

template <typename To, typename From>
inline To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    std::memcpy(&result, &value, sizeof(To));
    return result;
}

// The float next to a value that is not one, with an odd last bit: rounding that once more, to fewer bits, is
// the same as rounding the value (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
inline float to_odd(double value) {
    const float nearest = static_cast<float>(value);
    const double back = nearest;
    const auto bits = bits_as<uint32_t>(nearest);
    // Without branches, for the vectoriser: one step towards the value where its last bit is to become odd.
    const auto inexact = static_cast<uint32_t>(back < value) | static_cast<uint32_t>(back > value);
    const uint32_t finite = static_cast<uint32_t>((bits & 0x7f800000U) != 0x7f800000U);
    const auto shrink = static_cast<uint32_t>((back > value) == (value > 0));
    return bits_as<float>(bits + (inexact & ~bits & finite & 1U) * (1U - 2U * shrink));
}

// a + b, with an odd last bit if it is not exact.
inline double odd_sum(double a, double b) {
    const double sum = a + b;
    const double part = sum - a;
    const double error = (a - (sum - part)) + (b - part);
    const auto bits = bits_as<uint64_t>(sum);
    const auto inexact = static_cast<uint64_t>(error > 0) | static_cast<uint64_t>(error < 0);
    const auto grow = static_cast<uint64_t>((error > 0) == (sum > 0));
    return bits_as<double>(bits + (inexact & ~bits & 1U) * (2U * grow - 1U));
}

// e**x for floats: x = k ln 2 + r, a Taylor polynomial of e**r with |r| <= ln 2 / 2, error below 2**-57.
inline double exponential(double x) {
    constexpr double magic = 0x1.8p52;
    x = x < -110.0 ? -110.0 : x;
    x = x > 90.0 ? 90.0 : x;
    const double shifted = x * 0x1.71547652b82fep0 + magic;
    const double k = shifted - magic;
    const double r = (x - k * 0x1.62e42fefa0000p-1) - k * 0x1.cf79abc9e3b3ap-40;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const uint64_t power = (bits_as<uint64_t>(shifted) + 1023) << 52;
    return p * bits_as<double>(power);
}

// ln x for floats: x = 2**e m with m in [0.7, 1.41), ln m = 2 atanh((m - 1) / (m + 1)).
inline double logarithm(double x) {
    const auto bits = bits_as<uint64_t>(x);
    const uint64_t fraction = bits & 0xfffffffffffffU;
    const uint64_t upper = (0x6a09e667f3bccU - fraction) >> 63;  // 1 above sqrt(2)
    const double m = bits_as<double>(fraction | (0x3ff0000000000000U - (upper << 52)));
    const uint64_t exponent = (bits >> 52) + upper;
    const double e = bits_as<double>(0x4330000000000000U | exponent) - (0x1p52 + 1023.0);
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double p = 1.0 / 21.0;
    p = p * z + 1.0 / 19.0;
    p = p * z + 1.0 / 17.0;
    p = p * z + 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    const double tail = 2.0 * s * z * p;
    double result = e * 0x1.62e42fefa0000p-1 + (2.0 * s + (tail + e * 0x1.cf79abc9e3b3ap-40));
    result = x == 0 ? -std::numeric_limits<double>::infinity() : result;
    result = x < 0 ? std::numeric_limits<double>::quiet_NaN() : result;
    return (x > 0x1p1000) | (x != x) ? x : result;
}

inline float maximum(float a, float b) {
    const float larger = (a > b) | (a != a) ? a : b;
    return a == b ? bits_as<float>(bits_as<uint32_t>(a) & bits_as<uint32_t>(b)) : larger;
}
inline float minimum(float a, float b) {
    const float smaller = (a < b) | (a != a) ? a : b;
    return a == b ? bits_as<float>(bits_as<uint32_t>(a) | bits_as<uint32_t>(b)) : smaller;
}
inline float positive_part(float a) { return (a > 0) | (a != a) ? a : 0.0F; }

}  // namespace sim
