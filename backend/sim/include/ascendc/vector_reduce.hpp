// Reductions: of a repeat, a block, a pair, or everything.
#pragma once

#include "vector_params.hpp"

namespace AscendC {

enum class ReduceType : uint8_t { NONE, SUM, MAX, MIN, OR, AND, XOR };

namespace detail {

// A mask in the number form is an int32_t here.
template <bool isSetMask>
sim::Lanes reduce_lanes(int32_t mask) {
    return lanes<isSetMask>(static_cast<uint64_t>(mask < 0 ? -1 : mask));
}
template <bool isSetMask>
sim::Lanes reduce_lanes(const uint64_t mask[]) {
    return lanes<isSetMask>(mask);
}

template <typename T>
void reduce_repeat(const sim::Call& call, sim::Reduction reduction, ReduceOrder order,
                   const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t dstRep, int32_t srcBlk,
                   int32_t srcRep) {
    static_assert(one_of<T, half, float>(), "reductions take half and float on dav-2201");
    sim::reduce_repeat(call, reduction, static_cast<sim::Order>(order), dst.ref(), src.ref(), dstRep, srcBlk,
                       srcRep);
}
template <typename T>
void reduce_block(const sim::Call& call, sim::Reduction reduction, const LocalTensor<T>& dst,
                  const LocalTensor<T>& src, int32_t dstRep, int32_t srcBlk, int32_t srcRep) {
    static_assert(one_of<T, half, float>(), "reductions take half and float on dav-2201");
    sim::reduce_block(call, reduction, dst.ref(), src.ref(), dstRep, srcBlk, srcRep);
}
template <typename T>
void reduce_all(const sim::Call& call, sim::Reduction reduction, bool index, const LocalTensor<T>& dst,
                const LocalTensor<T>& src, const LocalTensor<T>& scratch, int32_t srcRep) {
    static_assert(one_of<T, half, float>(), "reductions take half and float on dav-2201");
    sim::reduce_all(call, reduction, index, dst.ref(), src.ref(), scratch.ref(), srcRep);
}

template <ReduceType type>
constexpr sim::Reduction reduction_of() {
    static_assert(type == ReduceType::SUM || type == ReduceType::MAX || type == ReduceType::MIN,
                  "reductions are SUM, MAX and MIN");
    return type == ReduceType::SUM   ? sim::Reduction::Sum
           : type == ReduceType::MAX ? sim::Reduction::Max
                                     : sim::Reduction::Min;
}

}  // namespace detail

// --- One result for each repeat
// -----------------------------------------------------------------------------

#define SIM_FORMS(form) form(int32_t mask) form(const uint64_t mask[])

#define SIM_WHOLE_SUM(mask_parameter)                                                                       \
    template <typename T, bool isSetMask = true>                                                            \
    void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, mask_parameter,               \
                        const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,   \
                        const int32_t srcRepStride, sim::Where where = sim::Where::here()) {                \
        detail::reduce_repeat(                                                                              \
            detail::repeated("WholeReduceSum", detail::reduce_lanes<isSetMask>(mask), repeatTime, where),   \
            sim::Reduction::Sum, ReduceOrder::ORDER_ONLY_VALUE, dst, src, dstRepStride, srcBlkStride,       \
            srcRepStride);                                                                                  \
    }                                                                                                       \
    template <typename T, bool isSetMask = true>                                                            \
    void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,    \
                         mask_parameter, const int32_t, const int32_t srcBlkStride,                         \
                         const int32_t dstRepStride, const int32_t srcRepStride,                            \
                         sim::Where where = sim::Where::here()) {                                           \
        detail::reduce_repeat(                                                                              \
            detail::repeated("RepeatReduceSum", detail::reduce_lanes<isSetMask>(mask), repeatTime, where),  \
            sim::Reduction::Sum, ReduceOrder::ORDER_ONLY_VALUE, dst, src, dstRepStride, srcBlkStride,       \
            srcRepStride);                                                                                  \
    }                                                                                                       \
    template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                         \
    void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<U>& src, mask_parameter,                 \
                      const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,     \
                      const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,       \
                      sim::Where where = sim::Where::here()) {                                              \
        static_assert(std::is_same_v<T, U>, "ReduceRepeat: dst and src must have one type");                \
        detail::reduce_repeat(                                                                              \
            detail::repeated("ReduceRepeat", detail::reduce_lanes<isSetMask>(mask), repeatTime, where),     \
            detail::reduction_of<reduceType>(), order, dst, src, dstRepStride, srcBlkStride, srcRepStride); \
    }                                                                                                       \
    template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                         \
    void ReduceDataBlock(const LocalTensor<T>& dst, const LocalTensor<U>& src, mask_parameter,              \
                         const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,  \
                         const int32_t srcRepStride, sim::Where where = sim::Where::here()) {               \
        static_assert(std::is_same_v<T, U>, "ReduceDataBlock: dst and src must have one type");             \
        detail::reduce_block(                                                                               \
            detail::repeated("ReduceDataBlock", detail::reduce_lanes<isSetMask>(mask), repeatTime, where),  \
            detail::reduction_of<reduceType>(), dst, src, dstRepStride, srcBlkStride, srcRepStride);        \
    }                                                                                                       \
    template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                         \
    void ReducePairElem(const LocalTensor<T>& dst, const LocalTensor<U>& src, mask_parameter,               \
                        const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,   \
                        const int32_t srcRepStride, sim::Where where = sim::Where::here()) {                \
        static_assert(                                                                                      \
            std::is_same_v<T, U> && detail::one_of<T, half, float>() && reduceType == ReduceType::SUM,      \
            "ReducePairElem adds pairs of half or float");                                                  \
        sim::reduce_pair(                                                                                   \
            detail::repeated("ReducePairElem", detail::reduce_lanes<isSetMask>(mask), repeatTime, where),   \
            dst.ref(), src.ref(), dstRepStride, srcBlkStride, srcRepStride);                                \
    }                                                                                                       \
    template <typename T, bool isSetMask = true>                                                            \
    void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,      \
                       mask_parameter, const int32_t dstRepStride, const int32_t srcBlkStride,              \
                       const int32_t srcRepStride, sim::Where where = sim::Where::here()) {                 \
        static_assert(detail::one_of<T, half, float>(), "PairReduceSum takes half and float on dav-2201");  \
        sim::reduce_pair(                                                                                   \
            detail::repeated("PairReduceSum", detail::reduce_lanes<isSetMask>(mask), repeatTime, where),    \
            dst.ref(), src.ref(), dstRepStride, srcBlkStride, srcRepStride);                                \
    }
SIM_FORMS(SIM_WHOLE_SUM)
#undef SIM_WHOLE_SUM

#define SIM_WHOLE(name, reduction, mask_parameter)                                                        \
    template <typename T, bool isSetMask = true>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, mask_parameter,                       \
              const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,           \
              const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,             \
              sim::Where where = sim::Where::here()) {                                                    \
        detail::reduce_repeat(                                                                            \
            detail::repeated(#name, detail::reduce_lanes<isSetMask>(mask), repeatTime, where), reduction, \
            order, dst, src, dstRepStride, srcBlkStride, srcRepStride);                                   \
    }
SIM_WHOLE(WholeReduceMax, sim::Reduction::Max, int32_t mask)
SIM_WHOLE(WholeReduceMax, sim::Reduction::Max, const uint64_t mask[])
SIM_WHOLE(WholeReduceMin, sim::Reduction::Min, int32_t mask)
SIM_WHOLE(WholeReduceMin, sim::Reduction::Min, const uint64_t mask[])
#undef SIM_WHOLE

// --- One for each block of 32 bytes; the mask comes after the repeats
// ---------------------------------------

#define SIM_BLOCK(name, reduction, mask_parameter)                                                        \
    template <typename T, bool isSetMask = true>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,             \
              mask_parameter, const int32_t dstRepStride, const int32_t srcBlkStride,                     \
              const int32_t srcRepStride, sim::Where where = sim::Where::here()) {                        \
        detail::reduce_block(                                                                             \
            detail::repeated(#name, detail::reduce_lanes<isSetMask>(mask), repeatTime, where), reduction, \
            dst, src, dstRepStride, srcBlkStride, srcRepStride);                                          \
    }
SIM_BLOCK(BlockReduceSum, sim::Reduction::Sum, int32_t mask)
SIM_BLOCK(BlockReduceSum, sim::Reduction::Sum, const uint64_t mask[])
SIM_BLOCK(BlockReduceMax, sim::Reduction::Max, int32_t mask)
SIM_BLOCK(BlockReduceMax, sim::Reduction::Max, const uint64_t mask[])
SIM_BLOCK(BlockReduceMin, sim::Reduction::Min, int32_t mask)
SIM_BLOCK(BlockReduceMin, sim::Reduction::Min, const uint64_t mask[])
#undef SIM_BLOCK
#undef SIM_FORMS

// --- One result of everything
// -------------------------------------------------------------------------------

#define SIM_ALL(name, reduction)                                                                           \
    template <typename T>                                                                                  \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
              const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride,                    \
              bool calIndex = false, sim::Where where = sim::Where::here()) {                              \
        detail::reduce_all(detail::repeated(#name, detail::reduce_lanes<true>(mask), repeatTime, where),   \
                           reduction, calIndex, dst, src, sharedTmpBuffer, srcRepStride);                  \
    }                                                                                                      \
    template <typename T>                                                                                  \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
              const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride,                 \
              bool calIndex = false, sim::Where where = sim::Where::here()) {                              \
        detail::reduce_all(detail::repeated(#name, detail::reduce_lanes<true>(mask), repeatTime, where),   \
                           reduction, calIndex, dst, src, sharedTmpBuffer, srcRepStride);                  \
    }                                                                                                      \
    template <typename T>                                                                                  \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
              const int32_t count, bool calIndex = false, sim::Where where = sim::Where::here()) {         \
        detail::reduce_all(detail::counted(#name, count, where), reduction, calIndex, dst, src,            \
                           sharedTmpBuffer, 8);                                                            \
    }
SIM_ALL(ReduceMax, sim::Reduction::Max)
SIM_ALL(ReduceMin, sim::Reduction::Min)
#undef SIM_ALL

template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride,
               sim::Where where = sim::Where::here()) {
    detail::reduce_all(detail::repeated("ReduceSum", detail::reduce_lanes<true>(mask), repeatTime, where),
                       sim::Reduction::Sum, false, dst, src, sharedTmpBuffer, srcRepStride);
}
template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride,
               sim::Where where = sim::Where::here()) {
    detail::reduce_all(detail::repeated("ReduceSum", detail::reduce_lanes<true>(mask), repeatTime, where),
                       sim::Reduction::Sum, false, dst, src, sharedTmpBuffer, srcRepStride);
}
template <typename T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const int32_t count, sim::Where where = sim::Where::here()) {
    // With the count set outside by SetVectorMask in counter mode.
    const int64_t elements = isSetMask ? count : static_cast<int64_t>(sim::registers().mask[0]);
    detail::reduce_all(detail::counted("ReduceSum", elements, where), sim::Reduction::Sum, false, dst, src,
                       sharedTmpBuffer, 8);
}

// --- What the last reduction left in registers
// --------------------------------------------------------------

namespace detail {
template <typename T>
T value_in(uint64_t bits) {
    T value{};
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}
}  // namespace detail

template <typename T>
void GetReduceRepeatMaxMinSpr(T& maxMinValue, T& maxMinIndex, sim::Where where = sim::Where::here()) {
    maxMinValue = detail::value_in<T>(sim::vector_register(sim::extreme_register, where));
    maxMinIndex = detail::value_in<T>(sim::vector_register(sim::index_register, where));
}
template <typename T>
void GetReduceRepeatMaxMinSpr(T& maxMinValue, sim::Where where = sim::Where::here()) {
    maxMinValue = detail::value_in<T>(sim::vector_register(sim::extreme_register, where));
}
template <typename T>
void GetReduceMaxMinCount(T& maxMinValue, T& maxMinIndex, sim::Where where = sim::Where::here()) {
    GetReduceRepeatMaxMinSpr(maxMinValue, maxMinIndex, where);
}
template <typename T>
void GetReduceMaxMinCount(T& maxMinValue, sim::Where where = sim::Where::here()) {
    GetReduceRepeatMaxMinSpr(maxMinValue, where);
}
template <typename T>
T GetReduceRepeatSumSpr(sim::Where where = sim::Where::here()) {
    return detail::value_in<T>(sim::vector_register(sim::sum_register, where));
}
template <typename T>
T GetAccVal(sim::Where where = sim::Where::here()) {
    return GetReduceRepeatSumSpr<T>(where);
}

}  // namespace AscendC
