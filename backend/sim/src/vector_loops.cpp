#include "vector_loops.hpp"

#include <cmath>
#include <type_traits>

#include "ascendc/types.hpp"
#include "narrow.hpp"
#include "vector_math.hpp"

namespace sim {

namespace {

// dst may be a source: elements are read before they are written, hence no dependence between iterations.
template <typename T, typename F>
inline void each(T* dst, const T* src0, const T* src1, int64_t count, F f) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) dst[i] = f(dst[i], src0[i], src1[i]);
}

template <typename T>
T scalar_of(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

float half_scalar(uint64_t bits) { return half_to_float(static_cast<uint16_t>(bits)); }

// F is called with (dst, src0, src1, scalar); float16 goes through float32 piece by piece.
template <typename F, bool reads_dst = false, bool two = true>
void float_loop(const Operands& operands, int64_t count) {
    const auto s = scalar_of<float>(operands.scalar);
    auto* dst = static_cast<float*>(operands.dst);
    const auto* a = static_cast<const float*>(operands.src0);
    const auto* b = two ? static_cast<const float*>(operands.src1) : a;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) dst[i] = F::of(reads_dst ? dst[i] : 0.0F, a[i], two ? b[i] : 0.0F, s);
}

template <typename F, bool reads_dst = false, bool two = true>
void half_loop(const Operands& operands, int64_t count) {
    const float s = half_scalar(operands.scalar);
    auto* dst = static_cast<uint16_t*>(operands.dst);
    const auto* a = static_cast<const uint16_t*>(operands.src0);
    const auto* b = static_cast<const uint16_t*>(operands.src1);
    float wide_dst[piece], wide_a[piece], wide_b[piece];
    for (int64_t start = 0; start < count; start += piece) {
        const int64_t n = count - start < piece ? count - start : piece;
        if (reads_dst) widen_half(wide_dst, dst + start, n);
        widen_half(wide_a, a + start, n);
        if (two) widen_half(wide_b, b + start, n);
        for (int64_t i = 0; i < n; ++i)
            wide_a[i] = F::narrow(reads_dst ? wide_dst[i] : 0.0F, wide_a[i], two ? wide_b[i] : 0.0F, s);
        narrow_half(dst + start, wide_a, n);
    }
}

// `of` is rounded to float32. `narrow` may be rounded to float16 once more: it is exact, or rounded to
// float32 by an operation for which rounding twice does no harm (+ - * / and square root), or has an odd last
// bit.
#define SIM_OPERATION(name, expression)                                                               \
    struct name {                                                                                     \
        static float of([[maybe_unused]] float d, [[maybe_unused]] float a, [[maybe_unused]] float b, \
                        [[maybe_unused]] float s) {                                                   \
            return expression;                                                                        \
        }                                                                                             \
        static float narrow(float d, float a, float b, float s) { return of(d, a, b, s); }            \
    };
SIM_OPERATION(FloatAdd, a + b)
SIM_OPERATION(FloatSub, a - b)
SIM_OPERATION(FloatMul, a* b)
SIM_OPERATION(FloatDiv, a / b)
SIM_OPERATION(FloatMax, maximum(a, b))
SIM_OPERATION(FloatMin, minimum(a, b))
SIM_OPERATION(FloatAddRelu, positive_part(a + b))
SIM_OPERATION(FloatSubRelu, positive_part(a - b))
SIM_OPERATION(FloatAdds, a + s)
SIM_OPERATION(FloatMuls, a* s)
SIM_OPERATION(FloatMaxs, maximum(a, s))
SIM_OPERATION(FloatMins, minimum(a, s))
SIM_OPERATION(FloatLeakyRelu, a >= 0 ? a : a * s)
SIM_OPERATION(FloatAbs, std::fabs(a))
SIM_OPERATION(FloatReciprocal, 1.0F / a)
SIM_OPERATION(FloatSqrt, std::sqrt(a))
SIM_OPERATION(FloatRelu, positive_part(a))
#undef SIM_OPERATION

// x y + z rounded once: the product of floats is exact in float64, that of float16s in float32.
struct Fused {
    static float of(float x, float y, float z) {
        return static_cast<float>(odd_sum(static_cast<double>(x) * static_cast<double>(y), z));
    }
    static float narrow(float x, float y, float z) {
        return to_odd(odd_sum(static_cast<double>(x) * static_cast<double>(y), z));
    }
};
struct FloatMulAddDst {
    static float of(float d, float a, float b, float) { return Fused::of(a, b, d); }
    static float narrow(float d, float a, float b, float) { return Fused::narrow(a, b, d); }
};
struct FloatFusedMulAdd {
    static float of(float d, float a, float b, float) { return Fused::of(a, d, b); }
    static float narrow(float d, float a, float b, float) { return Fused::narrow(a, d, b); }
};
struct FloatFusedMulAddRelu {
    static float of(float d, float a, float b, float) { return positive_part(Fused::of(a, d, b)); }
    static float narrow(float d, float a, float b, float) { return positive_part(Fused::narrow(a, d, b)); }
};
struct FloatAxpy {
    static float of(float d, float a, float, float s) { return Fused::of(a, s, d); }
    static float narrow(float d, float a, float, float s) { return Fused::narrow(a, s, d); }
};

// float32 destination of float16 sources: dst += src0 * (src1 or a scalar).
template <bool two>
void widening_loop(const Operands& operands, int64_t count) {
    const float s = half_scalar(operands.scalar);
    auto* dst = static_cast<float*>(operands.dst);
    const auto* a = static_cast<const uint16_t*>(operands.src0);
    const auto* b = static_cast<const uint16_t*>(operands.src1);
    float wide_a[piece], wide_b[piece];
    for (int64_t start = 0; start < count; start += piece) {
        const int64_t n = count - start < piece ? count - start : piece;
        widen_half(wide_a, a + start, n);
        if (two) widen_half(wide_b, b + start, n);
        for (int64_t i = 0; i < n; ++i) dst[start + i] += wide_a[i] * (two ? wide_b[i] : s);
    }
}

void deq_relu_loop(const Operands& operands, int64_t count) {
    const double scale = half_scalar(operands.scalar);
    auto* dst = static_cast<uint16_t*>(operands.dst);
    const auto* a = static_cast<const uint32_t*>(operands.src0);
    const auto* b = static_cast<const uint32_t*>(operands.src1);
    for (int64_t i = 0; i < count; ++i) {
        const double sum = static_cast<int32_t>(a[i] + b[i]);
        dst[i] = float_to_half(positive_part(to_odd(sum * scale)));
    }
}

// Exp, Ln and Rsqrt through float64.
enum class Smooth { Exp, Ln, Rsqrt };

template <Smooth operation>
inline double smooth(double x) {
    if (operation == Smooth::Exp) return exponential(x);
    if (operation == Smooth::Ln) return logarithm(x);
    return 1.0 / std::sqrt(x);
}

SIM_CLONES void exp_floats(float* dst, const float* src, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) dst[i] = static_cast<float>(smooth<Smooth::Exp>(src[i]));
}
SIM_CLONES void ln_floats(float* dst, const float* src, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) dst[i] = static_cast<float>(smooth<Smooth::Ln>(src[i]));
}
SIM_CLONES void rsqrt_floats(float* dst, const float* src, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) dst[i] = static_cast<float>(smooth<Smooth::Rsqrt>(src[i]));
}

template <Smooth operation>
void smooth_floats(const Operands& operands, int64_t count) {
    auto* dst = static_cast<float*>(operands.dst);
    const auto* src = static_cast<const float*>(operands.src0);
    if (operation == Smooth::Exp)
        exp_floats(dst, src, count);
    else if (operation == Smooth::Ln)
        ln_floats(dst, src, count);
    else
        rsqrt_floats(dst, src, count);
}

template <Smooth operation>
void smooth_halves(const Operands& operands, int64_t count) {
    auto* dst = static_cast<uint16_t*>(operands.dst);
    const auto* src = static_cast<const uint16_t*>(operands.src0);
    float wide[piece];
    for (int64_t start = 0; start < count; start += piece) {
        const int64_t n = count - start < piece ? count - start : piece;
        widen_half(wide, src + start, n);
        for (int64_t i = 0; i < n; ++i) wide[i] = to_odd(smooth<operation>(wide[i]));
        narrow_half(dst + start, wide, n);
    }
}

// Integers, as unsigned numbers where they wrap.
template <typename T, Binary operation>
void integer_loop(const Operands& operands, int64_t count) {
    using U = std::make_unsigned_t<T>;
    each(static_cast<T*>(operands.dst), static_cast<const T*>(operands.src0),
         static_cast<const T*>(operands.src1), count, [](T, T a, T b) -> T {
             const U x = static_cast<U>(a), y = static_cast<U>(b);
             switch (operation) {
                 case Binary::Add:
                     return static_cast<T>(x + y);
                 case Binary::Sub:
                     return static_cast<T>(x - y);
                 case Binary::Mul:
                     return static_cast<T>(static_cast<U>(uint64_t{x} * y));
                 case Binary::Max:
                     return a > b ? a : b;
                 case Binary::Min:
                     return a < b ? a : b;
                 case Binary::And:
                     return static_cast<T>(x & y);
                 case Binary::Or:
                     return static_cast<T>(x | y);
                 case Binary::AddRelu: {
                     const T sum = static_cast<T>(x + y);
                     return sum > 0 ? sum : T{0};
                 }
                 default: {
                     const T difference = static_cast<T>(x - y);
                     return difference > 0 ? difference : T{0};
                 }
             }
         });
}

template <typename T, Scalar operation>
void integer_scalar_loop(const Operands& operands, int64_t count) {
    using U = std::make_unsigned_t<T>;
    const T s = scalar_of<T>(operands.scalar);
    constexpr int width = 8 * sizeof(T);
    const int shift = static_cast<int>(s);
    const auto* src = static_cast<const T*>(operands.src0);
    each(static_cast<T*>(operands.dst), src, src, count, [s, shift](T, T a, T) -> T {
        const U x = static_cast<U>(a), y = static_cast<U>(s);
        switch (operation) {
            case Scalar::Adds:
                return static_cast<T>(x + y);
            case Scalar::Muls:
                return static_cast<T>(static_cast<U>(uint64_t{x} * y));
            case Scalar::Maxs:
                return a > s ? a : s;
            case Scalar::Mins:
                return a < s ? a : s;
            case Scalar::ShiftLeft:
                return shift >= width ? T{0} : static_cast<T>(x << shift);
            case Scalar::ShiftRight:
                return static_cast<T>(int64_t{a} >> (shift >= width ? width : shift));
            default:  // rounded: half of the last bit that stays is added first
                return static_cast<T>(shift == 0 ? int64_t{a}
                                                 : (int64_t{a} + (int64_t{1} << (shift - 1))) >> shift);
        }
    });
}

template <typename T>
void integer_relu(const Operands& operands, int64_t count) {
    const auto* src = static_cast<const T*>(operands.src0);
    each(static_cast<T*>(operands.dst), src, src, count, [](T, T a, T) { return a > 0 ? a : T{0}; });
}

void integer_not(const Operands& operands, int64_t count) {
    const auto* src = static_cast<const uint16_t*>(operands.src0);
    each(static_cast<uint16_t*>(operands.dst), src, src, count,
         [](uint16_t, uint16_t a, uint16_t) { return static_cast<uint16_t>(~a); });
}

// A loop per dtype; nothing where the instruction does not take it.
struct Loops {
    Loop half = nullptr, single = nullptr, i16 = nullptr, i32 = nullptr, u16 = nullptr, u32 = nullptr;

    Loop of(Dtype dtype) const {
        switch (dtype) {
            case Dtype::F16:
                return half;
            case Dtype::F32:
                return single;
            case Dtype::I16:
                return i16;
            case Dtype::I32:
                return i32;
            case Dtype::U16:
                return u16;
            case Dtype::U32:
                return u32;
            default:
                return nullptr;
        }
    }
};

template <typename F, bool reads_dst = false>
constexpr Loops floats() {
    return {half_loop<F, reads_dst>, float_loop<F, reads_dst>};
}
template <typename F, Binary operation>
constexpr Loops numbers() {
    return {half_loop<F>, float_loop<F>, integer_loop<int16_t, operation>, integer_loop<int32_t, operation>};
}
template <typename F, Scalar operation>
constexpr Loops scaled() {
    return {half_loop<F, false, false>, float_loop<F, false, false>, integer_scalar_loop<int16_t, operation>,
            integer_scalar_loop<int32_t, operation>};
}
template <Binary operation>
constexpr Loops bits() {
    return {nullptr, nullptr, integer_loop<int16_t, operation>, nullptr, integer_loop<uint16_t, operation>};
}
template <Scalar operation, bool unsigned_too = true>
constexpr Loops shifts() {
    return {nullptr,
            nullptr,
            integer_scalar_loop<int16_t, operation>,
            integer_scalar_loop<int32_t, operation>,
            unsigned_too ? integer_scalar_loop<uint16_t, operation> : nullptr,
            unsigned_too ? integer_scalar_loop<uint32_t, operation> : nullptr};
}

Loops binary_loops(Binary operation) {
    switch (operation) {
        case Binary::Add:
            return numbers<FloatAdd, Binary::Add>();
        case Binary::Sub:
            return numbers<FloatSub, Binary::Sub>();
        case Binary::Mul:
            return numbers<FloatMul, Binary::Mul>();
        case Binary::Max:
            return numbers<FloatMax, Binary::Max>();
        case Binary::Min:
            return numbers<FloatMin, Binary::Min>();
        case Binary::Div:
            return floats<FloatDiv>();
        case Binary::And:
            return bits<Binary::And>();
        case Binary::Or:
            return bits<Binary::Or>();
        case Binary::AddRelu:
            return {half_loop<FloatAddRelu>, float_loop<FloatAddRelu>,
                    integer_loop<int16_t, Binary::AddRelu>};
        case Binary::SubRelu:
            return {half_loop<FloatSubRelu>, float_loop<FloatSubRelu>,
                    integer_loop<int16_t, Binary::SubRelu>};
        case Binary::MulAddDst:
            return floats<FloatMulAddDst, true>();
        case Binary::FusedMulAdd:
            return floats<FloatFusedMulAdd, true>();
        case Binary::FusedMulAddRelu:
            return floats<FloatFusedMulAddRelu, true>();
        default:
            return {};
    }
}

Loops scalar_loops(Scalar operation) {
    switch (operation) {
        case Scalar::Adds:
            return scaled<FloatAdds, Scalar::Adds>();
        case Scalar::Muls:
            return scaled<FloatMuls, Scalar::Muls>();
        case Scalar::Maxs:
            return scaled<FloatMaxs, Scalar::Maxs>();
        case Scalar::Mins:
            return scaled<FloatMins, Scalar::Mins>();
        case Scalar::LeakyRelu:
            return {half_loop<FloatLeakyRelu, false, false>, float_loop<FloatLeakyRelu, false, false>};
        case Scalar::Axpy:
            return {half_loop<FloatAxpy, true, false>, float_loop<FloatAxpy, true, false>};
        case Scalar::ShiftLeft:
            return shifts<Scalar::ShiftLeft>();
        case Scalar::ShiftRight:
            return shifts<Scalar::ShiftRight>();
        case Scalar::ShiftRightRound:
            return shifts<Scalar::ShiftRightRound, false>();
    }
    return {};
}

Loops unary_loops(Unary operation) {
    switch (operation) {
        case Unary::Exp:
            return {smooth_halves<Smooth::Exp>, smooth_floats<Smooth::Exp>};
        case Unary::Ln:
            return {smooth_halves<Smooth::Ln>, smooth_floats<Smooth::Ln>};
        case Unary::Rsqrt:
            return {smooth_halves<Smooth::Rsqrt>, smooth_floats<Smooth::Rsqrt>};
        case Unary::Abs:
            return {half_loop<FloatAbs, false, false>, float_loop<FloatAbs, false, false>};
        case Unary::Reciprocal:
            return {half_loop<FloatReciprocal, false, false>, float_loop<FloatReciprocal, false, false>};
        case Unary::Sqrt:
            return {half_loop<FloatSqrt, false, false>, float_loop<FloatSqrt, false, false>};
        case Unary::Relu:
            return {half_loop<FloatRelu, false, false>, float_loop<FloatRelu, false, false>, nullptr,
                    integer_relu<int32_t>};
        case Unary::Not:
            return {nullptr, nullptr, integer_not, nullptr, integer_not};
    }
    return {};
}

}  // namespace

Loop binary_loop(Binary operation, Dtype dst, Dtype src) {
    if (operation == Binary::MulAddDst && dst == Dtype::F32 && src == Dtype::F16) return widening_loop<true>;
    if (operation == Binary::AddDeqRelu)
        return dst == Dtype::F16 && src == Dtype::I32 ? deq_relu_loop : nullptr;
    return dst == src ? binary_loops(operation).of(src) : nullptr;
}

Loop scalar_loop(Scalar operation, Dtype dst, Dtype src) {
    if (operation == Scalar::Axpy && dst == Dtype::F32 && src == Dtype::F16) return widening_loop<false>;
    return dst == src ? scalar_loops(operation).of(src) : nullptr;
}

Loop unary_loop(Unary operation, Dtype dtype) { return unary_loops(operation).of(dtype); }

}  // namespace sim
