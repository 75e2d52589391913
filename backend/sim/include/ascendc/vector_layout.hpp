// Filling, broadcasting, gathering and transposing.
#pragma once

#include "vector_params.hpp"

namespace AscendC {

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const uint8_t repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride,
               sim::Where where = sim::Where::here()) {
    sim::duplicate(detail::repeated("Duplicate", detail::lanes<isSetMask>(mask), repeatTime, where),
                   dst.ref(), sim::scalar_bits(scalarValue), {dstBlockStride, dstRepeatStride});
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const uint64_t mask[],
               const uint8_t repeatTime, const uint16_t dstBlockStride, const uint8_t dstRepeatStride,
               sim::Where where = sim::Where::here()) {
    sim::duplicate(detail::repeated("Duplicate", detail::lanes<isSetMask>(mask), repeatTime, where),
                   dst.ref(), sim::scalar_bits(scalarValue), {dstBlockStride, dstRepeatStride});
}
template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count,
               sim::Where where = sim::Where::here()) {
    sim::duplicate(detail::counted("Duplicate", count, where), dst.ref(), sim::scalar_bits(scalarValue), {});
}

template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, uint8_t repeatTime,
                    uint16_t dstBlkStride, uint8_t dstRepStride, sim::Where where = sim::Where::here()) {
    sim::vector_index(detail::repeated("CreateVecIndex", detail::lanes<true>(mask), repeatTime, where),
                      dst.ref(), sim::scalar_bits(firstValue), {dstBlkStride, dstRepStride});
}
template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, const uint64_t mask[], uint8_t repeatTime,
                    uint16_t dstBlkStride, uint8_t dstRepStride, sim::Where where = sim::Where::here()) {
    sim::vector_index(detail::repeated("CreateVecIndex", detail::lanes<true>(mask), repeatTime, where),
                      dst.ref(), sim::scalar_bits(firstValue), {dstBlkStride, dstRepStride});
}
template <typename T>
void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count,
                    sim::Where where = sim::Where::here()) {
    sim::vector_index(detail::counted("CreateVecIndex", count, where), dst.ref(),
                      sim::scalar_bits(firstValue), {});
}

template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime,
          const BrcbRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    sim::broadcast_block(detail::repeated("Brcb", {}, repeatTime, where), dst.ref(), src.ref(),
                         {repeatParams.dstBlkStride, repeatParams.dstRepStride});
}

template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
          const uint8_t repeatTime, const CopyRepeatParams& repeatParams,
          sim::Where where = sim::Where::here()) {
    const CopyRepeatParams& p = repeatParams;
    sim::copy_lanes(detail::repeated("Copy", detail::lanes<isSetMask>(mask), repeatTime, where), dst.ref(),
                    src.ref(), {p.dstStride, p.dstRepeatSize}, {p.srcStride, p.srcRepeatSize});
}
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const uint8_t repeatTime,
          const CopyRepeatParams& repeatParams, sim::Where where = sim::Where::here()) {
    const CopyRepeatParams& p = repeatParams;
    sim::copy_lanes(detail::repeated("Copy", detail::lanes<isSetMask>(mask), repeatTime, where), dst.ref(),
                    src.ref(), {p.dstStride, p.dstRepeatSize}, {p.srcStride, p.srcRepeatSize});
}

// --- Gather
// -------------------------------------------------------------------------------------------------

template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, const uint64_t mask, const uint8_t repeatTime,
            const uint16_t dstRepStride, sim::Where where = sim::Where::here()) {
    sim::gather(detail::repeated("Gather", detail::lanes<true>(mask), repeatTime, where), dst.ref(),
                src.ref(), srcOffset.ref(), srcBaseAddr, dstRepStride);
}
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, const uint64_t mask[], const uint8_t repeatTime,
            const uint16_t dstRepStride, sim::Where where = sim::Where::here()) {
    sim::gather(detail::repeated("Gather", detail::lanes<true>(mask), repeatTime, where), dst.ref(),
                src.ref(), srcOffset.ref(), srcBaseAddr, dstRepStride);
}
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, const uint32_t count, sim::Where where = sim::Where::here()) {
    sim::gather(detail::counted("Gather", count, where), dst.ref(), src.ref(), srcOffset.ref(), srcBaseAddr,
                8);
}

template <typename T>
void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
             const uint8_t repeatTime, const GatherRepeatParams& repeatParams,
             sim::Where where = sim::Where::here()) {
    sim::gather_blocks(detail::repeated("Gatherb", {}, repeatTime, where), dst.ref(), src.ref(), offset.ref(),
                       {repeatParams.dstBlkStride, repeatParams.dstRepStride});
}

namespace detail {
inline sim::GatherMaskShape gather_mask_shape(bool reduceMode, uint32_t mask, const GatherMaskParams& p) {
    return {p.src0BlockStride, p.src0RepeatStride, p.src1RepeatStride, reduceMode, mask};
}
}  // namespace detail

template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                uint64_t& rsvdCnt, sim::Where where = sim::Where::here()) {
    static_assert(detail::one_of<U, uint16_t, uint32_t>(),
                  "GatherMask takes a pattern of uint16_t or uint32_t");
    const sim::Local pattern = src1Pattern.ref();
    rsvdCnt = sim::gather_mask(detail::repeated("GatherMask", {}, gatherMaskParams.repeatTimes, where),
                               dst.ref(), src0.ref(), &pattern, 0,
                               detail::gather_mask_shape(reduceMode, mask, gatherMaskParams));
}
template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                uint64_t& rsvdCnt, sim::Where where = sim::Where::here()) {
    rsvdCnt = sim::gather_mask(detail::repeated("GatherMask", {}, gatherMaskParams.repeatTimes, where),
                               dst.ref(), src0.ref(), nullptr, src1Pattern,
                               detail::gather_mask_shape(reduceMode, mask, gatherMaskParams));
}
inline int64_t GetGatherMaskRemainCount(sim::Where where = sim::Where::here()) {
    return static_cast<int64_t>(sim::vector_register(sim::reserved_register, where));
}

// --- Transpose
// ----------------------------------------------------------------------------------------------

template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, sim::Where where = sim::Where::here()) {
    sim::transpose_tile({"Transpose", {}, 1, where}, dst.ref(), src.ref());
}
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<uint8_t>& sharedTmpBuffer, const TransposeParamsExt& transposeParams,
               sim::Where where = sim::Where::here()) {
    const TransposeParamsExt& p = transposeParams;
    switch (p.transposeType) {
        case TransposeType::TRANSPOSE_TYPE_NONE:
            return;
        case TransposeType::TRANSPOSE_ND2ND_B16:
            return sim::transpose_tile({"Transpose", {}, 1, where}, dst.ref(), src.ref());
        case TransposeType::TRANSPOSE_NCHW2NHWC:
        case TransposeType::TRANSPOSE_NHWC2NCHW:
            return sim::transpose_image(
                {"Transpose", {}, 1, where}, dst.ref(), src.ref(), sharedTmpBuffer.ref(),
                {p.nSize, p.cSize, p.hSize, p.wSize, p.transposeType == TransposeType::TRANSPOSE_NHWC2NCHW});
        default:
            sim::fail(where,
                      "[Transpose] Expected transposeType TRANSPOSE_ND2ND_B16, TRANSPOSE_NCHW2NHWC or "
                      "TRANSPOSE_NHWC2NCHW, given number %d",
                      static_cast<int>(p.transposeType));
    }
}

namespace detail {
template <typename T>
void transpose_blocks(const sim::Local* dst, const sim::Local* src, const TransDataTo5HDParams& p,
                      sim::Where where) {
    sim::transpose_blocks({"TransDataTo5HD", {}, p.repeatTimes, where}, dtype_of<T>(), dst, src,
                          {p.dstHighHalf, p.srcHighHalf, p.dstRepStride, p.srcRepStride});
}
}  // namespace detail

template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams, sim::Where where = sim::Where::here()) {
    sim::Local dst[16], src[16];
    for (int i = 0; i < 16; ++i) {
        dst[i] = dstList[i].ref();
        src[i] = srcList[i].ref();
    }
    detail::transpose_blocks<T>(dst, src, nchwconvParams, where);
}
template <typename T>
void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams, sim::Where where = sim::Where::here()) {
    sim::Local dst[16], src[16];
    for (int i = 0; i < 16; ++i) {
        dst[i] = sim::block_at(dstList[i], dtype_of<T>(), where);
        src[i] = sim::block_at(srcList[i], dtype_of<T>(), where);
    }
    detail::transpose_blocks<T>(dst, src, nchwconvParams, where);
}
template <typename T>
void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src,
                    const TransDataTo5HDParams& nchwconvParams, sim::Where where = sim::Where::here()) {
    uint64_t dst_list[16], src_list[16];
    for (uint32_t i = 0; i < 16; ++i) {
        dst_list[i] = dst.GetValue(i, where);
        src_list[i] = src.GetValue(i, where);
    }
    TransDataTo5HD<T>(dst_list, src_list, nchwconvParams, where);
}

}  // namespace AscendC
