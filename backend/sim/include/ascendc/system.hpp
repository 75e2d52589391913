// Where a core finds itself, and text out of a kernel.
#pragma once

#include <cstdio>

#include "sync.hpp"

#define block_idx (static_cast<uint32_t>(::sim::launch_block()))
#define block_num (static_cast<uint32_t>(::sim::block_count()))

inline int64_t get_block_idx() { return sim::launch_block(); }
inline int64_t get_block_num() { return sim::block_count(); }
inline int64_t get_subblockid() { return sim::sub_block_index(); }
inline int64_t get_subblockdim() { return sim::sub_block_count(); }

namespace AscendC {

inline int64_t GetBlockIdx() { return sim::block_index(); }
inline int64_t GetBlockNum() { return sim::block_count(); }
inline int64_t GetSubBlockIdx() { return sim::sub_block_index(); }
inline int64_t GetSubBlockNum() { return sim::sub_block_count(); }
inline int64_t GetTaskRation() { return sim::is_vector() ? sim::sub_block_count() : 1; }
inline int64_t GetTaskRatio() { return GetTaskRation(); }
inline uint8_t* GetSysWorkSpacePtr() { return sim::workspace(); }
inline void SetSysWorkspace(uint8_t*) {}
inline void SetSysWorkspaceForce(uint8_t*) {}
inline uint8_t* GetUserWorkspace(uint8_t* workspace) { return workspace; }
inline int64_t GetDataBlockSizeInBytes() { return 32; }
inline uint32_t GetUBSizeInBytes() { return sim::capacity(sim::Space::UB); }
inline uint32_t GetVecLen() { return 256; }
inline int64_t GetProgramCounter() { return 0; }
inline int64_t GetSystemCycle() { return sim::cycle(); }
inline int32_t GetICachePreloadStatus() { return 0; }
inline void ICachePreLoad(int64_t) {}
inline void Trap() { sim::fail(sim::Where{"", 0}, "Trap was called."); }

// What printf takes in place of a value: a half is printed as a float.
template <typename T>
auto printed(const T& value) {
    if constexpr (sim::is_narrow<T>::value)
        return static_cast<double>(value);
    else
        return value;
}
template <typename... Arguments>
void printf(const char* format, const Arguments&... arguments) {
    sim::print(format, printed(arguments)...);
}
template <typename... Arguments>
void PRINTF(const char* format, const Arguments&... arguments) {
    sim::print(format, printed(arguments)...);
}

template <typename T>
void DumpTensor(const LocalTensor<T>& tensor, uint32_t tag, uint32_t count,
                sim::Where where = sim::Where::here()) {
    sim::dump(tensor.ref(), tag, count, where);
}
template <typename T>
void DumpTensor(const GlobalTensor<T>& tensor, uint32_t tag, uint32_t count,
                sim::Where where = sim::Where::here()) {
    sim::dump(tensor.ref(), tag, count, where);
}
template <typename Tensor>
void DumpTensor(const Tensor& tensor, uint32_t tag, uint32_t count, const ShapeInfo&,
                sim::Where where = sim::Where::here()) {
    sim::dump(tensor.ref(), tag, count, where);
}
template <bool all = true>
void DumpAccChkPoint(...) {}
inline void PrintTimeStamp(uint32_t) {}
inline void MetricsProfStart() {}
inline void MetricsProfStop() {}

// Around the scalar unit's cache.
template <typename T>
void WriteGmByPassDCache(T* address, T value, sim::Where where = sim::Where::here()) {
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(address);
    tensor.SetValue(0, value, where);
}
template <typename T>
T ReadGmByPassDCache(T* address, sim::Where where = sim::Where::here()) {
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(address);
    return tensor.GetValue(0, where);
}

// --- The scalar unit's own operations
// -----------------------------------------------------------------------

// Counts the bits of a value that are 0 or 1.
template <int bit>
int64_t ScalarGetCountOfValue(uint64_t value) {
    return bit ? __builtin_popcountll(value) : 64 - __builtin_popcountll(value);
}
// The place of the first such bit, from the lowest; -1 for none.
template <int bit>
int64_t ScalarGetSFFValue(uint64_t value) {
    const uint64_t looked_for = bit ? value : ~value;
    return looked_for ? __builtin_ctzll(looked_for) : -1;
}
inline int64_t ScalarCountLeadingZero(uint64_t value) { return value ? __builtin_clzll(value) : 64; }
// The number of bits after the sign that equal it.
inline int64_t CountBitsCntSameAsSignBit(int64_t value) { return __builtin_clrsbll(value); }
template <typename From, typename To, RoundMode mode>
To ScalarCast(From value) {
    const auto wide = static_cast<double>(value);
    if constexpr (std::is_integral_v<To>) {
        switch (mode) {
            case RoundMode::CAST_FLOOR:
                return static_cast<To>(__builtin_floor(wide));
            case RoundMode::CAST_CEIL:
                return static_cast<To>(__builtin_ceil(wide));
            case RoundMode::CAST_ROUND:
                return static_cast<To>(__builtin_round(wide));
            case RoundMode::CAST_TRUNC:
                return static_cast<To>(__builtin_trunc(wide));
            default:
                return static_cast<To>(__builtin_nearbyint(wide));
        }
    } else if constexpr (std::is_same_v<To, half>) {
        return half(sim::odd_float(wide));
    } else {
        return To(static_cast<float>(value));
    }
}
inline float ToFloat(bfloat16_t value) { return static_cast<float>(value); }
inline bfloat16_t ToBfloat16(float value) { return bfloat16_t(value); }

}  // namespace AscendC

#ifndef ascendc_assert
#define ascendc_assert(condition, ...)                                                   \
    do {                                                                                 \
        if (!(condition)) ::sim::fail(::sim::Where::here(), "Expected %s.", #condition); \
    } while (0)
#endif
#ifndef ASCENDC_ASSERT
#define ASCENDC_ASSERT(condition, ...) ascendc_assert(condition)
#endif
