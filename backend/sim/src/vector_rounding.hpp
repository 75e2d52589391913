// The rounding modes of Cast, one value at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ascendc/types.hpp"
#include "sim/vector.hpp"
#include "vector_math.hpp"

namespace sim {

// To an integer, still a float. Truncated first; what was cut off decides. Free of branches, for the
// vectoriser.
template <Round mode>
inline float round_integer(float x) {
    const float size = std::fabs(x);
    const bool small = size < 0x1p23F;  // NaN and larger numbers stay as they are
    const auto whole = static_cast<int32_t>(small ? size : 0.0F);
    const float cut = size - static_cast<float>(whole);
    const bool negative = (bits_as<uint32_t>(x) >> 31) != 0;
    bool up = false;  // away from zero
    if (mode == Round::Rint || mode == Round::None) up = (cut > 0.5F) | ((cut == 0.5F) & ((whole & 1) != 0));
    if (mode == Round::Round) up = cut >= 0.5F;
    if (mode == Round::Floor) up = (cut > 0) & negative;
    if (mode == Round::Ceil) up = (cut > 0) & !negative;
    const float rounded = static_cast<float>(whole + (up ? 1 : 0));
    const auto with_sign = bits_as<uint32_t>(rounded) | (bits_as<uint32_t>(x) & 0x80000000U);
    return small ? bits_as<float>(with_sign) : x;
}

// Saturates; NaN gives 0.
template <typename T>
inline T saturate(float x) {
    constexpr float low = static_cast<float>(std::numeric_limits<T>::min());
    constexpr T highest = std::numeric_limits<T>::max();
    constexpr float high = sizeof(T) >= 4 ? -low : static_cast<float>(highest);  // the first that is too much
    const bool above = sizeof(T) >= 4 ? x >= high : x > high;
    const bool inside = (x >= low) & !above;
    const T value = static_cast<T>(inside ? x : 0.0F);
    return above ? highest : x < low ? std::numeric_limits<T>::min() : value;
}

template <typename T, typename S>
inline T saturate_integer(S x) {
    return static_cast<T>(
        std::min<S>(std::max<S>(x, std::numeric_limits<T>::min()), std::numeric_limits<T>::max()));
}

// Whether the magnitude q with rest `rest` (of which `half` is one half) goes up.
template <Round mode>
inline bool goes_up(uint32_t q, uint32_t rest, uint32_t half, bool negative) {
    switch (mode) {
        case Round::Floor:
            return negative && rest != 0;
        case Round::Ceil:
            return !negative && rest != 0;
        case Round::Round:
            return rest >= half;
        case Round::Trunc:
            return false;
        case Round::Odd:
            return rest != 0 && (q & 1U) == 0;
        default:
            return rest > half || (rest == half && (q & 1U) != 0);
    }
}

// What a finite value too large for a float type becomes: infinity or the largest number.
template <Round mode>
inline bool to_infinity(bool negative) {
    switch (mode) {
        case Round::Floor:
            return negative;
        case Round::Ceil:
            return !negative;
        case Round::Trunc:
        case Round::Odd:
            return false;
        default:
            return true;
    }
}

template <Round mode>
inline uint16_t round_half(float x) {
    const auto bits = bits_as<uint32_t>(x);
    const bool negative = bits >> 31 != 0;
    const uint32_t sign = bits >> 16 & 0x8000U;
    const uint32_t size = bits & 0x7fffffffU;
    if (size > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U | (size >> 13 & 0x3ffU));
    if (size == 0x7f800000U) return static_cast<uint16_t>(sign | 0x7c00U);
    if (size >= 0x47800000U)
        return static_cast<uint16_t>(sign | (to_infinity<mode>(negative) ? 0x7c00U : 0x7bffU));
    const uint32_t exponent = size >> 23;
    uint32_t q, rest, half;
    if (exponent >= 113) {
        const uint32_t moved = size - (112U << 23);
        q = moved >> 13;
        rest = moved & 0x1fffU;
        half = 0x1000U;
    } else {  // a multiple of 2**-24
        const uint32_t fraction = (size & 0x7fffffU) | (exponent != 0 ? 0x800000U : 0U);
        const uint32_t shift = std::min(126 - exponent, 31U);
        q = fraction >> shift;
        rest = fraction & ((1U << shift) - 1);
        half = 1U << (shift - 1);
    }
    return static_cast<uint16_t>(sign | (q + (goes_up<mode>(q, rest, half, negative) ? 1 : 0)));
}

template <Round mode>
inline uint16_t round_bfloat16(float x) {
    const auto bits = bits_as<uint32_t>(x);
    const uint32_t size = bits & 0x7fffffffU;
    const uint32_t q = bits >> 16;
    const bool up = goes_up<mode>(q, bits & 0xffffU, 0x8000U, bits >> 31 != 0);
    if (size >= 0x7f800000U) return static_cast<uint16_t>(size > 0x7f800000U ? q | 0x40U : q);
    return static_cast<uint16_t>(q + (up ? 1 : 0));
}

// An integer to float32.
template <Round mode>
inline float round_single(int64_t x) {
    const float nearest = static_cast<float>(x);
    if (mode == Round::Rint || mode == Round::None) return nearest;
    const auto exact = static_cast<__int128>(x);
    const auto found = static_cast<__int128>(nearest);
    if (found == exact) return nearest;
    const float infinity = std::numeric_limits<float>::infinity();
    const float low = found < exact ? nearest : std::nextafter(nearest, -infinity);
    const float high = found < exact ? std::nextafter(nearest, infinity) : nearest;
    if (mode == Round::Floor) return low;
    if (mode == Round::Ceil) return high;
    if (mode == Round::Trunc) return x < 0 ? high : low;
    const auto below = exact - static_cast<__int128>(low), above = static_cast<__int128>(high) - exact;
    if (below != above) return below < above ? low : high;
    return x < 0 ? low : high;
}

}  // namespace sim
