#include <algorithm>
#include <limits>

#include "device_state.hpp"

namespace pyasc::npu {

namespace {

constexpr size_t large_limit = static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max()) / 2;
// What may wait beyond a quarter of the most that the program has used at once.
constexpr size_t slack = size_t{256} << 20;
constexpr size_t most = std::numeric_limits<size_t>::max();
// How long work that holds memory is waited for before an allocation gives up.
constexpr int patience_ms = 60'000;

}  // namespace

void* Device::State::acquire(size_t capacity, int* result) {
    constexpr size_t alignment = BlockPool::Classes::alignment;
    void* address = nullptr;
    *result = acl->aclrtMalloc(&address, capacity, huge_pages_first);
    if (*result != code::success) return nullptr;
    void* base = address;
    // ACL promises 64 bytes, and gives more.
    if (reinterpret_cast<uintptr_t>(address) % alignment != 0) {
        acl->aclrtFree(address);
        *result = acl->aclrtMalloc(&base, capacity + alignment, huge_pages_first);
        if (*result != code::success) return nullptr;
        address = reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(base), alignment));
    }
    whole.emplace(address, base);
    return address;
}

void Device::State::give_back(const std::vector<void*>& addresses) noexcept {
    for (void* address : addresses) {
        const auto place = whole.find(address);
        if (place == whole.end()) continue;
        acl->aclrtFree(place->second);
        whole.erase(place);
    }
}

void Device::State::forget_memory() noexcept {
    const std::lock_guard<std::mutex> lock(memory_mutex);
    for (const auto& [address, base] : whole) acl->aclrtFree(base);
    whole.clear();
    pool.clear();
    for (void* address : pinned.drop(most, {}, true)) acl->aclrtFreeHost(address);
    memory.used = memory.cached = 0;
}

DeviceBlock Device::allocate(size_t nbytes, Lane lane) {
    State& s = *state_;
    s.enter_check();
    DeviceBlock block;
    block.era = era();
    if (nbytes > large_limit) throw OutOfMemory{nbytes, stats().memory};
    const size_t capacity = BlockPool::capacity_for(nbytes);
    block.capacity = capacity;
    BlockPool::Entry entry{};

    if (lane == Lane::upload && s.pool.cached()) {
        const std::lock_guard<std::mutex> lock(s.mutex);
        const Entered entered(*s.acl, s.context);
        if (!s.failed.load(std::memory_order_acquire))
            for (size_t k = 0; k < lanes; ++k) s.poll(static_cast<Lane>(k));
    }

    // Tries the waiting blocks, then the driver. Out of memory: false.
    const auto attempt = [&] {
        const std::lock_guard<std::mutex> lock(s.memory_mutex);
        const size_t highest = std::max(s.highest, s.memory.used + capacity);
        const size_t bound = highest + highest / 4 + slack;
        const size_t coming = s.memory.used + s.pool.cached() + capacity;
        // A copy to the device waits for no kernel while there is memory to spare.
        const bool spare = coming <= bound && (!s.memory.limit || coming <= s.memory.limit);
        const bool idle = lane == Lane::upload && spare;
        if (s.pool.take(capacity, s.done_now(), lane, idle, &entry, &block.capacity)) {
            block.address = entry.address;
            block.uses = entry.uses;
        } else {
            const auto over_limit = [&] {
                return s.memory.limit && s.memory.used + s.pool.cached() + capacity > s.memory.limit;
            };
            const Entered entered(*s.acl, s.context);
            if (coming > bound) s.give_back(s.pool.drop(coming - bound, s.done_now(), false));
            if (over_limit()) s.give_back(s.pool.drop(most, s.done_now(), false));
            if (over_limit()) return false;
            int result = code::success;
            block.address = s.acquire(capacity, &result);
            if (out_of_memory(result)) {
                drop_message(*s.acl);
                s.give_back(s.pool.drop(most, s.done_now(), false));
                block.address = s.acquire(capacity, &result);
            }
            if (!block.address) {
                if (!out_of_memory(result)) fail("aclrtMalloc", result);
                drop_message(*s.acl);
                return false;
            }
        }
        s.memory.used += block.capacity;
        s.memory.peak = std::max(s.memory.peak, s.memory.used);
        s.highest = std::max(s.highest, s.memory.used);
        return true;
    };
    if (!attempt()) {
        // What waits may still be used by work in the lanes.
        const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
        while (!wait_all(20) && Clock::now() < end) {
        }
        if (!attempt()) {
            const DeviceStats now = stats();
            throw OutOfMemory{nbytes, now.memory, now.free, now.total};
        }
    }
    for (size_t k = 0; k < lanes; ++k) {
        const Ticket use{static_cast<Lane>(k), block.uses[k]};
        if (use.lane == lane || s.reached(use)) continue;
        try {
            order(lane, use);
        } catch (const Failure&) {
            release(block);
            throw;
        }
    }
    return block;
}

void Device::release(const DeviceBlock& block) noexcept {
    State& s = *state_;
    if (!block.address || forked() || block.era != era()) return;
    const std::lock_guard<std::mutex> lock(s.memory_mutex);
    if (s.whole.empty()) return;
    s.memory.used -= block.capacity;
    try {
        s.pool.keep(block.address, block.capacity, block.uses);
    } catch (const std::bad_alloc&) {
        // It stays in `whole`, and goes with the device.
    }
}

PinnedBlock Device::allocate_pinned(size_t nbytes) {
    State& s = *state_;
    s.enter_check();
    PinnedBlock block;
    block.device = s.number;
    block.era = era();
    block.capacity = BlockPool::capacity_for(nbytes);
    if (nbytes > large_limit) throw OutOfMemory{nbytes, stats().memory};
    {
        const std::lock_guard<std::mutex> lock(s.mutex);
        const Entered entered(*s.acl, s.context);
        if (!s.failed.load(std::memory_order_acquire)) {
            s.poll(Lane::upload);
            s.poll(Lane::download);
        }
    }
    const std::lock_guard<std::mutex> lock(s.memory_mutex);
    BlockPool::Entry entry{};
    if (s.pinned.take(block.capacity, s.done_now(), Lane::upload, true, &entry, &block.capacity)) {
        block.address = entry.address;
    } else {
        const Entered entered(*s.acl, s.context);
        int result = s.acl->aclrtMallocHost(&block.address, block.capacity);
        if (out_of_memory(result)) {
            drop_message(*s.acl);
            for (void* address : s.pinned.drop(most, s.done_now(), false)) s.acl->aclrtFreeHost(address);
            result = s.acl->aclrtMallocHost(&block.address, block.capacity);
        }
        if (out_of_memory(result)) throw OutOfMemory{nbytes, s.memory};
        check("aclrtMallocHost", result);
    }
    s.pinned_used += block.capacity;
    return block;
}

void Device::release_pinned(const PinnedBlock& block) noexcept {
    State& s = *state_;
    if (!block.address || forked()) return;
    const std::lock_guard<std::mutex> lock(s.memory_mutex);
    s.pinned_used -= block.capacity;
    try {
        if (!s.is_open.load(std::memory_order_acquire))
            s.orphans.push_back(block.address);
        else if (block.era == era())
            s.pinned.keep(block.address, block.capacity, block.uses);
        else
            s.acl->aclrtFreeHost(block.address);
    } catch (const std::bad_alloc&) {
    }
}

DeviceStats Device::stats() {
    State& s = *state_;
    s.enter_check();
    DeviceStats result;
    {
        const std::lock_guard<std::mutex> lock(s.mutex);
        result.live_events = s.events.size() + s.timed.size();
        for (const LaneState& state : s.lane) result.live_streams += state.own ? 1 : 0;
        const Entered entered(*s.acl, s.context);
        int code = s.acl->aclrtGetMemInfo(hbm, &result.free, &result.total);
        if (code != code::success || result.total == 0)
            code = s.acl->aclrtGetMemInfo(ddr, &result.free, &result.total);
        if (code != code::success) result.free = result.total = 0;
    }
    const std::lock_guard<std::mutex> lock(s.memory_mutex);
    result.memory = s.memory;
    result.memory.cached = s.pool.cached();
    result.pinned = s.pinned_used + s.pinned.cached();
    result.launches = s.launches.load(std::memory_order_relaxed);
    result.uploads = s.uploads.load(std::memory_order_relaxed);
    result.downloads = s.downloads.load(std::memory_order_relaxed);
    return result;
}

void Device::reset_peak() {
    const std::lock_guard<std::mutex> lock(state_->memory_mutex);
    state_->memory.peak = state_->memory.used;
}

void Device::set_limit(size_t nbytes) {
    State& s = *state_;
    {
        const std::lock_guard<std::mutex> lock(s.memory_mutex);
        s.memory.limit = nbytes;
        if (!nbytes || s.memory.used + s.pool.cached() <= nbytes) return;
    }
    release_cache();
}

size_t Device::release_cache() {
    State& s = *state_;
    s.enter_check();
    const Entered entered(*s.acl, s.context);
    {
        const std::lock_guard<std::mutex> lock(s.mutex);
        if (!s.failed.load(std::memory_order_acquire)) {
            for (size_t k = 0; k < lanes; ++k) {
                const LaneState& state = s.lane[k];
                const Lane which = static_cast<Lane>(k);
                if (!s.reached({which, state.issued}) &&
                    (state.marks.empty() || state.marks.back().number < state.issued))
                    s.record(which);
                s.poll(which);
            }
        }
        s.unload_retired(false);
    }
    const std::lock_guard<std::mutex> lock(s.memory_mutex);
    const size_t before = s.pool.cached();
    s.give_back(s.pool.drop(most, s.done_now(), false));
    for (void* address : s.pinned.drop(most, s.done_now(), false)) s.acl->aclrtFreeHost(address);
    return before - s.pool.cached();
}

}  // namespace pyasc::npu
