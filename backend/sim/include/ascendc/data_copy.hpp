// Copies between GM, UB and L1.
#pragma once

#include "sim/transfer.hpp"
#include "vector_params.hpp"

namespace AscendC {

enum class PaddingMode : uint8_t { Normal, Compact };

struct DataCopyParams {
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t length, uint16_t source, uint16_t destination)
        : blockCount(count), blockLen(length), srcGap(source), dstGap(destination) {}

    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    union {
        uint16_t srcGap = 0;
        uint16_t srcStride;
    };
    union {
        uint16_t dstGap = 0;
        uint16_t dstStride;
    };
    uint8_t fixShiftVal = 0;
};

struct DataCopyExtParams {
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t length, uint32_t source, uint32_t destination,
                      uint32_t reserved)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(destination), rsv(reserved) {}

    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

struct DataCopyPadParams {
    DataCopyPadParams() = default;
    DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}

    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    uint64_t paddingValue = 0;
};

template <typename T>
struct DataCopyPadExtParams {
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}

    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue = 0;
};

struct SliceInfo {
    SliceInfo() = default;
    SliceInfo(uint32_t start, uint32_t end, uint32_t gap, uint32_t burst, uint32_t shape = 0)
        : startIndex(start), endIndex(end), stride(gap), burstLen(burst), shapeValue(shape) {}

    uint32_t startIndex = 0;
    uint32_t endIndex = ONE_BLK_SIZE - 1;
    uint32_t stride = 0;
    uint32_t burstLen = ONE_BLK_SIZE;
    uint32_t shapeValue = 0;
};

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
              sim::Where where = sim::Where::here()) {
    sim::copy_count(dst.ref(), src.ref(), count, where);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              sim::Where where = sim::Where::here()) {
    sim::copy_count(dst.ref(), src.ref(), count, where);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              sim::Where where = sim::Where::here()) {
    sim::copy_count(dst.ref(), src.ref(), count, where);
}

namespace detail {
inline sim::Blocks blocks_of(const DataCopyParams& p) {
    return {p.blockCount, p.blockLen, p.srcGap, p.dstGap};
}
inline sim::Blocks blocks_of(const DataCopyExtParams& p) {
    return {p.blockCount, p.blockLen, p.srcStride, p.dstStride};
}
}  // namespace detail

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams,
              sim::Where where = sim::Where::here()) {
    sim::copy_blocks(dst.ref(), src.ref(), detail::blocks_of(repeatParams), where);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams,
              sim::Where where = sim::Where::here()) {
    sim::copy_blocks(dst.ref(), src.ref(), detail::blocks_of(repeatParams), where);
}
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& repeatParams,
              sim::Where where = sim::Where::here()) {
    sim::copy_blocks(dst.ref(), src.ref(), detail::blocks_of(repeatParams), where);
}

namespace detail {

template <typename Copy>
void slices(const SliceInfo* dst, const SliceInfo* src, uint32_t dimensions, sim::Where where, Copy copy) {
    if (dimensions > K_MAX_DIM)
        sim::fail(where, "[DataCopy] Expected dimValue of at most %d, given %u", K_MAX_DIM, dimensions);
    sim::Slice to[K_MAX_DIM], from[K_MAX_DIM];
    for (uint32_t i = 0; i < dimensions; ++i) {
        to[i] = {dst[i].startIndex, dst[i].endIndex, dst[i].stride, dst[i].burstLen, dst[i].shapeValue};
        from[i] = {src[i].startIndex, src[i].endIndex, src[i].stride, src[i].burstLen, src[i].shapeValue};
    }
    copy(to, from);
}

}  // namespace detail

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[],
              const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1,
              sim::Where where = sim::Where::here()) {
    detail::slices(dstSliceInfo, srcSliceInfo, dimValue, where,
                   [&](const sim::Slice* to, const sim::Slice* from) {
                       sim::copy_slices(dst.ref(), src.ref(), to, from, dimValue, where);
                   });
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[],
              const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1,
              sim::Where where = sim::Where::here()) {
    detail::slices(dstSliceInfo, srcSliceInfo, dimValue, where,
                   [&](const sim::Slice* to, const sim::Slice* from) {
                       sim::copy_slices(dst.ref(), src.ref(), to, from, dimValue, where);
                   });
}

// --- Any number of bytes
// ------------------------------------------------------------------------------------

template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                 const DataCopyExtParams& dataCopyParams, const DataCopyPadExtParams<T>& padParams,
                 sim::Where where = sim::Where::here()) {
    static_assert(mode == PaddingMode::Normal, "DataCopyPad has no compact mode on dav-2201");
    sim::copy_padded(dst.ref(), src.ref(), detail::blocks_of(dataCopyParams),
                     {padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                      sim::scalar_bits(padParams.paddingValue)},
                     where);
}
template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& dataCopyParams,
                 const DataCopyPadParams& padParams, sim::Where where = sim::Where::here()) {
    static_assert(mode == PaddingMode::Normal, "DataCopyPad has no compact mode on dav-2201");
    sim::copy_padded(dst.ref(), src.ref(), detail::blocks_of(dataCopyParams),
                     {padParams.isPad, padParams.leftPadding, padParams.rightPadding, padParams.paddingValue},
                     where);
}
template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                 const DataCopyExtParams& dataCopyParams, sim::Where where = sim::Where::here()) {
    static_assert(mode == PaddingMode::Normal, "DataCopyPad has no compact mode on dav-2201");
    sim::copy_padded(dst.ref(), src.ref(), detail::blocks_of(dataCopyParams), where);
}
template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& dataCopyParams,
                 sim::Where where = sim::Where::here()) {
    static_assert(mode == PaddingMode::Normal, "DataCopyPad has no compact mode on dav-2201");
    sim::copy_padded(dst.ref(), src.ref(), detail::blocks_of(dataCopyParams), where);
}

template <typename T, TPosition pos = TPosition::MAX>
void SetPadValue(T paddingValue, sim::Where = sim::Where::here()) {
    sim::set_padding_value(sim::scalar_bits(paddingValue));
}

template <typename T>
void InitOutput(GlobalTensor<T> gmWorkspaceAddr, uint32_t size, T value = 0,
                sim::Where where = sim::Where::here()) {
    sim::fill_output(gmWorkspaceAddr.ref(), size, sim::scalar_bits(value), where);
}
template <typename T>
void Fill(GlobalTensor<T> gmWorkspaceAddr, uint64_t size, T value, sim::Where where = sim::Where::here()) {
    sim::fill_output(gmWorkspaceAddr.ref(), size, sim::scalar_bits(value), where);
}

}  // namespace AscendC
