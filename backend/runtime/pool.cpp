#include "pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "size_classes.hpp"

namespace pyasc {

namespace {

using Classes = SizeClasses<10>;
constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t large_step = size_t{64} << 10;
// What may wait beyond a quarter of the most that the program has used at once.
constexpr size_t slack = size_t{64} << 20;

bool is_large(size_t capacity) { return capacity >= huge_page; }

}  // namespace

Pool& Pool::instance() {
    // Never destroyed: buffers may outlive every destructor of the process.
    alignas(Pool) static unsigned char storage[sizeof(Pool)];
    static Pool* const pool = new (storage) Pool;
    return *pool;
}

Block Pool::allocate(size_t nbytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (nbytes > static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max()) - huge_page)
        throw OutOfMemory{nbytes, stats_};
    const size_t capacity =
        nbytes >= huge_page ? round_up(nbytes, large_step) : Classes::capacity(Classes::of(nbytes));
    Block block{nullptr, capacity};
    block.address = reuse(capacity, &block.capacity);
    if (block.address) {
        stats_.cached -= block.capacity;
    } else {
        trim(capacity);
        const auto over_limit = [&] {
            return stats_.limit && stats_.used + stats_.cached + capacity > stats_.limit;
        };
        if (over_limit()) drop_cache();
        if (!over_limit()) block.address = map(capacity);
        if (!block.address && !over_limit() && drop_cache()) block.address = map(capacity);
        if (!block.address) throw OutOfMemory{nbytes, stats_};
    }
    stats_.used += block.capacity;
    stats_.peak = std::max(stats_.peak, stats_.used);
    highest_ = std::max(highest_, stats_.used);
    return block;
}

void Pool::release(Block block) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.used -= block.capacity;
    try {
        if (is_large(block.capacity))
            large_.emplace(block.capacity, Waiting{block.address, clock_++});
        else
            small_[Classes::of(block.capacity)].push_back(block.address);
        stats_.cached += block.capacity;
    } catch (const std::bad_alloc&) {
        unmap(block);
    }
}

MemoryStats Pool::stats() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
}

void Pool::reset_peak() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.peak = stats_.used;
}

void Pool::set_limit(size_t nbytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.limit = nbytes;
    if (nbytes && stats_.used + stats_.cached > nbytes) drop_cache();
}

size_t Pool::release_cache() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return drop_cache();
}

void* Pool::reuse(size_t capacity, size_t* found) {
    if (!is_large(capacity)) {
        std::vector<void*>& waiting = small_[Classes::of(capacity)];
        if (waiting.empty()) return nullptr;
        void* address = waiting.back();
        waiting.pop_back();
        return address;
    }
    const auto place = large_.lower_bound(capacity);
    if (place == large_.end() || place->first > capacity + capacity / 8) return nullptr;
    *found = place->first;
    void* address = place->second.address;
    large_.erase(place);
    return address;
}

void* Pool::map(size_t capacity) noexcept {
    if (!is_large(capacity)) {
        void* address = nullptr;
        return posix_memalign(&address, Classes::alignment, capacity) == 0 ? address : nullptr;
    }
    const size_t span = capacity + huge_page;
    void* const whole = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) return nullptr;
    const uintptr_t start = reinterpret_cast<uintptr_t>(whole);
    const uintptr_t aligned = round_up(start, huge_page);
    if (aligned > start) munmap(whole, aligned - start);
    const uintptr_t end = aligned + capacity;
    if (end < start + span) munmap(reinterpret_cast<void*>(end), start + span - end);
    void* const address = reinterpret_cast<void*>(aligned);
    madvise(address, capacity, MADV_HUGEPAGE);
    return address;
}

void Pool::unmap(Block block) noexcept {
    if (is_large(block.capacity))
        munmap(block.address, block.capacity);
    else
        std::free(block.address);
}

// A program whose sizes change leaves blocks behind that fit nothing: the longest unused go, so that the pool
// never holds much more than the program has used at once.
void Pool::trim(size_t coming) {
    const size_t most = std::max(highest_, stats_.used + coming);
    const size_t bound = most + most / 4 + slack;
    while (!large_.empty() && stats_.used + stats_.cached + coming > bound) {
        const auto oldest = std::min_element(large_.begin(), large_.end(), [](const auto& a, const auto& b) {
            return a.second.since < b.second.since;
        });
        unmap({oldest->second.address, oldest->first});
        stats_.cached -= oldest->first;
        large_.erase(oldest);
    }
}

size_t Pool::drop_cache() {
    for (const auto& [capacity, waiting] : large_) unmap({waiting.address, capacity});
    large_.clear();
    for (std::vector<void*>& waiting : small_) {
        for (void* address : waiting) std::free(address);
        waiting.clear();
        waiting.shrink_to_fit();
    }
    const size_t released = stats_.cached;
    stats_.cached = 0;
    return released;
}

}  // namespace pyasc
