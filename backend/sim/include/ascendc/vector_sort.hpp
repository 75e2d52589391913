// Sorting scores with their indices.
#pragma once

#include "vector_params.hpp"

namespace AscendC {

template <typename T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
            const int32_t repeatTime, sim::Where where = sim::Where::here()) {
    static_assert(detail::one_of<T, half, float>(), "Sort32 takes half and float");
    sim::sort32({"Sort32", {}, repeatTime, where}, dst.ref(), src0.ref(), src1.ref());
}

template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params,
             sim::Where where = sim::Where::here()) {
    static_assert(detail::one_of<T, half, float>(), "MrgSort takes half and float");
    const sim::Local lists[4] = {src.src1.ref(), src.src2.ref(), src.src3.ref(), src.src4.ref()};
    sim::merge_sorted({"MrgSort", {}, params.repeatTimes, where}, dst.ref(), lists,
                      {params.elementLengths, params.ifExhaustedSuspension, params.validBit});
}

inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3,
                             uint16_t& mrgSortList4, sim::Where where = sim::Where::here()) {
    const uint64_t counts = sim::vector_register(sim::merged_register, where);
    mrgSortList1 = static_cast<uint16_t>(counts);
    mrgSortList2 = static_cast<uint16_t>(counts >> 16);
    mrgSortList3 = static_cast<uint16_t>(counts >> 32);
    mrgSortList4 = static_cast<uint16_t>(counts >> 48);
}

// An entry, score and index, has 8 bytes whatever the type of the score.
template <typename T>
uint32_t GetSortOffset(const uint32_t elemOffset) {
    return elemOffset * static_cast<uint32_t>(8 / sizeof(T));
}
template <typename T>
uint32_t GetSortLen(const uint32_t elemCount) {
    return elemCount * static_cast<uint32_t>(8 / sizeof(T));
}

template <typename T, bool isExhaustedSuspension = false>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList, const uint16_t elementCountList[4],
             uint32_t sortedNum[4], uint16_t validBit, const int32_t repeatTime,
             sim::Where where = sim::Where::here()) {
    MrgSort(
        dst, sortList,
        MrgSort4Info(elementCountList, isExhaustedSuspension, validBit, static_cast<uint16_t>(repeatTime)),
        where);
    if constexpr (isExhaustedSuspension) {
        uint16_t counts[4];
        GetMrgSortResult(counts[0], counts[1], counts[2], counts[3], where);
        for (int i = 0; i < 4; ++i) sortedNum[i] = counts[i];
    }
}

}  // namespace AscendC
