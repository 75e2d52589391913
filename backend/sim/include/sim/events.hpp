// What orders a core's pipes, and cores among each other; buffers, queues and the pipe object's memory.
#pragma once

#include <deque>
#include <vector>

#include "core.hpp"

namespace sim {

// Flags between pipes of a core. `id` is 0 … 7 for each pair of pipes.
void set_flag(Pipe from, Pipe to, int32_t id, Where where);
void wait_flag(Pipe from, Pipe to, int32_t id, Where where);
void pipe_barrier(Pipe pipe, Where where);
// Ids that are free for a pair of pipes; `take` marks the id as taken.
int32_t free_event(Pipe from, Pipe to, bool take, Where where);
void release_event(Pipe from, Pipe to, int32_t id, Where where);

// Flags between cores, as CrossCoreSetFlag has them.
void core_set(uint8_t mode, Pipe pipe, uint16_t id, Where where);
void core_wait(uint8_t mode, Pipe pipe, uint16_t id, Where where);
// All vector cores, or all cores of a kernel for both kinds.
void sync_all(bool vector_only, Where where);
// The same through memory: the first `used` cores, all of them for 0.
void soft_sync_all(const Global& memory, const Local& buffer, int32_t used, Where where);
// Counted signals through memory: IBSet and IBWait, WaitPreBlock and NotifyNextBlock.
void block_set(const Global& memory, int64_t block, int32_t id, Where where);
void block_wait(const Global& memory, int64_t block, int32_t id, Where where);

int64_t block_index();   // of this core among its kind
int64_t launch_block();  // of this core's block
int64_t block_count();   // as launched
int64_t sub_block_index();
int64_t sub_block_count();  // vector cores to a cube core, 1 outside mixed kernels
uint8_t* workspace();

// The memory a pipe object hands out.
struct BufferRange {
    int32_t first;  // number of the first buffer
    uint8_t count;
};
BufferRange allocate(void* owner, uint8_t position, Space space, uint8_t count, uint32_t bytes, Where where);
// Buffers at an address of the caller's.
BufferRange allocate_at(uint8_t position, Space space, uint8_t count, uint32_t address, uint32_t bytes,
                        Where where);
// A buffer's tensor, or a part of it.
Local buffer_tensor(int32_t buffer, uint64_t offset, uint64_t bytes, Dtype dtype, Where where);
uint32_t buffer_bytes(int32_t buffer);
uint32_t buffer_address(int32_t buffer);
uint32_t allocated(Space space);
uint32_t capacity(Space space);
// The pipe object ends, or starts again: what it handed out is free, what its queues hold must be nothing.
void release(bool barrier, Where where);
// The same for the queues of a part of a memory.
void release_between(Space space, uint32_t start, uint32_t end, Where where);
void pipe_begins(void* pipe);
void pipe_ends(void* pipe);
void* current_pipe();

// A queue of buffers between two pipes.
class Queue {
  public:
    Queue(uint8_t position, Space space, Pipe from, Pipe to, int32_t depth)
        : position_(position), space_(space), from_(from), to_(to), depth_(depth) {}

    void own(BufferRange buffers);
    Local take(Dtype dtype, Where where);        // AllocTensor
    void put(const Local& tensor, Where where);  // EnQue
    void put(const Local& tensor, Pipe from, Pipe to, Where where);
    Local get(Dtype dtype, Where where);  // DeQue
    Local get(Dtype dtype, Pipe from, Pipe to, Where where);
    void give_back(const Local& tensor, Where where);  // FreeTensor
    bool vacant() const;
    bool idle() const;
    int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }
    BufferRange buffers() const { return buffers_; }
    uint8_t position() const { return position_; }
    Space space() const { return space_; }

  private:
    uint8_t position_;
    Space space_;
    Pipe from_, to_;
    int32_t depth_;
    BufferRange buffers_{-1, 0};
    std::deque<int32_t> waiting_;
    int32_t next_ = 0;
};

// A core's own clock: counts instructions.
int64_t cycle();

// Text out of the kernel.
void dump(const Local& tensor, uint32_t tag, uint32_t count, Where where);
void dump(const Global& tensor, uint32_t tag, uint32_t count, Where where);
void print(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace sim
