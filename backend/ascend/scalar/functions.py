"""Device functions of scalar code: what C++ leaves undefined or lacks, with the meaning NumPy gives it."""

from __future__ import annotations

from ..device_functions import register

register(
    "ToBits",
    """
__aicore__ inline uint32_t ToBits(float value) { return *reinterpret_cast<uint32_t*>(&value); }
""",
)
register(
    "HalfToFloat",
    """
// float16 from its bits; a denormal is a multiple of 2**-24.
__aicore__ inline float HalfToFloat(uint16_t bits)
{
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {
        return FromBits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    if (magnitude >= 0x400u) {
        return FromBits(sign | ((magnitude << 13) + (112u << 23)));
    }
    return FromBits(sign | ToBits(static_cast<float>(magnitude) * 5.9604644775390625e-8f));
}
""",
    ("FromBits", "ToBits"),
)
register(
    "FloatToHalf",
    """
// The bits of the nearest float16, ties to even.
__aicore__ inline uint16_t FloatToHalf(float value)
{
    const uint32_t bits = ToBits(value) & 0x7fffffffu;
    const uint32_t sign = ToBits(value) >> 16 & 0x8000u;
    if (bits > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
    }
    if (bits >= 0x47800000u) {
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (bits < 0x38800000u) {  // a denormal: added to 0.5, its last bit is worth 2**-24
        return static_cast<uint16_t>(sign | (ToBits(FromBits(bits) + 0.5f) - 0x3f000000u));
    }
    return static_cast<uint16_t>(sign | ((bits + 0xfffu + (bits >> 13 & 1u) - (112u << 23)) >> 13));
}
""",
    ("FromBits", "ToBits"),
)
register(
    "BfloatToFloat",
    """
__aicore__ inline float BfloatToFloat(uint16_t bits) { return FromBits(static_cast<uint32_t>(bits) << 16); }
""",
    ("FromBits",),
)
register(
    "FloatToBfloat",
    """
// The bits of the nearest bfloat16, ties to even.
__aicore__ inline uint16_t FloatToBfloat(float value)
{
    const uint32_t bits = ToBits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return static_cast<uint16_t>(bits >> 16 | 0x40u);
    }
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
""",
    ("ToBits",),
)
register(
    "RoundHalf",
    """
__aicore__ inline float RoundHalf(float value) { return HalfToFloat(FloatToHalf(value)); }
""",
    ("HalfToFloat", "FloatToHalf"),
)
register(
    "RoundBfloat",
    """
__aicore__ inline float RoundBfloat(float value) { return BfloatToFloat(FloatToBfloat(value)); }
""",
    ("BfloatToFloat", "FloatToBfloat"),
)
register(
    "Within",
    """
// Whether an index lies within its axis; the first of a core that does not is reported to the host.
__aicore__ inline bool Within(int64_t index, int64_t extent, int64_t code, GlobalTensor<int64_t>& status)
{
    if (index >= 0 && index < extent) {
        return true;
    }
    const uint64_t slot = static_cast<uint64_t>(GetBlockIdx()) * 8;
    if (status.GetValue(slot) == 0) {
        status.SetValue(slot, code);
        status.SetValue(slot + 1, index);
        DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE>(status[slot]);
    }
    return false;
}
""",
)

# --- integers ---------------------------------------------------------------------------------------------

for _name, _symbol in (("WrapAdd", "+"), ("WrapSub", "-"), ("WrapMul", "*")):
    register(
        _name,
        f"""
template <typename T>
__aicore__ inline T {_name}(T a, T b)
{{
    return static_cast<T>(static_cast<uint64_t>(a) {_symbol} static_cast<uint64_t>(b));
}}
""",
    )
register(
    "FloorDivide",
    """
// Rounded down; 0 where the divisor is 0.
template <typename T>
__aicore__ inline T FloorDivide(T a, T b)
{
    if (b == 0) {
        return 0;
    }
    if (static_cast<T>(~b) == 0 && static_cast<T>(-1) < 0) {
        return static_cast<T>(0 - static_cast<uint64_t>(a));  // the most negative integer has no opposite
    }
    const T quotient = a / b;
    return static_cast<T>(quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
}
""",
)
register(
    "Remainder",
    """
// Of the sign of the dividend; 0 where the divisor is 0.
template <typename T>
__aicore__ inline T Remainder(T a, T b)
{
    const bool whole = b == 0 || (static_cast<T>(~b) == 0 && static_cast<T>(-1) < 0);
    return whole ? static_cast<T>(0) : static_cast<T>(a % b);
}
""",
)
register(
    "FloorRemainder",
    """
// Of the sign of the divisor.
template <typename T>
__aicore__ inline T FloorRemainder(T a, T b)
{
    const T rest = Remainder<T>(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}
""",
    ("Remainder",),
)
register(
    "ShiftedLeft",
    """
template <typename T>
__aicore__ inline T ShiftedLeft(T value, T bits)
{
    const bool inside = bits >= 0 && static_cast<uint64_t>(bits) < 8 * sizeof(T);
    return inside ? static_cast<T>(static_cast<uint64_t>(value) << bits) : static_cast<T>(0);
}
""",
)
register(
    "ShiftedRight",
    """
template <typename T>
__aicore__ inline T ShiftedRight(T value, T bits)
{
    const bool inside = bits >= 0 && static_cast<uint64_t>(bits) < 8 * sizeof(T);
    return inside ? static_cast<T>(value >> bits) : static_cast<T>(value < 0 ? -1 : 0);
}
""",
)
register(
    "BitCount",
    """
// Of the magnitude.
template <typename T>
__aicore__ inline uint8_t BitCount(T value)
{
    uint64_t bits = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    uint8_t count = 0;
    for (; bits != 0; bits &= bits - 1) {
        ++count;
    }
    return count;
}
""",
)
register(
    "IntegerPower",
    """
// 1 / a**-b truncated where the exponent is negative.
template <typename T>
__aicore__ inline T IntegerPower(T a, T b)
{
    if (b < 0) {
        const bool odd = (b & 1) != 0;
        return static_cast<T>(a == 1 ? 1 : static_cast<T>(~a) == 0 ? (odd ? -1 : 1) : 0);
    }
    uint64_t power = 1;
    uint64_t square = static_cast<uint64_t>(a);
    for (uint64_t rest = static_cast<uint64_t>(b); rest != 0; rest >>= 1) {
        power *= (rest & 1) != 0 ? square : 1;
        square *= square;
    }
    return static_cast<T>(power);
}
""",
)
register(
    "RandomBits",
    """
// Philox4x32-10 (Salmon et al., SC 2011): one of the four words of a block.
__aicore__ inline uint32_t RandomBits(uint64_t counter, uint64_t key, uint64_t stream, int32_t word)
{
    uint32_t a = static_cast<uint32_t>(counter), b = static_cast<uint32_t>(counter >> 32);
    uint32_t c = static_cast<uint32_t>(stream), d = static_cast<uint32_t>(stream >> 32);
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int32_t round = 0; round < 10; ++round) {
        const uint64_t first = 0xD2511F53ull * a;
        const uint64_t second = 0xCD9E8D57ull * c;
        a = static_cast<uint32_t>(second >> 32) ^ b ^ k0;
        b = static_cast<uint32_t>(second);
        c = static_cast<uint32_t>(first >> 32) ^ d ^ k1;
        d = static_cast<uint32_t>(first);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return word == 0 ? a : word == 1 ? b : word == 2 ? c : d;
}
""",
)

# --- floats -----------------------------------------------------------------------------------------------

register(
    "Saturated",
    """
// Truncated; the nearest integer there is where it is out of range, 0 for NaN.
template <typename T>
__aicore__ inline T Saturated(float value, T lowest, T highest)
{
    if (value >= static_cast<float>(highest)) {
        return highest;
    }
    if (value <= static_cast<float>(lowest)) {
        return lowest;
    }
    return value == value ? static_cast<T>(value) : static_cast<T>(0);
}
""",
)
register(
    "Copysign",
    """
__aicore__ inline float Copysign(float magnitude, float sign)
{
    return FromBits((ToBits(magnitude) & 0x7fffffffu) | (ToBits(sign) & 0x80000000u));
}
""",
    ("FromBits", "ToBits"),
)
register(
    "Truncated",
    """
__aicore__ inline float Truncated(float value)
{
    const bool whole = (ToBits(value) & 0x7fffffffu) >= 0x4b000000u;  // 2**23 and more, infinity and NaN
    return whole ? value : Copysign(static_cast<float>(static_cast<int32_t>(value)), value);
}
""",
    ("Copysign",),
)
register(
    "Floored",
    """
__aicore__ inline float Floored(float value)
{
    const float near = Truncated(value);
    return near > value ? near - 1.0f : near;
}
""",
    ("Truncated",),
)
register(
    "Ceiled",
    """
__aicore__ inline float Ceiled(float value)
{
    const float near = Truncated(value);
    return near < value ? near + 1.0f : near;
}
""",
    ("Truncated",),
)
register(
    "Rounded",
    """
// To the nearest integer, ties to even.
__aicore__ inline float Rounded(float value)
{
    const float near = Truncated(value);
    const float rest = Copysign(value - near, 1.0f);
    if (!(rest >= 0.5f)) {
        return near;
    }
    const bool odd = (static_cast<int32_t>(near) & 1) != 0;
    return rest > 0.5f || odd ? near + Copysign(1.0f, value) : near;
}
""",
    ("Truncated", "Copysign"),
)
register(
    "Greater",
    """
// NaN where one of them is; of equals the second.
__aicore__ inline float Greater(float a, float b) { return a > b || a != a ? a : b; }
""",
)
register(
    "Lesser",
    """
// NaN where one of them is; of equals the second.
__aicore__ inline float Lesser(float a, float b) { return a < b || a != a ? a : b; }
""",
)
register(
    "NextAfter",
    """
__aicore__ inline float NextAfter(float from, float to)
{
    if (from != from || to != to) {
        return from + to;
    }
    if (from == to) {
        return to;
    }
    if (from == 0.0f) {
        return Copysign(FromBits(1u), to);
    }
    const bool away = (from < to) == (from > 0.0f);
    return FromBits(ToBits(from) + (away ? 1u : 0xffffffffu));
}
""",
    ("Copysign",),
)
register(
    "FloatRemainder",
    """
// The exact remainder of the sign of the dividend, bit by bit of the quotient.
__aicore__ inline float FloatRemainder(float a, float b)
{
    const uint32_t sign = ToBits(a) & 0x80000000u;
    const uint32_t x = ToBits(a) & 0x7fffffffu;
    const uint32_t y = ToBits(b) & 0x7fffffffu;
    if (x >= 0x7f800000u || y == 0 || y > 0x7f800000u) {
        return FromBits(0x7fc00000u);
    }
    if (x < y) {
        return a;
    }
    // Numbers are integers times a power of two; a denormal has the exponent 1 and no leading bit.
    const int32_t ex = static_cast<int32_t>(x >> 23 != 0 ? x >> 23 : 1);
    const int32_t ey = static_cast<int32_t>(y >> 23 != 0 ? y >> 23 : 1);
    uint64_t rest = x >> 23 != 0 ? (x & 0x7fffffu) | 0x800000u : x;
    const uint64_t divisor = y >> 23 != 0 ? (y & 0x7fffffu) | 0x800000u : y;
    for (int32_t k = ex; k > ey; --k) {
        rest = (rest % divisor) << 1;
    }
    uint32_t whole = static_cast<uint32_t>(rest % divisor);
    if (whole == 0) {
        return FromBits(sign);
    }
    int32_t exponent = ey;
    for (; whole < 0x800000u && exponent > 1; --exponent) {
        whole <<= 1;
    }
    if (whole >= 0x800000u) {
        whole += (static_cast<uint32_t>(exponent) << 23) - 0x800000u;
    }
    return FromBits(sign | whole);
}
""",
    ("FromBits", "ToBits"),
)
register(
    "FloatFloorRemainder",
    """
// Of the sign of the divisor (Python's %).
__aicore__ inline float FloatFloorRemainder(float a, float b)
{
    const float rest = FloatRemainder(a, b);
    if (b == 0.0f) {
        return rest;
    }
    if (rest == 0.0f) {
        return Copysign(0.0f, b);
    }
    return (b < 0.0f) != (rest < 0.0f) ? rest + b : rest;
}
""",
    ("FloatRemainder", "Copysign"),
)
register(
    "FloatFloorDivide",
    """
// Python's //, as NumPy computes it.
__aicore__ inline float FloatFloorDivide(float a, float b)
{
    if (b == 0.0f) {
        return a / b;
    }
    const float rest = FloatRemainder(a, b);
    float quotient = (a - rest) / b;
    if (rest != 0.0f && (b < 0.0f) != (rest < 0.0f)) {
        quotient -= 1.0f;
    }
    if (quotient == 0.0f) {
        return Copysign(0.0f, a / b);
    }
    const float whole = Floored(quotient);
    return quotient - whole > 0.5f ? whole + 1.0f : whole;
}
""",
    ("FloatRemainder", "Floored", "Copysign"),
)
