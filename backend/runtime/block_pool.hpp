// Memory that the device may still be using when it is handed back: blocks wait with the tickets of their
// last uses, and the next user is chosen, or ordered, by them.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <vector>

#include "device.hpp"
#include "size_classes.hpp"

namespace pyasc::npu {

// Of a device's memory, or of page-locked memory of the host. Its owner holds a lock.
class BlockPool {
  public:
    using Classes = SizeClasses<12>;  // alignment 512

    struct Entry {
        void* address;
        Uses uses;
        uint64_t since;
    };

    static size_t capacity_for(size_t nbytes);

    // A waiting block of that capacity or somewhat more, or false. One that only `lane` still uses, if any,
    // comes before one that others do; with `idle` it must be out of use.
    bool take(size_t capacity, const Uses& done, Lane lane, bool idle, Entry* found, size_t* found_capacity);
    void keep(void* address, size_t capacity, const Uses& uses);  // throws bad_alloc
    // Takes out blocks that are out of use (or all), the longest unused first, until so many bytes are taken
    // out.
    std::vector<void*> drop(size_t nbytes, const Uses& done, bool all);
    // Forgets all that wait.
    void clear();

    size_t cached() const { return cached_.load(std::memory_order_relaxed); }  // also without the lock

    static bool out_of_use(const Uses& uses, const Uses& done);

  private:
    static constexpr size_t small_classes = 80;
    static bool is_large(size_t capacity);

    std::atomic<size_t> cached_{0};
    uint64_t clock_ = 0;
    std::array<std::vector<Entry>, small_classes> small_;
    std::multimap<size_t, Entry> large_;
};

}  // namespace pyasc::npu
