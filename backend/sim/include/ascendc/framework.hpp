// The pipe object, its buffers and queues, and the static allocator.
#pragma once

#include <exception>

#include "sync.hpp"

namespace AscendC {

// The positions a queue's one position stands for.
constexpr TPosition queue_source(TPosition position) {
    switch (position) {
        case TPosition::A2:
            return TPosition::A1;
        case TPosition::B2:
            return TPosition::B1;
        case TPosition::C2:
            return TPosition::C1;
        case TPosition::C2PIPE2GM:
            return TPosition::B1;
        case TPosition::VECOUT:
        case TPosition::CO1:
        case TPosition::CO2:
            return position;
        case TPosition::SPM:
            return TPosition::VECOUT;
        case TPosition::VECCALC:
            return TPosition::VECCALC;
        default:
            return TPosition::GM;
    }
}
constexpr TPosition queue_target(TPosition position) {
    switch (position) {
        case TPosition::VECOUT:
        case TPosition::CO2:
        case TPosition::SPM:
            return TPosition::GM;
        case TPosition::CO1:
            return TPosition::CO2;
        default:
            return position;
    }
}

// Whose memory a queue from one position to another is in.
constexpr TPosition queue_memory(TPosition source, TPosition target) {
    return target == TPosition::GM || target == TPosition::CO2 ? source : target;
}

// The pipe that fills a queue's tensors and the one that empties them; ALL for none.
constexpr PipePair queue_pipes(TPosition source, TPosition target) {
    using sim::Pipe;
    using sim::Space;
    const Space from = space_of(source), to = space_of(target);
    if (source == TPosition::CO1) return {Pipe::M, Pipe::FIX};
    if (from == Space::GM) {
        if (to == Space::UB) return {Pipe::MTE2, Pipe::V};
        if (to == Space::L1) return {Pipe::MTE2, Pipe::MTE1};
        return {Pipe::MTE2, Pipe::M};
    }
    if (from == Space::UB) {
        if (to == Space::GM) return {Pipe::V, Pipe::MTE3};
        if (to == Space::L1) return {Pipe::MTE3, Pipe::MTE1};
        if (source == target) return {Pipe::V, Pipe::V};
        return {Pipe::MTE2, Pipe::MTE3};
    }
    if (from == Space::L1) {
        if (to == Space::FB) return {Pipe::MTE1, Pipe::FIX};
        return {Pipe::MTE1, Pipe::M};
    }
    return {Pipe::ALL, Pipe::ALL};
}

using TBufHandle = uint32_t;  // the number of a buffer in its pool

template <TPosition source, TPosition target, int32_t depth, auto mask = 0>
class TQueBind {
  public:
    static constexpr TPosition memory_position = queue_memory(source, target);
    static constexpr bool isTQue = true;

    TQueBind() = default;

    template <typename T>
    LocalTensor<T> AllocTensor(sim::Where where = sim::Where::here()) {
        return LocalTensor<T>(queue_.take(dtype_of<T>(), where));
    }
    template <typename T>
    void AllocTensor(LocalTensor<T>& tensor, sim::Where where = sim::Where::here()) {
        tensor = AllocTensor<T>(where);
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T>& tensor, sim::Where where = sim::Where::here()) {
        queue_.give_back(tensor.ref(), where);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor, sim::Where where = sim::Where::here()) {
        queue_.put(tensor.ref(), where);
        return true;
    }
    template <TPosition from, TPosition to, typename T>
    bool EnQue(const LocalTensor<T>& tensor, sim::Where where = sim::Where::here()) {
        constexpr PipePair pair = queue_pipes(from, to);
        queue_.put(tensor.ref(), pair.from, pair.to, where);
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue(sim::Where where = sim::Where::here()) {
        return LocalTensor<T>(queue_.get(dtype_of<T>(), where));
    }
    template <typename T>
    void DeQue(LocalTensor<T>& tensor, sim::Where where = sim::Where::here()) {
        tensor = DeQue<T>(where);
    }
    template <TPosition from, TPosition to, typename T>
    LocalTensor<T> DeQue(sim::Where where = sim::Where::here()) {
        constexpr PipePair pair = queue_pipes(from, to);
        return LocalTensor<T>(queue_.get(dtype_of<T>(), pair.from, pair.to, where));
    }
    bool VacantInQue() const { return queue_.vacant(); }
    bool HasTensorInQue() const { return queue_.waiting() > 0; }
    int32_t GetTensorCountInQue() const { return queue_.waiting(); }
    bool HasIdleBuffer() const { return queue_.idle(); }
    void FreeAllEvent() {}
    // For pools of the program's own: where each buffer is.
    void InitStartBufHandle(TBufHandle, uint8_t, uint32_t) {}
    template <class Pool>
    void InitBufHandle(Pool*, uint32_t index, TBufHandle, uint32_t address, uint32_t bytes,
                       sim::Where where = sim::Where::here()) {
        sim::BufferRange range = sim::allocate_at(static_cast<uint8_t>(memory_position),
                                                  space_of(memory_position), 1, address, bytes, where);
        if (index > 0) range = {queue_.buffers().first, static_cast<uint8_t>(index + 1)};
        queue_.own(range);
    }

    sim::Queue& queue() { return queue_; }

  private:
    static constexpr PipePair pair_ = queue_pipes(source, target);
    sim::Queue queue_{static_cast<uint8_t>(memory_position), space_of(memory_position), pair_.from, pair_.to,
                      depth};
};

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<queue_source(position), queue_target(position), depth, mask> {};

template <TPosition position, int32_t depth = 1, auto mask = 0>
using TSCM = TQueBind<position, TPosition::TSCM, depth, mask>;

template <TPosition position = TPosition::LCM>
class TBuf {
  public:
    static constexpr TPosition memory_position = position;
    static constexpr bool isTQue = false;

    template <typename T>
    LocalTensor<T> Get(sim::Where where = sim::Where::here()) {
        return tensor<T>(0, sim::buffer_bytes(buffer_), where);
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t count, sim::Where where = sim::Where::here()) {
        return tensor<T>(0, bytes_of<T>(count), where);
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t count, uint32_t offset, sim::Where where = sim::Where::here()) {
        return tensor<T>(offset, bytes_of<T>(count), where);
    }
    template <typename T>
    LocalTensor<T> AllocTensor(sim::Where where = sim::Where::here()) {
        return Get<T>(where);
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T>&, sim::Where = sim::Where::here()) {}
    template <typename T>
    void EnQue(const LocalTensor<T>&, sim::Where = sim::Where::here()) {}
    template <typename T>
    LocalTensor<T> DeQue(sim::Where where = sim::Where::here()) {
        return Get<T>(where);
    }
    uint32_t GetBufLen() const { return sim::buffer_bytes(buffer_); }
    void InitStartBufHandle(TBufHandle, uint8_t, uint32_t) {}
    template <class Pool>
    void InitBufHandle(Pool*, uint32_t, TBufHandle, uint32_t address, uint32_t bytes,
                       sim::Where where = sim::Where::here()) {
        own(sim::allocate_at(static_cast<uint8_t>(position), space_of(position), 1, address, bytes, where));
    }

    void own(sim::BufferRange range) { buffer_ = range.first; }

  private:
    template <typename T>
    LocalTensor<T> tensor(uint64_t offset, uint64_t bytes, sim::Where where) {
        return LocalTensor<T>(sim::buffer_tensor(buffer_, offset, bytes, dtype_of<T>(), where));
    }
    int32_t buffer_ = -1;
};

template <TPosition position, uint32_t ids = 16>
class TBufPool {
  public:
    static constexpr TPosition poolPos = position;
    static constexpr bool isTbufPool = true;

    template <class Q>
    bool InitBuffer(Q& queue, uint8_t count, uint32_t bytes, sim::Where where = sim::Where::here()) {
        queue.queue().own(take(static_cast<uint8_t>(Q::memory_position), space_of(Q::memory_position), count,
                               bytes, where));
        return true;
    }
    template <TPosition of>
    bool InitBuffer(TBuf<of>& buffer, uint32_t bytes, sim::Where where = sim::Where::here()) {
        buffer.own(take(static_cast<uint8_t>(of), space_of(of), 1, bytes, where));
        return true;
    }
    template <class Pool>
    bool InitBufPool(Pool& pool, uint32_t bytes, sim::Where where = sim::Where::here()) {
        const sim::BufferRange range =
            take(static_cast<uint8_t>(Pool::poolPos), space_of(Pool::poolPos), 1, bytes, where);
        pool.begin(sim::buffer_address(range.first), bytes);
        return true;
    }
    template <class Pool, class Other>
    bool InitBufPool(Pool& pool, uint32_t bytes, Other& shared, sim::Where = sim::Where::here()) {
        pool.begin(shared.address(), bytes);
        return true;
    }
    void Reset(sim::Where where = sim::Where::here()) {
        sim::release_between(space_of(position), address_, address_ + size_, where);
        used_ = 0;
    }

    void begin(uint32_t address, uint32_t bytes) {
        address_ = address;
        size_ = bytes;
        used_ = 0;
    }
    uint32_t address() const { return address_; }

  private:
    sim::BufferRange take(uint8_t of, sim::Space space, uint8_t count, uint32_t bytes, sim::Where where) {
        const uint32_t all = count * ((bytes + 31U) & ~31U);
        if (used_ + all > size_)
            sim::fail(sim::Kind::Capacity, where,
                      "[InitBuffer] Expected buffers within the pool's %u bytes, given %u "
                      "after %u that are taken.",
                      size_, all, used_);
        const sim::BufferRange range = sim::allocate_at(of, space, count, address_ + used_, bytes, where);
        used_ += all;
        return range;
    }
    uint32_t address_ = 0, size_ = 0, used_ = 0;
};

class TPipe {
  public:
    explicit TPipe(sim::Where where = sim::Where::here()) : where_(where) { Init(); }
    ~TPipe() noexcept(false) {
        if (std::uncaught_exceptions() == 0 && alive_) Destroy(where_);
        sim::pipe_ends(this);
    }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    void Init() {
        alive_ = true;
        sim::pipe_begins(this);
    }
    template <class Q>
    bool InitBuffer(Q& queue, uint8_t count, uint32_t bytes, sim::Where where = sim::Where::here()) {
        queue.queue().own(sim::allocate(this, static_cast<uint8_t>(Q::memory_position),
                                        space_of(Q::memory_position), count, bytes, where));
        return true;
    }
    template <TPosition position>
    bool InitBuffer(TBuf<position>& buffer, uint32_t bytes, sim::Where where = sim::Where::here()) {
        buffer.own(sim::allocate(this, static_cast<uint8_t>(position), space_of(position), 1, bytes, where));
        return true;
    }
    template <class Pool>
    bool InitBufPool(Pool& pool, uint32_t bytes, sim::Where where = sim::Where::here()) {
        const sim::BufferRange range = sim::allocate(this, static_cast<uint8_t>(Pool::poolPos),
                                                     space_of(Pool::poolPos), 1, bytes, where);
        pool.begin(sim::buffer_address(range.first), bytes);
        return true;
    }
    template <class Pool, class Other>
    bool InitBufPool(Pool& pool, uint32_t bytes, Other& shared, sim::Where = sim::Where::here()) {
        pool.begin(shared.address(), bytes);
        return true;
    }

    template <HardEvent event>
    TEventID AllocEventID(sim::Where where = sim::Where::here()) {
        constexpr PipePair pair = pipes_of(event);
        return static_cast<TEventID>(sim::free_event(pair.from, pair.to, true, where));
    }
    template <HardEvent event>
    void ReleaseEventID(TEventID id, sim::Where where = sim::Where::here()) {
        constexpr PipePair pair = pipes_of(event);
        sim::release_event(pair.from, pair.to, id, where);
    }
    template <HardEvent event>
    TEventID FetchEventID(sim::Where where = sim::Where::here()) {
        return FetchEventID(event, where);
    }
    TEventID FetchEventID(HardEvent event, sim::Where where = sim::Where::here()) {
        const PipePair pair = pipes_of(event);
        return static_cast<TEventID>(sim::free_event(pair.from, pair.to, false, where));
    }

    void Reset(sim::Where where = sim::Where::here()) { sim::release(false, where); }
    void Destroy(sim::Where where = sim::Where::here()) {
        if (!alive_) return;
        alive_ = false;
        sim::release(true, where);
    }
    void DestroyWithoutPipeAll(sim::Where where = sim::Where::here()) {
        if (!alive_) return;
        alive_ = false;
        sim::release(false, where);
    }

    template <TPosition position, typename T>
    LocalTensor<T> GetAbsAddr(int32_t offset, int32_t count) const {
        return LocalTensor<T>(position, static_cast<uint32_t>(offset), static_cast<uint32_t>(count));
    }

  private:
    sim::Where where_;
    bool alive_ = true;
};

}  // namespace AscendC

inline AscendC::TPipe* GetTPipePtr() { return static_cast<AscendC::TPipe*>(sim::current_pipe()); }

namespace AscendC {

using ::GetTPipePtr;

// Hands out one memory from its start on.
template <Hardware hardware = Hardware::UB>
class LocalMemAllocator {
  public:
    uint32_t GetCurAddr() const { return head_; }
    template <TPosition position, class T, uint32_t count>
    LocalTensor<T> Alloc(sim::Where where = sim::Where::here()) {
        return take<T>(position, count, where);
    }
    template <TPosition position, class T>
    LocalTensor<T> Alloc(uint32_t count, sim::Where where = sim::Where::here()) {
        return take<T>(position, count, where);
    }
    template <class T, uint32_t count>
    LocalTensor<T> Alloc(sim::Where where = sim::Where::here()) {
        return take<T>(default_position(hardware), count, where);
    }
    template <class T>
    LocalTensor<T> Alloc(uint32_t count, sim::Where where = sim::Where::here()) {
        return take<T>(default_position(hardware), count, where);
    }

  private:
    template <class T>
    LocalTensor<T> take(TPosition position, uint32_t count, sim::Where where) {
        const LocalTensor<T> tensor(position, head_, count, where);
        head_ += (static_cast<uint32_t>(bytes_of<T>(count)) + 31U) & ~31U;
        return tensor;
    }
    uint32_t head_ = 0;
};

}  // namespace AscendC

// The members of a pool class that hands out its memory in a way of its own.
#define EXTERN_IMPL_BUFPOOL(NAME, POSITION, COUNT)                                                       \
  public:                                                                                                \
    static constexpr AscendC::TPosition poolPos = POSITION;                                              \
    static constexpr int bufIDSize = COUNT;                                                              \
    static constexpr bool isTbufPool = true;                                                             \
    void Init() { begin(0, 0); }                                                                         \
    void Reset(sim::Where where = sim::Where::here()) {                                                  \
        sim::release_between(AscendC::space_of(poolPos), pool_start_, pool_start_ + pool_bytes_, where); \
        begin(pool_start_, pool_bytes_);                                                                 \
    }                                                                                                    \
    AscendC::TBufHandle GetBufHandle(uint8_t number) { return number; }                                  \
    void SetCurAddr(uint32_t address) { pool_next_ = address; }                                          \
    uint32_t GetCurAddr() { return pool_next_; }                                                         \
    void SetCurBufSize(uint8_t count) { pool_count_ = count; }                                           \
    uint8_t GetCurBufSize() { return pool_count_; }                                                      \
    void begin(uint32_t address, uint32_t bytes) {                                                       \
        pool_start_ = pool_next_ = address;                                                              \
        pool_bytes_ = bytes;                                                                             \
        pool_count_ = 0;                                                                                 \
    }                                                                                                    \
    uint32_t address() const { return pool_start_; }                                                     \
                                                                                                         \
  private:                                                                                               \
    uint32_t pool_start_ = 0, pool_next_ = 0, pool_bytes_ = 0;                                           \
    uint8_t pool_count_ = 0
