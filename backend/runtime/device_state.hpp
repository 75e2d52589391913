// What a Device is made of, shared by the files that implement it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "acl.hpp"
#include "block_pool.hpp"

namespace pyasc::npu {

using Clock = std::chrono::steady_clock;

// A kernel that was launched, to find the one that failed.
struct Launched {
    uint64_t number;
    uint64_t sequence;  // of all lanes
    uint32_t task;
    uint64_t run;
    int64_t label;
};

// An event that was recorded after a lane's number-th piece of work.
struct Mark {
    uint64_t number;
    void* event;
};

struct LaneState {
    void* own = nullptr;
    void* stream = nullptr;  // own, or another library's
    int32_t id = -1;         // ACL's number of it, by which exceptions are told; -1: unknown
    uint64_t issued = 0;
    uint64_t verified = 0;  // up to here it is known that nothing failed
    Uses after{};           // of the other lanes, what is waited for already
    Uses needed{};          // of the other lanes, what its work builds on, waited for or reached before
    std::deque<Mark> marks;
    std::vector<Launched> launches;  // a ring of the latest
    size_t next_launch = 0;
};

// The current context of the calling thread is this device's in this scope. Another library may have set
// another at any time (its own thread-local notion of the current device then stays true), so ACL is asked
// each time, which costs it a thread-local read, and the other one comes back at the end.
class Entered {
  public:
    Entered(const Acl& acl, void* context) : acl_(acl) {
        if (!context) throw Failure{"device", code::closed, "", false, {}};  // just now, by another thread
        void* now = nullptr;
        if (acl.aclrtGetCurrentContext(&now) != code::success) {
            drop_message(acl);
            now = nullptr;
        }
        if (now == context) return;
        check("aclrtSetCurrentContext", acl.aclrtSetCurrentContext(context));
        before_ = now;
    }
    ~Entered() {
        if (before_) acl_.aclrtSetCurrentContext(before_);
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

  private:
    const Acl& acl_;
    void* before_ = nullptr;
};

struct Device::State {
    explicit State(Device& device, int which) : self(device), number(which) {}

    static constexpr size_t ring = 2048;

    Device& self;
    const int number;
    Acl* acl = nullptr;
    void* context = nullptr;
    std::atomic<bool> is_open{false};
    std::atomic<uint64_t> era{1};

    // Lanes, events and functions. Nothing that blocks is called with it held.
    std::mutex mutex;
    // Held shared by who blocks on a stream, alone by who destroys it.
    std::shared_mutex streams;
    std::array<LaneState, lanes> lane;
    std::array<std::atomic<uint64_t>, lanes> done{};
    uint64_t sequence = 0;
    std::vector<void*> free_events, free_timed;
    std::vector<void*> events, timed;  // all there are
    mutable std::mutex failure_mutex;  // the innermost
    std::optional<Failure> failure;    // of work, until `recover`
    std::atomic<bool> failed{false};

    // Memory; taken after `mutex` where both are.
    std::mutex memory_mutex;
    BlockPool pool, pinned;
    MemoryStats memory;
    size_t highest = 0;
    size_t pinned_used = 0;
    std::vector<void*> orphans;  // page-locked memory that came back while the device was closed
    std::unordered_map<void*, void*>
        whole;  // what aclrtMalloc gave, of each block; more where that was not aligned

    std::atomic<uint64_t> launches{0}, uploads{0}, downloads{0};
    void* ffts = nullptr;
    std::vector<void*> binaries;                  // all that are loaded
    std::vector<std::pair<Uses, void*>> retired;  // binaries whose last launch may still run
    std::vector<bool> peers;                      // devices whose memory can be reached
    std::optional<int64_t> clock_offset;          // host's nanoseconds minus the device's

    // --- opening (device.cpp)
    void open();
    void close(bool force) noexcept;
    void forget_lanes() noexcept;  // with `mutex` held
    void enter_check() const {
        refuse_after_fork();
        if (!is_open.load(std::memory_order_acquire)) throw Failure{"device", code::closed, "", false, {}};
    }
    // With `mutex` held: that a block is not of before a reset. It is closed until its era has changed.
    void check_block(const DeviceBlock& block) const {
        enter_check();
        if (block.era != era.load(std::memory_order_acquire))
            throw Failure{"device", code::closed, "", false, {}};
    }
    void make_streams();
    void destroy_streams(bool force) noexcept;

    // --- lanes (lanes.cpp); with `mutex` held and the context entered, unless said otherwise
    void* new_event(bool is_timed);
    void record(Lane which);  // a mark of all that is issued
    uint64_t record_time(Lane which);
    void poll(Lane which);  // takes off marks that are done
    void order(Lane later, Ticket earlier);
    Ticket issue(Lane which) {
        LaneState& state = lane[index_of(which)];
        return {which, ++state.issued};
    }
    bool reached(Ticket ticket) const {
        return ticket.number <= done[index_of(ticket.lane)].load(std::memory_order_acquire);
    }
    void advance(Lane which, uint64_t number);
    Uses done_now() const;
    void throw_if_failed() const {
        if (__builtin_expect(failed.load(std::memory_order_acquire), 0)) rethrow();
    }
    void rethrow() const;
    [[noreturn]] void keep_failure(Failure found);
    void forget_failure() noexcept;
    [[noreturn]] void lose(const char* call, int code, const char* message);
    // What a call returned: throws, and keeps a failure of work. `which` is the lane that failed, if that is
    // known.
    void checked(const char* call, int code, std::optional<Lane> which = std::nullopt);
    [[noreturn]] void fail_work(const char* call, int code, std::optional<Lane> which);
    void take_reported();
    Uses below(Ticket ticket) const;     // what a ticket builds on, of all lanes
    bool verified(Ticket ticket) const;  // known to be done, and to have gone well; asks nobody
    // Asks the lanes that the ticket builds on whether their work went well; false: ask again later.
    bool verify(Ticket ticket);
    // Without `mutex`: all of a lane, for so long.
    bool synchronize(Lane which, int milliseconds);
    bool wait_event(void* event, int milliseconds);  // without `mutex`

    // --- memory (device_memory.cpp); with `memory_mutex` held and the context entered
    void* acquire(size_t capacity, int* result);
    void give_back(const std::vector<void*>& addresses) noexcept;
    void forget_memory() noexcept;  // with `mutex` held instead

    // --- functions (launch.cpp), with `mutex` held
    void unload_retired(bool all) noexcept;
};

}  // namespace pyasc::npu
