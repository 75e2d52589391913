// Events, barriers, signals between cores, and the state that instructions obey.
#pragma once

#include "sim/events.hpp"
#include "tensor.hpp"

namespace AscendC {

template <HardEvent event>
void SetFlag(int32_t id, sim::Where where = sim::Where::here()) {
    constexpr PipePair pair = pipes_of(event);
    sim::set_flag(pair.from, pair.to, id, where);
}

template <HardEvent event>
void WaitFlag(int32_t id, sim::Where where = sim::Where::here()) {
    constexpr PipePair pair = pipes_of(event);
    sim::wait_flag(pair.from, pair.to, id, where);
}

template <pipe_t pipe>
void PipeBarrier(sim::Where where = sim::Where::here()) {
    sim::pipe_barrier(pipe_of(pipe), where);
}

template <MemDsbT kind>
void DataSyncBarrier(sim::Where = sim::Where::here()) {}

template <pipe_t from, pipe_t to>
class TQueSync {
  public:
    void SetFlag(TEventID id, sim::Where where = sim::Where::here()) {
        sim::set_flag(pipe_of(from), pipe_of(to), id, where);
    }
    void WaitFlag(TEventID id, sim::Where where = sim::Where::here()) {
        sim::wait_flag(pipe_of(from), pipe_of(to), id, where);
    }
};

template <uint8_t mode, pipe_t pipe>
void CrossCoreSetFlag(uint16_t id, sim::Where where = sim::Where::here()) {
    sim::core_set(mode, pipe_of(pipe), id, where);
}

template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t id, sim::Where where = sim::Where::here()) {
    sim::core_wait(mode, pipe_of(pipe), id, where);
}

template <bool vector_only = true>
void SyncAll(sim::Where where = sim::Where::here()) {
    sim::sync_all(vector_only, where);
}

// Through memory: as many cores as `used` says, all of them where it is 0.
template <bool vector_only = true>
void SyncAll(const GlobalTensor<int32_t>& memory, const LocalTensor<int32_t>& buffer, const int32_t used = 0,
             sim::Where where = sim::Where::here()) {
    sim::soft_sync_all(memory.ref(), buffer.ref(), used, where);
}

template <bool vector_only = true>
void IBSet(const GlobalTensor<int32_t>& memory, const LocalTensor<int32_t>&, int32_t block, int32_t id,
           sim::Where where = sim::Where::here()) {
    sim::block_set(memory.ref(), block, id, where);
}

template <bool vector_only = true>
void IBWait(const GlobalTensor<int32_t>& memory, const LocalTensor<int32_t>&, int32_t block, int32_t id,
            sim::Where where = sim::Where::here()) {
    sim::block_wait(memory.ref(), block, id, where);
}

// Blocks one after another.
inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>&, LocalTensor<int32_t>&,
                                          sim::Where = sim::Where::here()) {}
inline void WaitPreBlock(GlobalTensor<int32_t>& memory, LocalTensor<int32_t>&,
                         sim::Where where = sim::Where::here()) {
    sim::pipe_barrier(sim::Pipe::ALL, where);
    const int64_t block = sim::block_index();
    if (block > 0) sim::block_wait(memory.ref(), block - 1, -1, where);
}
inline void NotifyNextBlock(GlobalTensor<int32_t>& memory, LocalTensor<int32_t>&,
                            sim::Where where = sim::Where::here()) {
    sim::pipe_barrier(sim::Pipe::ALL, where);
    sim::block_set(memory.ref(), sim::block_index(), -1, where);
}

template <pipe_t vector_pipe = PIPE_MTE3, pipe_t cube_pipe = PIPE_MTE3>
void SetNextTaskStart(sim::Where = sim::Where::here()) {}
template <bool force = false>
void WaitPreTaskEnd(sim::Where = sim::Where::here()) {}

// --- State that instructions obey
// ---------------------------------------------------------------------------

template <typename T>
void SetAtomicAdd(sim::Where = sim::Where::here()) {
    sim::registers().atomic = sim::Registers::Atomic::Add;
    sim::registers().atomic_dtype = dtype_of<T>();
}
template <typename T>
void SetAtomicMax(sim::Where = sim::Where::here()) {
    sim::registers().atomic = sim::Registers::Atomic::Max;
    sim::registers().atomic_dtype = dtype_of<T>();
}
template <typename T>
void SetAtomicMin(sim::Where = sim::Where::here()) {
    sim::registers().atomic = sim::Registers::Atomic::Min;
    sim::registers().atomic_dtype = dtype_of<T>();
}
inline void SetAtomicNone(sim::Where = sim::Where::here()) {
    sim::registers().atomic = sim::Registers::Atomic::None;
}
inline void DisableDmaAtomic(sim::Where = sim::Where::here()) { SetAtomicNone(); }

template <AtomicDtype type, AtomicOp op>
void SetStoreAtomicConfig(sim::Where = sim::Where::here()) {
    using sim::Dtype;
    constexpr Dtype dtypes[] = {Dtype::F32, Dtype::F32, Dtype::F16, Dtype::I16,
                                Dtype::I32, Dtype::I8,  Dtype::BF16};
    sim::registers().atomic =
        type == AtomicDtype::ATOMIC_NONE ? sim::Registers::Atomic::None : sim::Registers::Atomic::Add;
    sim::registers().atomic_dtype = dtypes[static_cast<int>(type)];
}
inline void GetStoreAtomicConfig(uint16_t& type, uint16_t& op, sim::Where = sim::Where::here()) {
    using sim::Dtype;
    const sim::Registers& registers = sim::registers();
    op = 0;
    type = 0;
    if (registers.atomic == sim::Registers::Atomic::None) return;
    switch (registers.atomic_dtype) {
        case Dtype::F32:
            type = 1;
            break;
        case Dtype::F16:
            type = 2;
            break;
        case Dtype::I16:
            type = 3;
            break;
        case Dtype::I32:
            type = 4;
            break;
        case Dtype::I8:
            type = 5;
            break;
        default:
            type = 6;
    }
}

inline void SetMaskCount(sim::Where = sim::Where::here()) { sim::registers().counter = true; }
inline void SetMaskNorm(sim::Where = sim::Where::here()) { sim::registers().counter = false; }

// Only the mask: whether it counts elements or selects them is for SetMaskCount and SetMaskNorm to say.
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(uint64_t high, uint64_t low, sim::Where = sim::Where::here()) {
    sim::registers().mask[0] = low;
    sim::registers().mask[1] = high;
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t count, sim::Where = sim::Where::here()) {
    if constexpr (mode == MaskMode::COUNTER) {
        SetVectorMask<T, mode>(0, static_cast<uint64_t>(count));
    } else {
        const auto ones = [](int32_t bits) {
            return bits >= 64 ? ~uint64_t{0} : bits <= 0 ? uint64_t{0} : (uint64_t{1} << bits) - 1;
        };
        SetVectorMask<T, mode>(ones(count - 64), ones(count));
    }
}
inline void ResetMask(sim::Where = sim::Where::here()) {
    sim::registers().mask[0] = sim::registers().mask[1] = ~uint64_t{0};
}

namespace detail {
constexpr uint64_t bits_between(int8_t start, int8_t end) {
    return (end - start >= 63 ? ~uint64_t{0} : (uint64_t{1} << (end - start + 1)) - 1) << start;
}
}  // namespace detail

template <int8_t start, int8_t end>
void SetCtrlSpr(int64_t value, sim::Where = sim::Where::here()) {
    uint64_t& control = sim::registers().control;
    constexpr uint64_t bits = detail::bits_between(start, end);
    control = (control & ~bits) | ((static_cast<uint64_t>(value) << start) & bits);
}
template <int8_t start, int8_t end>
int64_t GetCtrlSpr(sim::Where = sim::Where::here()) {
    return static_cast<int64_t>((sim::registers().control & detail::bits_between(start, end)) >> start);
}
template <int8_t start, int8_t end>
void ResetCtrlSpr(sim::Where = sim::Where::here()) {
    sim::registers().control &= ~detail::bits_between(start, end);
}

// Which results saturate. CTRL[48] is clear where float16 and bfloat16 ones do.
enum class SaturationMode : uint8_t { FLOAT, CAST };
template <SaturationMode mode>
void SetSaturationFlag(bool enableSat, sim::Where where = sim::Where::here()) {
    if constexpr (mode == SaturationMode::FLOAT)
        SetCtrlSpr<48, 48>(enableSat ? 0 : 1);
    else if (!enableSat)
        sim::fail(
            where,
            "[SetSaturationFlag] Expected true for SaturationMode::CAST (casts to integers that cut off "
            "high bits are not simulated), given false.");
}
template <SaturationMode mode>
bool GetSaturationFlag(sim::Where = sim::Where::here()) {
    return mode != SaturationMode::FLOAT || GetCtrlSpr<48, 48>() == 0;
}
struct AscendCUtils {
    static void SetOverflow(uint64_t ctrlValue) { SetCtrlSpr<48, 48>(ctrlValue == 1 ? 1 : 0); }
};

// What a kernel finds when it starts, put right.
inline void InitSocState(sim::Where = sim::Where::here()) {
    SetAtomicNone();
    SetMaskNorm();
    ResetMask();
}

}  // namespace AscendC

// The instructions under the API's.
inline void set_flag(pipe_t from, pipe_t to, int32_t id, sim::Where where = sim::Where::here()) {
    sim::set_flag(AscendC::pipe_of(from), AscendC::pipe_of(to), id, where);
}
inline void wait_flag(pipe_t from, pipe_t to, int32_t id, sim::Where where = sim::Where::here()) {
    sim::wait_flag(AscendC::pipe_of(from), AscendC::pipe_of(to), id, where);
}
inline void pipe_barrier(pipe_t pipe, sim::Where where = sim::Where::here()) {
    sim::pipe_barrier(AscendC::pipe_of(pipe), where);
}
inline void dsb(mem_dsb_t) {}
inline int64_t get_ctrl() { return static_cast<int64_t>(sim::registers().control); }
inline void set_ctrl(int64_t value) { sim::registers().control = static_cast<uint64_t>(value); }
inline int64_t sbitset0(int64_t value, int32_t bit) { return value & ~(int64_t{1} << bit); }
inline int64_t sbitset1(int64_t value, int32_t bit) { return value | (int64_t{1} << bit); }
