// Comparisons into bits, and selection by them.
#pragma once

#include "vector_params.hpp"

namespace AscendC {

namespace detail {

template <typename T, typename U>
void compare(const sim::Call& call, const LocalTensor<U>& dst, const LocalTensor<T>& src0,
             const LocalTensor<T>& src1, CMPMODE mode, const BinaryRepeatParams& p) {
    static_assert(one_of<T, half, float, int32_t>() && one_of<U, int8_t, uint8_t>(),
                  "Compare takes half, float and, for EQ, int32_t, with a result of uint8_t or int8_t");
    sim::compare(call, static_cast<sim::Comparison>(mode), dst.ref(), src0.ref(), src1.ref(),
                 {p.src0BlkStride, p.src0RepStride}, {p.src1BlkStride, p.src1RepStride});
}

template <typename T, typename U>
void compare_scalar(const sim::Call& call, const LocalTensor<U>& dst, const LocalTensor<T>& src0,
                    const T& value, CMPMODE mode, const UnaryRepeatParams& p) {
    static_assert(one_of<T, half, float, int32_t>() && one_of<U, int8_t, uint8_t>(),
                  "CompareScalar takes half, float and, for EQ, int32_t, with a result of uint8_t or int8_t");
    sim::compare_scalar(call, static_cast<sim::Comparison>(mode), dst.ref(), src0.ref(),
                        sim::scalar_bits(value), {p.srcBlkStride, p.srcRepStride});
}

}  // namespace detail

template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, const uint64_t mask[], uint8_t repeatTime,
             const BinaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    detail::compare(detail::repeated("Compare", detail::lanes<isSetMask>(mask), repeatTime, where), dst, src0,
                    src1, cmpMode, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, const uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams,
             sim::Where where = sim::Where::here()) {
    detail::compare(detail::repeated("Compare", detail::lanes<isSetMask>(mask), repeatTime, where), dst, src0,
                    src1, cmpMode, repeatParams);
}
template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, uint32_t count, sim::Where where = sim::Where::here()) {
    detail::compare(detail::counted("Compare", count, where), dst, src0, src1, cmpMode, {});
}

// Into the compare mask, for one repeat.
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask[],
             const BinaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    const BinaryRepeatParams& p = repeatParams;
    sim::compare_to_mask(detail::repeated("Compare", detail::lanes<isSetMask>(mask), 1, where),
                         static_cast<sim::Comparison>(cmpMode), src0.ref(), src1.ref(),
                         {p.src0BlkStride, p.src0RepStride}, {p.src1BlkStride, p.src1RepStride});
}
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask,
             const BinaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    const BinaryRepeatParams& p = repeatParams;
    sim::compare_to_mask(detail::repeated("Compare", detail::lanes<isSetMask>(mask), 1, where),
                         static_cast<sim::Comparison>(cmpMode), src0.ref(), src1.ref(),
                         {p.src0BlkStride, p.src0RepStride}, {p.src1BlkStride, p.src1RepStride});
}
template <typename T>
void GetCmpMask(const LocalTensor<T>& dst, sim::Where where = sim::Where::here()) {
    sim::get_compare_mask(dst.ref(), where);
}
template <typename T>
void SetCmpMask(const LocalTensor<T>& src, sim::Where where = sim::Where::here()) {
    sim::set_compare_mask(src.ref(), where);
}

#define SIM_COMPARE_SCALAR(name)                                                                           \
    template <typename T, typename U, bool isSetMask = true>                                               \
    void name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,  \
              const uint64_t mask[], uint8_t repeatTime, const UnaryRepeatParams& repeatParams,            \
              sim::Where where = sim::Where::here()) {                                                     \
        detail::compare_scalar(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where), \
                               dst, src0, src1Scalar, cmpMode, repeatParams);                              \
    }                                                                                                      \
    template <typename T, typename U, bool isSetMask = true>                                               \
    void name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,  \
              const uint64_t mask, uint8_t repeatTime, const UnaryRepeatParams& repeatParams,              \
              sim::Where where = sim::Where::here()) {                                                     \
        detail::compare_scalar(detail::repeated(#name, detail::lanes<isSetMask>(mask), repeatTime, where), \
                               dst, src0, src1Scalar, cmpMode, repeatParams);                              \
    }                                                                                                      \
    template <typename T, typename U>                                                                      \
    void name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,  \
              uint32_t count, sim::Where where = sim::Where::here()) {                                     \
        detail::compare_scalar(detail::counted(#name, count, where), dst, src0, src1Scalar, cmpMode, {});  \
    }

SIM_COMPARE_SCALAR(CompareScalar)
SIM_COMPARE_SCALAR(Compares)

#undef SIM_COMPARE_SCALAR

namespace detail {

template <typename T, typename U>
constexpr bool selectable = one_of<T, half, float>() && one_of<U, uint8_t, uint16_t, uint32_t, uint64_t>();

template <typename T, typename U>
void select(const sim::Call& call, const LocalTensor<T>& dst, const LocalTensor<U>& mask,
            const LocalTensor<T>& src0, const LocalTensor<T>& src1, SELMODE mode,
            const BinaryRepeatParams& p) {
    static_assert(selectable<T, U>, "Select takes half and float, by bits in uint8_t … uint64_t");
    sim::select(call, static_cast<sim::Selection>(mode), dst.ref(), mask.ref(), src0.ref(), src1.ref(),
                {p.dstBlkStride, p.dstRepStride}, {p.src0BlkStride, p.src0RepStride},
                {p.src1BlkStride, p.src1RepStride});
}

template <typename T, typename U>
void select_scalar(const sim::Call& call, const LocalTensor<T>& dst, const LocalTensor<U>& mask,
                   const LocalTensor<T>& src0, const T& value, SELMODE mode, const BinaryRepeatParams& p) {
    static_assert(selectable<T, U>, "Select takes half and float, by bits in uint8_t … uint64_t");
    if (mode != SELMODE::VSEL_TENSOR_SCALAR_MODE)
        sim::fail(call.where,
                  "[Select] Expected selMode VSEL_TENSOR_SCALAR_MODE where src1 is a scalar, given another");
    sim::select_scalar(call, dst.ref(), mask.ref(), src0.ref(), sim::scalar_bits(value),
                       {p.dstBlkStride, p.dstRepStride}, {p.src0BlkStride, p.src0RepStride});
}

}  // namespace detail

template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, const uint64_t mask[], uint8_t repeatTime,
            const BinaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    detail::select(detail::repeated("Select", detail::lanes<true>(mask), repeatTime, where), dst, selMask,
                   src0, src1, selMode, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask, uint8_t repeatTime,
            const BinaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    detail::select(detail::repeated("Select", detail::lanes<true>(mask), repeatTime, where), dst, selMask,
                   src0, src1, selMode, repeatParams);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint32_t count,
            sim::Where where = sim::Where::here()) {
    detail::select(detail::counted("Select", count, where), dst, selMask, src0, src1, selMode, {});
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
            SELMODE selMode, const uint64_t mask[], uint8_t repeatTime,
            const BinaryRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    detail::select_scalar(detail::repeated("Select", detail::lanes<true>(mask), repeatTime, where), dst,
                          selMask, src0, src1, selMode, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
            SELMODE selMode, uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams,
            sim::Where where = sim::Where::here()) {
    detail::select_scalar(detail::repeated("Select", detail::lanes<true>(mask), repeatTime, where), dst,
                          selMask, src0, src1, selMode, repeatParams);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
            SELMODE selMode, uint32_t count, sim::Where where = sim::Where::here()) {
    detail::select_scalar(detail::counted("Select", count, where), dst, selMask, src0, src1, selMode, {});
}

// With the mask of SetVectorMask; what to select by was given to SetCmpMask.
template <typename T, SELMODE selMode>
void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            uint8_t repeatTime, const BinaryRepeatParams& repeatParams,
            sim::Where where = sim::Where::here()) {
    static_assert(detail::one_of<T, half, float>(), "Select takes half and float");
    const BinaryRepeatParams& p = repeatParams;
    sim::select_register(detail::repeated("Select", sim::Lanes::from_register(), repeatTime, where),
                         static_cast<sim::Selection>(selMode), dst.ref(), src0.ref(), src1.ref(),
                         {p.dstBlkStride, p.dstRepStride}, {p.src0BlkStride, p.src0RepStride},
                         {p.src1BlkStride, p.src1RepStride});
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            uint8_t repeatTime, const BinaryRepeatParams& repeatParams,
            sim::Where where = sim::Where::here()) {
    static_assert(detail::selectable<T, U>, "Select takes half and float, by bits in uint8_t … uint64_t");
    const BinaryRepeatParams& p = repeatParams;
    sim::select_register(detail::repeated("Select", sim::Lanes::from_register(), repeatTime, where),
                         sim::Selection::TensorScalar, dst.ref(), src0.ref(), selMask.ref(),
                         {p.dstBlkStride, p.dstRepStride}, {p.src0BlkStride, p.src0RepStride},
                         {p.src1BlkStride, p.src1RepStride});
}

}  // namespace AscendC
