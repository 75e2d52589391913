// Cast and what belongs to it.
#pragma once

#include "vector_params.hpp"

namespace AscendC {

namespace detail {

// Pairs of types that have a conversion at all; which rounding modes it takes is checked when it runs.
template <typename T, typename U>
constexpr bool castable() {
    if constexpr (one_of<U, int4b_t, int8_t, uint8_t>())
        return std::is_same_v<T, half>;
    else if constexpr (std::is_same_v<U, int16_t>)
        return one_of<T, half, float, int8_t, uint8_t>();
    else if constexpr (std::is_same_v<U, half>)
        return one_of<T, int4b_t, int8_t, uint8_t, int16_t, int32_t, float>();
    else if constexpr (std::is_same_v<U, bfloat16_t>)
        return one_of<T, int32_t, float>();
    else if constexpr (std::is_same_v<U, int32_t>)
        return one_of<T, int16_t, half, float, int64_t>();
    else if constexpr (std::is_same_v<U, float>)
        return one_of<T, int16_t, int32_t, int64_t, float, half, bfloat16_t>();
    else if constexpr (std::is_same_v<U, int64_t>)
        return one_of<T, int32_t, float>();
    else
        return false;
}

template <typename T, typename U>
void cast(const sim::Call& call, const LocalTensor<T>& dst, const LocalTensor<U>& src, RoundMode mode,
          const UnaryRepeatParams& p) {
    static_assert(castable<T, U>(), "Cast does not convert between these types on dav-2201");
    sim::cast(call, dst.ref(), src.ref(), static_cast<sim::Round>(mode), {p.dstBlkStride, p.dstRepStride},
              {p.srcBlkStride, p.srcRepStride});
}

}  // namespace detail

template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
          sim::Where where = sim::Where::here()) {
    detail::cast(detail::repeated("Cast", detail::lanes<isSetMask>(mask), repeatTime, where), dst, src,
                 roundMode, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
          sim::Where where = sim::Where::here()) {
    detail::cast(detail::repeated("Cast", detail::lanes<isSetMask>(mask), repeatTime, where), dst, src,
                 roundMode, repeatParams);
}
template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint32_t count, sim::Where where = sim::Where::here()) {
    detail::cast(detail::counted("Cast", count, where), dst, src, roundMode, {});
}

inline void SetDeqScale(half scale, sim::Where = sim::Where::here()) {
    sim::registers().quantisation = scale.bits;
}
inline void SetDeqScale(float scale, int16_t offset, bool signMode, sim::Where = sim::Where::here()) {
    sim::registers().quantisation = sim::quantisation_bits(scale, offset, signMode);
}
template <typename T>
void SetDeqScale(const LocalTensor<T>& vdeq, const VdeqInfo& vdeqInfo,
                 sim::Where where = sim::Where::here()) {
    static_assert(std::is_same_v<T, uint64_t>, "SetDeqScale takes a tensor of uint64_t");
    sim::set_quantisation(vdeq.ref(), vdeqInfo.vdeqScale, vdeqInfo.vdeqOffset, vdeqInfo.vdeqSignMode, where);
}

namespace detail {

template <typename T, typename U, bool isVecDeq, bool halfBlock>
void cast_deq(const sim::Call& call, const LocalTensor<T>& dst, const LocalTensor<U>& src,
              const UnaryRepeatParams& p) {
    static_assert((std::is_same_v<U, int16_t> && one_of<T, int8_t, uint8_t>()) ||
                      (std::is_same_v<U, int32_t> && std::is_same_v<T, half>),
                  "CastDeq converts int16_t to int8_t or uint8_t and int32_t to half");
    if constexpr (std::is_same_v<U, int32_t>)
        sim::cast(call, dst.ref(), src.ref(), sim::Round::None, {p.dstBlkStride, p.dstRepStride},
                  {p.srcBlkStride, p.srcRepStride});
    else
        sim::cast_quantised(call, dst.ref(), src.ref(), isVecDeq, !halfBlock,
                            {p.dstBlkStride, p.dstRepStride}, {p.srcBlkStride, p.srcRepStride});
}

}  // namespace detail

#define SIM_CAST_DEQ(name)                                                                                  \
    template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>   \
    void name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint64_t mask[],                  \
              uint8_t repeatTime, const UnaryRepeatParams& repeatParams,                                    \
              sim::Where where = sim::Where::here()) {                                                      \
        detail::cast_deq<T, U, isVecDeq, halfBlock>(                                                        \
            detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where), dst, src,           \
            repeatParams);                                                                                  \
    }                                                                                                       \
    template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>   \
    void name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t mask, uint8_t repeatTime, \
              const UnaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {               \
        detail::cast_deq<T, U, isVecDeq, halfBlock>(                                                        \
            detail::repeated(#name, detail::lanes<isSetMask>(static_cast<uint64_t>(mask)), repeatTime,      \
                             where),                                                                        \
            dst, src, repeatParams);                                                                        \
    }                                                                                                       \
    template <typename T, typename U, bool isVecDeq = true, bool halfBlock = true>                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint32_t count,                   \
              sim::Where where = sim::Where::here()) {                                                      \
        detail::cast_deq<T, U, isVecDeq, halfBlock>(detail::counted(#name, count, where), dst, src, {});    \
    }

SIM_CAST_DEQ(CastDeq)
SIM_CAST_DEQ(CastDequant)

#undef SIM_CAST_DEQ

}  // namespace AscendC
