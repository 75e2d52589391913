// Atomic updates of GM by cores that run on several threads.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace sim {

// The lock for a piece of memory: one for each page's place among 64.
inline std::mutex& atomic_lock(const void* address) {
    static std::array<std::mutex, 64> locks;
    return locks[reinterpret_cast<uintptr_t>(address) >> 12 & 63U];
}

}  // namespace sim
