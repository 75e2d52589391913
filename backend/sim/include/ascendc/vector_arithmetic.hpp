// Elementwise instructions of the vector core.
#pragma once

#include "vector_params.hpp"

namespace AscendC {

// Each instruction has three forms: a mask as bits, a mask as a number of elements, and the first `count`
// elements.
#define SIM_BINARY(name, operation, types)                                                                 \
    template <typename T, bool isSetMask = true>                                                           \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,           \
              const uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams& repeatParams,     \
              sim::Where where = sim::Where::here()) {                                                     \
        static_assert(types, #name " does not take this type on dav-2201");                                \
        detail::binary(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),         \
                       sim::Binary::operation, dst, src0, src1, repeatParams);                             \
    }                                                                                                      \
    template <typename T, bool isSetMask = true>                                                           \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,           \
              uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams& repeatParams,             \
              sim::Where where = sim::Where::here()) {                                                     \
        static_assert(types, #name " does not take this type on dav-2201");                                \
        detail::binary(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),         \
                       sim::Binary::operation, dst, src0, src1, repeatParams);                             \
    }                                                                                                      \
    template <typename T>                                                                                  \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,           \
              const int32_t& count, sim::Where where = sim::Where::here()) {                               \
        static_assert(types, #name " does not take this type on dav-2201");                                \
        detail::binary(detail::counted(#name, count, where), sim::Binary::operation, dst, src0, src1, {}); \
    }

#define SIM_UNARY(name, operation, types)                                                                    \
    template <typename T, bool isSetMask = true>                                                             \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],                   \
              const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,                               \
              sim::Where where = sim::Where::here()) {                                                       \
        static_assert(types, #name " does not take this type on dav-2201");                                  \
        detail::unary(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),            \
                      sim::Unary::operation, dst, src, repeatParams);                                        \
    }                                                                                                        \
    template <typename T, bool isSetMask = true>                                                             \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint8_t repeatTime, \
              const UnaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {                \
        static_assert(types, #name " does not take this type on dav-2201");                                  \
        detail::unary(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),            \
                      sim::Unary::operation, dst, src, repeatParams);                                        \
    }                                                                                                        \
    template <typename T>                                                                                    \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count,                    \
              sim::Where where = sim::Where::here()) {                                                       \
        static_assert(types, #name " does not take this type on dav-2201");                                  \
        detail::unary(detail::counted(#name, count, where), sim::Unary::operation, dst, src, {});            \
    }

#define SIM_SCALAR(name, operation, types)                                                                \
    template <typename T, bool isSetMask = true>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,                 \
              const uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,     \
              sim::Where where = sim::Where::here()) {                                                    \
        static_assert(types, #name " does not take this type on dav-2201");                               \
        detail::scalar(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),        \
                       sim::Scalar::operation, dst, src, sim::scalar_bits(scalarValue), repeatParams);    \
    }                                                                                                     \
    template <typename T, bool isSetMask = true>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,  \
              const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,                            \
              sim::Where where = sim::Where::here()) {                                                    \
        static_assert(types, #name " does not take this type on dav-2201");                               \
        detail::scalar(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),        \
                       sim::Scalar::operation, dst, src, sim::scalar_bits(scalarValue), repeatParams);    \
    }                                                                                                     \
    template <typename T, bool isSetMask = true>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,                 \
              const int32_t& count, sim::Where where = sim::Where::here()) {                              \
        static_assert(types, #name " does not take this type on dav-2201");                               \
        detail::scalar(detail::counted<isSetMask>(#name, count, where), sim::Scalar::operation, dst, src, \
                       sim::scalar_bits(scalarValue), {});                                                \
    }

namespace detail {

template <typename T>
constexpr bool arithmetic = one_of<T, int16_t, half, int32_t, float>();
template <typename T>
constexpr bool floating = one_of<T, half, float>();
template <typename T>
constexpr bool added_relu = one_of<T, int16_t, half, float>();
template <typename T>
constexpr bool shifted = one_of<T, int16_t, uint16_t, int32_t, uint32_t>();
template <typename T, typename U>
constexpr bool accumulated = one_of<T, half, float>() && one_of<U, half, T>();

template <typename T, typename U>
void binary(const sim::Call& call, sim::Binary operation, const LocalTensor<T>& dst,
            const LocalTensor<U>& src0, const LocalTensor<U>& src1, const BinaryRepeatParams& p) {
    sim::binary(call, operation, dst.ref(), src0.ref(), src1.ref(), {p.dstBlkStride, p.dstRepStride},
                {p.src0BlkStride, p.src0RepStride}, {p.src1BlkStride, p.src1RepStride});
}
template <typename T, typename U>
void binary_cast(const sim::Call& call, sim::Binary operation, const LocalTensor<T>& dst,
                 const LocalTensor<U>& src0, const LocalTensor<U>& src1, const BinaryRepeatParams& p) {
    sim::binary_cast(call, operation, dst.ref(), src0.ref(), src1.ref(), {p.dstBlkStride, p.dstRepStride},
                     {p.src0BlkStride, p.src0RepStride}, {p.src1BlkStride, p.src1RepStride});
}
template <typename T>
void unary(const sim::Call& call, sim::Unary operation, const LocalTensor<T>& dst, const LocalTensor<T>& src,
           const UnaryRepeatParams& p) {
    sim::unary(call, operation, dst.ref(), src.ref(), {p.dstBlkStride, p.dstRepStride},
               {p.srcBlkStride, p.srcRepStride});
}
template <typename T, typename U>
void scalar(const sim::Call& call, sim::Scalar operation, const LocalTensor<T>& dst,
            const LocalTensor<U>& src, uint64_t value, const UnaryRepeatParams& p) {
    sim::scalar(call, operation, dst.ref(), src.ref(), value, {p.dstBlkStride, p.dstRepStride},
                {p.srcBlkStride, p.srcRepStride});
}

}  // namespace detail

SIM_BINARY(Add, Add, detail::arithmetic<T>)
SIM_BINARY(Sub, Sub, detail::arithmetic<T>)
SIM_BINARY(Mul, Mul, detail::arithmetic<T>)
SIM_BINARY(Max, Max, detail::arithmetic<T>)
SIM_BINARY(Min, Min, detail::arithmetic<T>)
SIM_BINARY(Div, Div, detail::floating<T>)
SIM_BINARY(And, And, true)
SIM_BINARY(Or, Or, true)
SIM_BINARY(AddRelu, AddRelu, detail::added_relu<T>)
SIM_BINARY(SubRelu, SubRelu, detail::added_relu<T>)
SIM_BINARY(FusedMulAdd, FusedMulAdd, detail::floating<T>)
SIM_BINARY(FusedMulAddRelu, FusedMulAddRelu, detail::floating<T>)
SIM_BINARY(MulAddRelu, FusedMulAddRelu, detail::floating<T>)

SIM_UNARY(Exp, Exp, detail::floating<T>)
SIM_UNARY(Ln, Ln, detail::floating<T>)
SIM_UNARY(Sqrt, Sqrt, detail::floating<T>)
SIM_UNARY(Rsqrt, Rsqrt, detail::floating<T>)
SIM_UNARY(Reciprocal, Reciprocal, detail::floating<T>)
SIM_UNARY(Abs, Abs, true)
SIM_UNARY(Relu, Relu, (detail::one_of<T, half, int32_t, float>()))
SIM_UNARY(Not, Not, true)

SIM_SCALAR(Adds, Adds, detail::arithmetic<T>)
SIM_SCALAR(Muls, Muls, detail::arithmetic<T>)
SIM_SCALAR(Maxs, Maxs, detail::arithmetic<T>)
SIM_SCALAR(Mins, Mins, detail::arithmetic<T>)
SIM_SCALAR(LeakyRelu, LeakyRelu, detail::floating<T>)
SIM_SCALAR(ShiftLeft, ShiftLeft, detail::shifted<T>)

#undef SIM_BINARY
#undef SIM_UNARY
#undef SIM_SCALAR

template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,
                const uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
                bool roundEn = false, sim::Where where = sim::Where::here()) {
    static_assert(detail::shifted<T>, "ShiftRight does not take this type on dav-2201");
    detail::scalar(detail::repeated("ShiftRight", detail::lanes<isSetMask>(mask), repeatTime, where),
                   roundEn ? sim::Scalar::ShiftRightRound : sim::Scalar::ShiftRight, dst, src,
                   sim::scalar_bits(scalarValue), repeatParams);
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,
                const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false,
                sim::Where where = sim::Where::here()) {
    static_assert(detail::shifted<T>, "ShiftRight does not take this type on dav-2201");
    detail::scalar(detail::repeated("ShiftRight", detail::lanes<isSetMask>(mask), repeatTime, where),
                   roundEn ? sim::Scalar::ShiftRightRound : sim::Scalar::ShiftRight, dst, src,
                   sim::scalar_bits(scalarValue), repeatParams);
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,
                const int32_t& count, sim::Where where = sim::Where::here()) {
    static_assert(detail::shifted<T>, "ShiftRight does not take this type on dav-2201");
    detail::scalar(detail::counted<isSetMask>("ShiftRight", count, where), sim::Scalar::ShiftRight, dst, src,
                   sim::scalar_bits(scalarValue), {});
}

// --- A destination of another type
// --------------------------------------------------------------------------

#define SIM_MIXED(name, operation, call_, types)                                                          \
    template <typename T, typename U, bool isSetMask = true>                                              \
    void name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,          \
              const uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams& repeatParams,    \
              sim::Where where = sim::Where::here()) {                                                    \
        static_assert(types, #name " does not take these types on dav-2201");                             \
        detail::call_(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),         \
                      sim::Binary::operation, dst, src0, src1, repeatParams);                             \
    }                                                                                                     \
    template <typename T, typename U, bool isSetMask = true>                                              \
    void name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,          \
              uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams& repeatParams,            \
              sim::Where where = sim::Where::here()) {                                                    \
        static_assert(types, #name " does not take these types on dav-2201");                             \
        detail::call_(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where),         \
                      sim::Binary::operation, dst, src0, src1, repeatParams);                             \
    }                                                                                                     \
    template <typename T, typename U>                                                                     \
    void name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,          \
              const int32_t count, sim::Where where = sim::Where::here()) {                               \
        static_assert(types, #name " does not take these types on dav-2201");                             \
        detail::call_(detail::counted(#name, count, where), sim::Binary::operation, dst, src0, src1, {}); \
    }

namespace detail {
template <typename T, typename U>
constexpr bool relu_cast = (one_of<U, half, int16_t>() && std::is_same_v<T, int8_t>) ||
                           (std::is_same_v<U, float> && std::is_same_v<T, half>);
template <typename T, typename U>
constexpr bool mul_cast = std::is_same_v<U, half> && one_of<T, int8_t, uint8_t>();
template <typename T, typename U>
constexpr bool deq_relu = std::is_same_v<U, int32_t> && std::is_same_v<T, half>;
}  // namespace detail

SIM_MIXED(MulAddDst, MulAddDst, binary, (detail::accumulated<T, U>))
SIM_MIXED(AddDeqRelu, AddDeqRelu, binary, (detail::deq_relu<T, U>))
SIM_MIXED(AddReluCast, AddReluCast, binary_cast, (detail::relu_cast<T, U>))
SIM_MIXED(SubReluCast, SubReluCast, binary_cast, (detail::relu_cast<T, U>))
SIM_MIXED(MulCast, MulCast, binary_cast, (detail::mul_cast<T, U>))

#undef SIM_MIXED

template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const uint64_t mask[],
          const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
          sim::Where where = sim::Where::here()) {
    static_assert(detail::accumulated<T, U>, "Axpy does not take these types on dav-2201");
    detail::scalar(detail::repeated("Axpy", detail::lanes<isSetMask>(mask), repeatTime, where),
                   sim::Scalar::Axpy, dst, src, sim::scalar_bits(scalarValue), repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask,
          const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
          sim::Where where = sim::Where::here()) {
    static_assert(detail::accumulated<T, U>, "Axpy does not take these types on dav-2201");
    detail::scalar(detail::repeated("Axpy", detail::lanes<isSetMask>(mask), repeatTime, where),
                   sim::Scalar::Axpy, dst, src, sim::scalar_bits(scalarValue), repeatParams);
}
template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count,
          sim::Where where = sim::Where::here()) {
    static_assert(detail::accumulated<T, U>, "Axpy does not take these types on dav-2201");
    detail::scalar(detail::counted("Axpy", count, where), sim::Scalar::Axpy, dst, src,
                   sim::scalar_bits(scalarValue), {});
}

}  // namespace AscendC
