// The memory pool: blocks of 128-byte alignment that are kept and reused.
//
// Fresh pages cost more than the arithmetic done on them, so a freed block waits for the next request of
// about its size. Small blocks come in size classes 12.5 % apart; blocks of 2 MiB and more are mapped on a
// huge-page boundary and reused for requests down to 12.5 % smaller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace pyasc {

struct Block {
    void* address = nullptr;
    size_t capacity = 0;
};

struct MemoryStats {
    size_t used = 0;    // in blocks that are handed out
    size_t cached = 0;  // in blocks that wait
    size_t peak = 0;    // the most ever used since the last reset
    size_t limit = 0;   // of used and cached together; 0 for none
};

// What allocate throws when releasing the cache has not helped.
struct OutOfMemory {
    size_t asked;
    MemoryStats stats;
    size_t free = 0;  // of a device, as its driver says: others may hold the rest
    size_t total = 0;
};

class Pool {
  public:
    static Pool& instance();

    Block allocate(size_t nbytes);
    void release(Block block) noexcept;

    MemoryStats stats();
    void reset_peak();
    void set_limit(size_t nbytes);
    size_t release_cache();

    // Held while the process forks, so that the child finds the pool in order.
    std::mutex& mutex() { return mutex_; }

  private:
    static constexpr size_t small_classes = 96;

    struct Waiting {
        void* address;
        uint64_t since;
    };

    void* reuse(size_t capacity, size_t* found);
    void* map(size_t capacity) noexcept;
    void unmap(Block block) noexcept;
    void trim(size_t coming);
    size_t drop_cache();

    std::mutex mutex_;
    MemoryStats stats_;
    size_t highest_ = 0;  // the most ever used, never reset
    uint64_t clock_ = 0;
    std::array<std::vector<void*>, small_classes> small_;
    std::multimap<size_t, Waiting> large_;
};

// A block that goes back to the pool with its scope.
class ScopedBlock {
  public:
    explicit ScopedBlock(size_t nbytes) {
        if (nbytes) block_ = Pool::instance().allocate(nbytes);
    }
    ~ScopedBlock() {
        if (block_.address) Pool::instance().release(block_);
    }
    ScopedBlock(const ScopedBlock&) = delete;
    ScopedBlock& operator=(const ScopedBlock&) = delete;
    char* address() const { return static_cast<char*>(block_.address); }

  private:
    Block block_;
};

}  // namespace pyasc
