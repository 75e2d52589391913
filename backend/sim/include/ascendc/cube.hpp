// Matrix instructions and the copies that lead to and from them, of the cube core (AIC) of dav-2201.
#pragma once

#include "cube_instructions.hpp"
#include "cube_types.hpp"
#include "tensor.hpp"

namespace AscendC {

namespace detail {

template <typename T>
uint32_t bits_of(T value) {
    uint32_t bits = 0;
    static_assert(sizeof(T) <= 4);
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <typename T>
sim::Load3d load_3d_of(const T& p, uint32_t k_extension, uint32_t m_extension, uint32_t k_start,
                       uint32_t m_start, uint32_t stride_w, uint32_t stride_h, uint32_t filter_w,
                       uint32_t filter_h, uint32_t dilation_w, uint32_t dilation_h) {
    return {p.channelSize,
            k_extension,
            m_extension,
            k_start,
            m_start,
            stride_w,
            stride_h,
            filter_w + (p.filterSizeW ? 256 : 0),
            filter_h + (p.filterSizeH ? 256 : 0),
            dilation_w,
            dilation_h,
            p.enTranspose,
            p.fMatrixCtrl};
}

constexpr sim::Quantization quantization_of(QuantMode_t mode) {
    using sim::Quantization;
    switch (mode) {
        case F322F16:
            return Quantization::ToHalf;
        case F322BF16:
            return Quantization::ToBfloat;
        case DEQF16:
            return Quantization::IntToHalf;
        case VDEQF16:
            return Quantization::IntToHalfByColumn;
        case QF322B8_PRE:
            return Quantization::FloatToByte;
        case VQF322B8_PRE:
            return Quantization::FloatToByteByColumn;
        case REQ8:
            return Quantization::IntToByte;
        case VREQ8:
            return Quantization::IntToByteByColumn;
        default:
            return Quantization::None;
    }
}

inline sim::Out out_of(const FixpipeParamsV220& p, bool row_major) {
    return {p.nSize,     p.mSize,          p.srcStride,   p.dstStride,   quantization_of(p.quantPre),
            p.deqScalar, p.ndNum,          p.srcNdStride, p.dstNdStride, p.reluEn,
            row_major,   p.isChannelSplit, p.unitFlag};
}

inline sim::Out out_of(const DataCopyCO12DstParams& p) {
    return {p.nSize,        p.mSize,   p.srcStride,    p.dstStride, quantization_of(p.quantPre), 0, 1, 0, 0,
            p.reluPre != 0, p.nz2ndEn, p.channelSplit, p.unitFlag};
}

inline sim::Multiply multiply_of(const MmadParams& p) {
    return {p.m, p.n, p.k, p.unitFlag, p.kDirectionAlign, p.cmatrixSource, p.cmatrixInitVal && !p.isBias};
}

template <typename T, typename U, typename S>
constexpr bool mmad_takes() {
    return std::is_same_v<U, S> &&
           ((std::is_same_v<T, float> &&
             (std::is_same_v<U, half> || std::is_same_v<U, bfloat16_t> || std::is_same_v<U, float>)) ||
            (std::is_same_v<T, int32_t> && (std::is_same_v<U, int8_t> || std::is_same_v<U, int4b_t>)));
}

}  // namespace detail

// --- GM → L1, L0C → GM and L1
// -------------------------------------------------------------------------------

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& intriParams,
              sim::Where where = sim::Where::here()) {
    const Nd2NzParams& p = intriParams;
    sim::nd_to_nz(dst.ref(), src.ref(),
                  {p.ndNum, p.nValue, p.dValue, p.srcNdMatrixStride, p.srcDValue, p.dstNzC0Stride,
                   p.dstNzNStride, p.dstNzMatrixStride},
                  where);
}

template <typename T, typename U>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& intriParams,
              sim::Where where = sim::Where::here()) {
    sim::copy_from_l0c(dst.ref(), src.ref(), detail::out_of(intriParams), where);
}
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& intriParams,
              sim::Where where = sim::Where::here()) {
    sim::copy_from_l0c(dst.ref(), src.ref(), detail::out_of(intriParams), where);
}

// --- L1 → L0A and L0B
// ---------------------------------------------------------------------------------------

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& loadDataParams,
              sim::Where where = sim::Where::here()) {
    const LoadData2DParams& p = loadDataParams;
    sim::load_2d(dst.ref(), src.ref(),
                 {p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.ifTranspose, p.addrMode != 0}, where);
}
template <typename T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& loadDataParams,
              sim::Where where = sim::Where::here()) {
    const LoadData2DParams& p = loadDataParams;
    sim::load_2d(dst.ref(), src.ref(),
                 {p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.ifTranspose, p.addrMode != 0}, where);
}

template <typename T>
void LoadData(const LocalTensor<T>&, const LocalTensor<T>&, const LoadData2DParamsV2&,
              sim::Where where = sim::Where::here()) {
    sim::fail(
        where,
        "[LoadData] Expected LoadData2DParams, given LoadData2DParamsV2, which dav-2201 does not have.");
}

template <typename T, const IsResetLoad3dConfig& defaultConfig = IS_RESER_LOAD3D_DEFAULT_CONFIG,
          typename U = T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const LoadData3DParamsV2<U>& loadDataParams, sim::Where where = sim::Where::here()) {
    static_assert(std::is_same_v<T, U>, "LoadData: padValue must have the type of the tensors");
    const LoadData3DParamsV2<U>& p = loadDataParams;
    const sim::FeatureMap map{p.l1H, p.l1W, {p.padList[0], p.padList[1], p.padList[2], p.padList[3]}};
    const uint32_t padding = detail::bits_of(p.padValue);
    sim::load_3d(dst.ref(), src.ref(),
                 detail::load_3d_of(p, p.kExtension, p.mExtension, p.kStartPt, p.mStartPt, p.strideW,
                                    p.strideH, p.filterW, p.filterH, p.dilationFilterW, p.dilationFilterH),
                 defaultConfig.isSetFMatrix ? &map : nullptr, defaultConfig.isSetPadding ? &padding : nullptr,
                 where);
}

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const LoadData3DParamsV2Pro& loadDataParams, sim::Where where = sim::Where::here()) {
    const LoadData3DParamsV2Pro& p = loadDataParams;
    const auto part = [](uint64_t word, int shift, uint32_t mask) {
        return static_cast<uint32_t>(word >> shift) & mask;
    };
    const uint64_t e = p.extConfig, f = p.filterConfig;
    sim::load_3d(
        dst.ref(), src.ref(),
        detail::load_3d_of(p, part(e, 0, 0xffff), part(e, 16, 0xffff), part(e, 32, 0xffff),
                           part(e, 48, 0xffff), part(f, 0, 0xff), part(f, 8, 0xff), part(f, 16, 0xff),
                           part(f, 24, 0xff), part(f, 32, 0xff), part(f, 40, 0xff)),
        nullptr, nullptr, where);
}

template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                           const LoadData2dTransposeParams& loadDataParams,
                           sim::Where where = sim::Where::here()) {
    const LoadData2dTransposeParams& p = loadDataParams;
    sim::load_2d_transposed(
        dst.ref(), src.ref(),
        {p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.dstFracGap, p.addrMode != 0}, where);
}

inline void SetFmatrix(uint16_t l1H, uint16_t l1W, const uint8_t padList[4], const FmatrixMode& fmatrixMode) {
    sim::set_feature_map({l1H, l1W, {padList[0], padList[1], padList[2], padList[3]}},
                         fmatrixMode == FmatrixMode::FMATRIX_RIGHT);
}
template <typename T>
void SetLoadDataPaddingValue(const T padValue) {
    sim::set_padding(detail::bits_of(padValue));
}
inline void SetLoadDataRepeat(const LoadDataRepeatParam& repeatParams) {
    sim::set_load_3d_repeat(repeatParams.repeatStride, repeatParams.repeatTime, repeatParams.repeatMode);
}
inline void SetLoadDataBoundary(uint32_t boundaryValue, sim::Where where = sim::Where::here()) {
    if (boundaryValue != 0)
        sim::fail(where, "[SetLoadDataBoundary] Expected 0 (no other boundary is simulated), given %u.",
                  boundaryValue);
}

template <typename T, typename U = T>
void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams,
          sim::Where where = sim::Where::here()) {
    static_assert(std::is_same_v<T, U>, "Fill: initValue must have the type of the tensor");
    const InitConstValueParams<U>& p = initConstValueParams;
    sim::fill(dst.ref(), {p.repeatTimes, p.blockNum, p.dstGap, detail::bits_of(p.initValue)}, where);
}
template <typename T, typename U = T>
void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams,
                    sim::Where where = sim::Where::here()) {
    Fill(dst, initConstValueParams, where);
}

// --- Mmad
// ---------------------------------------------------------------------------------------------------

template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const MmadParams& mmadParams, sim::Where where = sim::Where::here()) {
    static_assert(
        detail::mmad_takes<T, U, S>(),
        "Mmad takes half, bfloat16_t or float with a float result, int8_t or int4b_t with an int32_t one");
    sim::mmad(dst.ref(), fm.ref(), filter.ref(), nullptr, detail::multiply_of(mmadParams), where);
}
template <typename T, typename U, typename S, typename V>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const LocalTensor<V>& bias, const MmadParams& mmadParams, sim::Where where = sim::Where::here()) {
    static_assert(
        detail::mmad_takes<T, U, S>() && std::is_same_v<T, V>,
        "Mmad takes half, bfloat16_t or float with a float bias and result, int8_t with int32_t ones");
    const sim::Local table = bias.ref();
    sim::mmad(dst.ref(), fm.ref(), filter.ref(), &table, detail::multiply_of(mmadParams), where);
}

inline void SetHF32Mode(HF32Mode mode) { sim::set_hf32(mode == HF32Mode::ENABLE); }
inline void SetHF32Mode(bool hf32Mode) { sim::set_hf32(hf32Mode); }
inline void SetHF32TransMode(HF32TransMode mode) {
    sim::set_hf32_rounding(mode == HF32TransMode::NEAREST_EVEN);
}
inline void SetHF32TransMode(bool hf32TransMode) { sim::set_hf32_rounding(!hf32TransMode); }  // true: to zero
// The order in which Mmad makes its fractals; no result depends on it.
inline void SetMMRowMajor() {}
inline void SetMMColumnMajor() {}
inline void SetMMLayoutTransform(bool) {}

// --- Fixpipe
// ------------------------------------------------------------------------------------------------

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& intriParams,
             sim::Where where = sim::Where::here()) {
    static_assert(config.format != CO2Layout::COLUMN_MAJOR, "Fixpipe: CFG_COLUMN_MAJOR is not for this chip");
    sim::fixpipe(dst.ref(), src.ref(), nullptr,
                 detail::out_of(intriParams, config.format == CO2Layout::ROW_MAJOR), where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR, typename S = uint64_t>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<S>& cbufWorkspace,
             const FixpipeParamsV220& intriParams, sim::Where where = sim::Where::here()) {
    static_assert(config.format != CO2Layout::COLUMN_MAJOR, "Fixpipe: CFG_COLUMN_MAJOR is not for this chip");
    static_assert(std::is_same_v<S, uint64_t>, "Fixpipe: the scales are a tensor of uint64_t");
    const sim::Local scales = cbufWorkspace.ref();
    sim::fixpipe(dst.ref(), src.ref(), &scales,
                 detail::out_of(intriParams, config.format == CO2Layout::ROW_MAJOR), where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& intriParams,
             sim::Where where = sim::Where::here()) {
    sim::fixpipe(dst.ref(), src.ref(), nullptr,
                 detail::out_of(intriParams, config.format == CO2Layout::ROW_MAJOR), where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR, typename S = uint64_t>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<S>& cbufWorkspace,
             const FixpipeParamsV220& intriParams, sim::Where where = sim::Where::here()) {
    static_assert(std::is_same_v<S, uint64_t>, "Fixpipe: the scales are a tensor of uint64_t");
    const sim::Local scales = cbufWorkspace.ref();
    sim::fixpipe(dst.ref(), src.ref(), &scales,
                 detail::out_of(intriParams, config.format == CO2Layout::ROW_MAJOR), where);
}

template <typename T>
void SetFixPipeConfig(const LocalTensor<T>&, const LocalTensor<T>& quantPre, bool isUnitFlag = false,
                      sim::Where where = sim::Where::here()) {
    sim::set_fixpipe_scales(quantPre.ref(), isUnitFlag, where);
}
template <typename T, bool setRelu = false>
void SetFixPipeConfig(const LocalTensor<T>& preData, bool isUnitFlag = false,
                      sim::Where where = sim::Where::here()) {
    static_assert(!setRelu, "SetFixPipeConfig sets the scales of a quantisation only");
    sim::set_fixpipe_scales(preData.ref(), isUnitFlag, where);
}
inline void SetFixpipeNz2ndFlag(uint16_t ndNum, uint16_t srcNdStride, uint16_t dstNdStride) {
    sim::set_fixpipe_matrices(ndNum, srcNdStride, dstNdStride);
}
inline void SetFixpipePreQuantFlag(uint64_t config) { sim::set_fixpipe_scalar(config); }

}  // namespace AscendC
