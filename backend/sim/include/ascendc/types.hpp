// Element types, positions, pipes, events and the macros of the language, for dav-2201.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sim/core.hpp"

#define __NPU_ARCH__ 2201
#define __CCE_AICORE__ 220
#define __DAV_C220__ 1

#define __global__
#define __aicore__
#define __host_aicore__
#define __vector__
#define __cube__
#define __mix__(cube, vector)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __simd_vf__
#define __inout_pipe__(pipe)
#define __in_pipe__(pipe)
#define __out_pipe__(pipe)
#define __sync_alias__
#define __sync_noalias__
#define __check_sync_alias__
#ifndef __forceinline__
#define __forceinline__ inline
#endif
#define GM_ADDR uint8_t*
#define KERNEL_TASK_TYPE_DEFAULT(type)
#define KERNEL_TASK_TYPE(key, type)
#define TILING_KEY_IS(key) false
#define ASCEND_IS_AIV (::sim::is_vector())
#define ASCEND_IS_AIC (::sim::is_cube())
#define ASCEND_IS_NOT_AIV (!::sim::is_vector())
#define ASCEND_IS_NOT_AIC (!::sim::is_cube())

namespace sim {

// float16 and bfloat16 bits ↔ float32, rounding to nearest, ties to even.
inline float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t magnitude = bits & 0x7fffU;
    uint32_t out;
    if (magnitude >= 0x7c00U) {
        out = 0x7f800000U | ((magnitude & 0x3ffU) << 13);
    } else if (magnitude >= 0x400U) {
        out = (magnitude << 13) + (112U << 23);
    } else {  // a denormal is a multiple of 2**-24
        const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8F;
        std::memcpy(&out, &value, 4);
    }
    out |= sign;
    float value;
    std::memcpy(&value, &out, 4);
    return value;
}

inline uint16_t float_to_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = (bits >> 16) & 0x8000U;
    bits &= 0x7fffffffU;
    if (bits > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U | ((bits >> 13) & 0x3ffU));
    if (bits >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65536 and more
    if (bits < 0x38800000U) {                                               // below 2**-14: a denormal
        float magnitude;
        std::memcpy(&magnitude, &bits, 4);
        magnitude += 0.5F;  // its last bit is now worth 2**-24: the addition rounds as wanted
        uint32_t sum;
        std::memcpy(&sum, &magnitude, 4);
        return static_cast<uint16_t>(sign | (sum - 0x3f000000U));
    }
    return static_cast<uint16_t>(sign | ((bits + 0xfffU + ((bits >> 13) & 1U) - (112U << 23)) >> 13));
}

inline float bfloat16_to_float(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

inline uint16_t float_to_bfloat16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Rounds once: through float32 with the last bit made odd where that lost something.
inline float odd_float(double value) {
    const float nearest = static_cast<float>(value);
    const double back = nearest;
    if (back == value || back != back) return nearest;
    uint32_t bits;
    std::memcpy(&bits, &nearest, 4);
    if ((bits & 0x7fffffffU) >= 0x7f800000U || (bits & 1U)) return nearest;
    // The neighbour on the value's other side is odd.
    bits = (back > value) == (nearest > 0) ? bits - 1 : bits + 1;
    float odd;
    std::memcpy(&odd, &bits, 4);
    return odd;
}

template <uint16_t (*From)(float), float (*To)(uint16_t)>
struct Narrow {
    uint16_t bits;

    Narrow() = default;
    Narrow(float value) : bits(From(value)) {}
    Narrow(double value) : bits(From(odd_float(value))) {}
    template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
    Narrow(T value) : bits(From(odd_float(static_cast<double>(value)))) {}

    static Narrow from_bits(uint16_t bits) {
        Narrow value;
        value.bits = bits;
        return value;
    }

    operator float() const { return To(bits); }

    Narrow operator-() const { return from_bits(static_cast<uint16_t>(bits ^ 0x8000U)); }
    Narrow operator+() const { return *this; }
    Narrow& operator+=(Narrow other) { return *this = Narrow(To(bits) + To(other.bits)); }
    Narrow& operator-=(Narrow other) { return *this = Narrow(To(bits) - To(other.bits)); }
    Narrow& operator*=(Narrow other) { return *this = Narrow(To(bits) * To(other.bits)); }
    Narrow& operator/=(Narrow other) { return *this = Narrow(To(bits) / To(other.bits)); }
    Narrow& operator++() { return *this += Narrow(1.0F); }
    Narrow& operator--() { return *this -= Narrow(1.0F); }
};

template <typename T>
struct is_narrow : std::false_type {};
template <uint16_t (*From)(float), float (*To)(uint16_t)>
struct is_narrow<Narrow<From, To>> : std::true_type {};

// Of two operands one of which is narrow: with a float or double the wider type wins, as for built-in types.
template <typename A, typename B>
struct Wider {
    using type = std::conditional_t<
        std::is_floating_point_v<A>, A,
        std::conditional_t<std::is_floating_point_v<B>, B, std::conditional_t<is_narrow<A>::value, A, B>>>;
};

template <typename A, typename B>
using Mixed = std::enable_if_t<(is_narrow<A>::value && (std::is_same_v<A, B> || std::is_arithmetic_v<B>)) ||
                                   (is_narrow<B>::value && std::is_arithmetic_v<A>),
                               typename Wider<A, B>::type>;

#define SIM_ARITHMETIC(op)                                                              \
    template <typename A, typename B>                                                   \
    inline Mixed<A, B> operator op(const A& a, const B& b) {                            \
        using Result = Mixed<A, B>;                                                     \
        using Wide = std::conditional_t<std::is_same_v<Result, double>, double, float>; \
        return Result(static_cast<Wide>(a) op static_cast<Wide>(b));                    \
    }
SIM_ARITHMETIC(+)
SIM_ARITHMETIC(-)
SIM_ARITHMETIC(*)
SIM_ARITHMETIC(/)
#undef SIM_ARITHMETIC

#define SIM_COMPARISON(op)                                       \
    template <typename A, typename B, typename = Mixed<A, B>>    \
    inline bool operator op(const A& a, const B& b) {            \
        return static_cast<double>(a) op static_cast<double>(b); \
    }
SIM_COMPARISON(==)
SIM_COMPARISON(!=)
SIM_COMPARISON(<)
SIM_COMPARISON(<=)
SIM_COMPARISON(>)
SIM_COMPARISON(>=)
#undef SIM_COMPARISON

}  // namespace sim

using half = sim::Narrow<sim::float_to_half, sim::half_to_float>;
using bfloat16_t = sim::Narrow<sim::float_to_bfloat16, sim::bfloat16_to_float>;
using float16_t = half;

enum pipe_t {
    PIPE_S,
    PIPE_V,
    PIPE_M,
    PIPE_MTE1,
    PIPE_MTE2,
    PIPE_MTE3,
    PIPE_ALL,
    PIPE_MTE4,
    PIPE_MTE5,
    PIPE_V2,
    PIPE_FIX
};
enum event_t : int32_t {
    EVENT_ID0,
    EVENT_ID1,
    EVENT_ID2,
    EVENT_ID3,
    EVENT_ID4,
    EVENT_ID5,
    EVENT_ID6,
    EVENT_ID7
};
enum mem_dsb_t { DSB_ALL, DSB_DDR, DSB_UB, DSB_SEQ };
enum cache_line_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum dcci_dst_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

namespace AscendC {

using TEventID = int8_t;

struct int4b_t {  // two to a byte
    int8_t storage;
    int4b_t() = default;
    int4b_t(int value) : storage(static_cast<int8_t>(value)) {}
    operator int8_t() const { return storage; }
};

enum class TPosition : uint8_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM = VECCALC,
    SPM,
    SHM = SPM,
    TSCM,
    C2PIPE2GM,
    C2PIPE2LOCAL,
    MAX
};
using QuePosition = TPosition;

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

enum class HardEvent : uint8_t {
    MTE2_MTE1,
    MTE1_MTE2,
    MTE1_M,
    M_MTE1,
    MTE2_V,
    V_MTE2,
    MTE3_V,
    V_MTE3,
    M_V,
    V_M,
    V_V,
    MTE3_MTE1,
    MTE1_MTE3,
    MTE1_V,
    MTE2_M,
    M_MTE2,
    V_MTE1,
    M_FIX,
    FIX_M,
    MTE3_MTE2,
    MTE2_MTE3,
    S_V,
    V_S,
    S_MTE2,
    MTE2_S,
    S_MTE3,
    MTE3_S,
    MTE2_FIX,
    FIX_MTE2,
    FIX_S,
    M_S,
    FIX_MTE3,
    MTE1_FIX,
    FIX_MTE1,
    FIX_FIX,
    MAX
};

enum class RoundMode : uint8_t {
    CAST_NONE,
    CAST_RINT,
    CAST_FLOOR,
    CAST_CEIL,
    CAST_ROUND,
    CAST_TRUNC,
    CAST_ODD,
    CAST_HYBRID
};
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class MaskMode : uint8_t { NORMAL, COUNTER };
enum class CacheMode : uint8_t {
    CACHE_MODE_DISABLE,
    CACHE_MODE_NORMAL,
    CACHE_MODE_LAST,
    CACHE_MODE_PERSISTENT
};
enum class CacheRwMode : uint8_t { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class MemDsbT : uint8_t { ALL, DDR, UB, SEQ };
enum class DataFormat : uint8_t { ND, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };
enum class AtomicDtype : uint8_t {
    ATOMIC_NONE,
    ATOMIC_F32,
    ATOMIC_F16,
    ATOMIC_S16,
    ATOMIC_S32,
    ATOMIC_S8,
    ATOMIC_BF16
};
enum class AtomicOp : uint8_t { ATOMIC_SUM };
enum KernelMetaType : uint8_t {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2
};

constexpr uint32_t ONE_BLK_SIZE = 32;
constexpr uint32_t DEFAULT_BLK_NUM = 8;
constexpr uint32_t DEFAULT_C0_SIZE = 32;
constexpr int32_t DEFAULT_BLK_STRIDE = 1;
constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;
constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256;
constexpr int32_t MASK_PLACEHOLDER = 0;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};
constexpr int32_t K_MAX_DIM = 8;
constexpr int32_t K_MAX_SHAPE_DIM = 8;
constexpr TEventID INVALID_TEVENTID = -1;

template <typename A, typename B>
struct IsSameType : std::is_same<A, B> {};
template <typename A, typename B>
inline constexpr bool IsSameTypeV = std::is_same_v<A, B>;
template <bool condition, typename A, typename B>
struct Conditional : std::conditional<condition, A, B> {};

namespace Std {
using std::conditional;
using std::conditional_t;
using std::enable_if;
using std::enable_if_t;
using std::false_type;
using std::integral_constant;
using std::is_same;
using std::is_same_v;
using std::true_type;
}  // namespace Std

template <typename T, typename U>
constexpr T DivCeil(T value, U by) {
    return static_cast<T>((value + by - 1) / by);
}
constexpr int32_t CeilDivision(int32_t value, int32_t by) { return by == 0 ? 0 : (value + by - 1) / by; }
template <typename T, typename U>
constexpr T AlignUp(T value, U to) {
    return static_cast<T>((value + to - 1) / to * to);
}

template <typename T>
inline constexpr bool always_false = false;

// The Dtype of an element type.
template <typename T>
constexpr sim::Dtype dtype_of() {
    using sim::Dtype;
    if constexpr (std::is_same_v<T, half>)
        return Dtype::F16;
    else if constexpr (std::is_same_v<T, bfloat16_t>)
        return Dtype::BF16;
    else if constexpr (std::is_same_v<T, float>)
        return Dtype::F32;
    else if constexpr (std::is_same_v<T, double>)
        return Dtype::F64;
    else if constexpr (std::is_same_v<T, int4b_t>)
        return Dtype::I4;
    else if constexpr (std::is_same_v<T, bool>)
        return Dtype::U8;
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
        return sizeof(T) == 1   ? Dtype::I8
               : sizeof(T) == 2 ? Dtype::I16
               : sizeof(T) == 4 ? Dtype::I32
                                : Dtype::I64;
    else if constexpr (std::is_integral_v<T>)
        return sizeof(T) == 1   ? Dtype::U8
               : sizeof(T) == 2 ? Dtype::U16
               : sizeof(T) == 4 ? Dtype::U32
                                : Dtype::U64;
    else
        static_assert(always_false<T>, "not the type of a tensor's elements");
}

// Bytes of `count` elements.
template <typename T>
constexpr uint64_t bytes_of(uint64_t count) {
    if constexpr (std::is_same_v<T, int4b_t>)
        return (count + 1) / 2;
    else
        return count * sizeof(T);
}

constexpr sim::Space space_of(TPosition position) {
    switch (position) {
        case TPosition::GM:
            return sim::Space::GM;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::TSCM:
        case TPosition::SPM:
            return sim::Space::L1;
        case TPosition::A2:
            return sim::Space::L0A;
        case TPosition::B2:
            return sim::Space::L0B;
        case TPosition::CO1:
            return sim::Space::L0C;
        case TPosition::C2:
            return sim::Space::BT;
        case TPosition::C2PIPE2GM:
        case TPosition::C2PIPE2LOCAL:
            return sim::Space::FB;
        default:
            return sim::Space::UB;
    }
}

constexpr Hardware GetPhyType(TPosition position) {
    switch (space_of(position)) {
        case sim::Space::GM:
            return Hardware::GM;
        case sim::Space::L1:
            return Hardware::L1;
        case sim::Space::L0A:
            return Hardware::L0A;
        case sim::Space::L0B:
            return Hardware::L0B;
        case sim::Space::L0C:
            return Hardware::L0C;
        case sim::Space::BT:
            return Hardware::BIAS;
        case sim::Space::FB:
            return Hardware::FIXBUF;
        default:
            return Hardware::UB;
    }
}

constexpr TPosition default_position(Hardware hardware) {
    switch (hardware) {
        case Hardware::L1:
            return TPosition::A1;
        case Hardware::L0A:
            return TPosition::A2;
        case Hardware::L0B:
            return TPosition::B2;
        case Hardware::L0C:
            return TPosition::CO1;
        case Hardware::BIAS:
            return TPosition::C2;
        case Hardware::FIXBUF:
            return TPosition::C2PIPE2GM;
        case Hardware::GM:
            return TPosition::GM;
        default:
            return TPosition::VECCALC;
    }
}

constexpr sim::Pipe pipe_of(pipe_t pipe) {
    switch (pipe) {
        case PIPE_S:
            return sim::Pipe::S;
        case PIPE_V:
            return sim::Pipe::V;
        case PIPE_M:
            return sim::Pipe::M;
        case PIPE_MTE1:
            return sim::Pipe::MTE1;
        case PIPE_MTE2:
            return sim::Pipe::MTE2;
        case PIPE_MTE3:
            return sim::Pipe::MTE3;
        case PIPE_FIX:
            return sim::Pipe::FIX;
        default:
            return sim::Pipe::ALL;
    }
}

struct PipePair {
    sim::Pipe from, to;
};

constexpr PipePair pipes_of(HardEvent event) {
    using sim::Pipe;
    constexpr PipePair table[] = {
        {Pipe::MTE2, Pipe::MTE1}, {Pipe::MTE1, Pipe::MTE2}, {Pipe::MTE1, Pipe::M}, {Pipe::M, Pipe::MTE1},
        {Pipe::MTE2, Pipe::V},    {Pipe::V, Pipe::MTE2},    {Pipe::MTE3, Pipe::V}, {Pipe::V, Pipe::MTE3},
        {Pipe::M, Pipe::V},       {Pipe::V, Pipe::M},       {Pipe::V, Pipe::V},    {Pipe::MTE3, Pipe::MTE1},
        {Pipe::MTE1, Pipe::MTE3}, {Pipe::MTE1, Pipe::V},    {Pipe::MTE2, Pipe::M}, {Pipe::M, Pipe::MTE2},
        {Pipe::V, Pipe::MTE1},    {Pipe::M, Pipe::FIX},     {Pipe::FIX, Pipe::M},  {Pipe::MTE3, Pipe::MTE2},
        {Pipe::MTE2, Pipe::MTE3}, {Pipe::S, Pipe::V},       {Pipe::V, Pipe::S},    {Pipe::S, Pipe::MTE2},
        {Pipe::MTE2, Pipe::S},    {Pipe::S, Pipe::MTE3},    {Pipe::MTE3, Pipe::S}, {Pipe::MTE2, Pipe::FIX},
        {Pipe::FIX, Pipe::MTE2},  {Pipe::FIX, Pipe::S},     {Pipe::M, Pipe::S},    {Pipe::FIX, Pipe::MTE3},
        {Pipe::MTE1, Pipe::FIX},  {Pipe::FIX, Pipe::MTE1},  {Pipe::FIX, Pipe::FIX}};
    return table[static_cast<int>(event)];
}

}  // namespace AscendC
