// An NPU through ACL: contexts, streams as lanes, memory, kernels. libascendcl.so is loaded at run time.
//
// Work is put into *lanes*, each a stream, and runs in order within its lane. A *ticket* is a place in a
// lane: the work up to it. What one lane does is ordered after another's by a ticket, never by waiting on the
// host. Memory is handed out and taken back while the device works: a block knows the tickets of its last
// uses.
//
// Nothing here holds the interpreter's lock or knows Python. Every function may be called from any thread;
// those that block say so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pool.hpp"

namespace pyasc::npu {

// Of one device. Kernels run in compute and second (independent kernels side by side), copies in the other
// two.
enum class Lane : uint8_t { compute, second, upload, download };
constexpr size_t lanes = 4;
constexpr size_t index_of(Lane lane) { return static_cast<size_t>(lane); }

// The work of a lane up to its number-th piece; 0: none, always done.
struct Ticket {
    Lane lane = Lane::compute;
    uint64_t number = 0;
};

// For each lane the number of its latest piece of work that touches something.
using Uses = std::array<uint64_t, lanes>;

// Memory of a device. `written` is the last work that wrote it, `uses` the last of each lane that read or
// wrote.
struct DeviceBlock {
    void* address = nullptr;  // of the device; never to be dereferenced on the host
    size_t capacity = 0;
    Uses uses{};
    uint64_t era = 0;  // of the device that gave it: a block from before a reset is nobody's memory
};

// A call of ACL that failed, or work that did.
struct Failure {
    std::string call;     // "aclrtMalloc"
    int code;             // ACL's
    std::string message;  // what aclGetRecentErrMsg had to say
    bool lost;            // whether the device must be reset before anything can run there again
    // Of the launches that may be meant, the earliest first: what `launch` was given. Empty where none is.
    std::vector<std::pair<uint64_t, int64_t>> launches;
    std::optional<Lane> lane = std::nullopt;  // whose work failed, where that is known
    int device = -1;                          // whose work failed; -1: of the one that was called
};

// The error for code: a short text in plain words, "the vector core met an exception"; for an unknown one,
// "".
std::string error_text(int code);

// A compiled kernel, as bytes for one of ACL's loaders.
enum class CodeKind : uint8_t {
    vector,  // an ELF file for vector cores, for aclrtBinaryLoadFromData
    cube,    // for cube cores
    mixed,   // for both; takes the FFTS control address as its first argument, put there by `launch`
    library  // a shared library of the host with `int pyasc_launch_NAME(uint32_t blocks, void* stream, const
             // void* arguments)`
};

// A kernel on one device. Unloaded with the last reference, once its last launch is through. Loaded again
// where the device was reset.
class Function;

// Sets where libascendcl.so is; before the first `device`, or not at all: then the loader's usual places.
void set_library(const std::string& path);

// Memory of the host that a device copies from and to without delay (aclrtMallocHost), cached.
struct PinnedBlock {
    void* address = nullptr;
    size_t capacity = 0;
    Uses uses{};  // of the device that copies last
    int device = -1;
    uint64_t era = 0;
};

struct DeviceStats {
    MemoryStats memory;
    size_t pinned = 0;  // bytes of page-locked memory of the host, in use and cached
    size_t free = 0;    // what the driver says is free, and all there is
    size_t total = 0;
    size_t live_events = 0;  // created and not destroyed
    size_t live_streams = 0;
    uint64_t launches = 0;
    uint64_t uploads = 0;
    uint64_t downloads = 0;
};

void shut_down() noexcept;

class Device {
  public:
    // Opened at first use: library, aclInit, context, lanes. Throws Failure; also in a process that was
    // forked from one that used a device (call "fork"). A failure is found again at each call until it is
    // mended.
    static Device& open(int number);
    // The one that is open already, or null. Never opens.
    static Device* find(int number) noexcept;
    // One that was ever opened, or null.
    static Device* known(int number) noexcept;
    // How many there are. Loads the library, opens nothing. Throws Failure.
    static int count();
    static std::string soc_name();

    int number() const;
    // Changes when everything in the device's memory is lost (`reset`, `shut_down`).
    uint64_t era() const;

    // --- memory. Out of memory: cached blocks go back, finished lanes' too, and it is tried again; then
    // throws OutOfMemory. The block may be used in `lane` at once; work of other lanes that still uses it is
    // waited for by that lane, not by the host.
    DeviceBlock allocate(size_t nbytes, Lane lane);
    void release(const DeviceBlock& block) noexcept;
    PinnedBlock allocate_pinned(size_t nbytes);
    void release_pinned(const PinnedBlock& block) noexcept;
    DeviceStats stats();
    void reset_peak();
    void set_limit(size_t nbytes);
    size_t release_cache();

    // --- ordering
    // What is put into `later` from now on comes after the ticket.
    void order(Lane later, Ticket earlier);
    // A ticket that others can be ordered after precisely: records an event now. Without, `order` and `wait`
    // use the next event of that lane, which may come after more work.
    void mark(Ticket ticket);
    // Does not block. Throws Failure where the lane has failed, but for work that is known to have been
    // through.
    bool done(Ticket ticket);
    // For all that is in a lane so far, also what another library put into its stream (`use_stream`).
    Ticket latest(Lane lane);
    // Blocks for at most so long; whether it is done.
    bool wait(Ticket ticket, int milliseconds);
    bool wait_all(int milliseconds);

    // --- work. Each throws Failure where it cannot be put into its lane.
    // From memory of the host, pageable or pinned; the source may be changed when this returns, unless it is
    // pinned: then when the ticket is done. Copies through staging memory in pieces. The block's uses are set
    // here: where it throws, earlier pieces may be on their way.
    Ticket upload(DeviceBlock& to, size_t offset, const void* from, size_t nbytes, bool pinned = false);
    // Into pinned memory, which holds it when the ticket is done.
    Ticket download(void* to, const DeviceBlock& from, size_t offset, size_t nbytes);
    Ticket copy(Lane lane, const DeviceBlock& to, size_t to_offset, const DeviceBlock& from,
                size_t from_offset, size_t nbytes);
    Ticket fill(Lane lane, const DeviceBlock& to, size_t offset, int byte, size_t nbytes);
    // `arguments` is the packed argument block without the FFTS address; it may be reused when this returns.
    // run and label are kept for Failure::launches.
    Ticket launch(Lane lane, const Function& function, uint32_t blocks, const void* arguments, size_t nbytes,
                  uint64_t run, int64_t label);
    // Whether `copy` can write to memory of that device of this process.
    bool reaches(Device& other);

    std::shared_ptr<Function> load(const void* code, size_t nbytes, CodeKind kind, const std::string& name);

    // --- time on the device, by events
    struct Span {
        uint64_t begin, end;
    };
    // Everything of a lane between begin_span and end_span; `time` gives it in nanoseconds of
    // std::chrono::steady_clock, as near as the device's clock can be brought to it. Nothing where the span
    // is not over after so long.
    Span begin_span(Lane lane);
    void end_span(Lane lane, Span& span);
    std::optional<std::pair<int64_t, int64_t>> time(const Span& span, int patience_ms);
    // One that nobody asks for any more.
    void drop(const Span& span) noexcept;

    // --- faults
    // After a Failure of work: until then every call that puts work into lanes or waits throws it again. What
    // is in the lanes is waited for, for a second or so (`settle`), then given up, and they are made anew
    // (`recover`, which is told what was not given up). Memory stays as it is where the device can still be
    // used. Throws Failure where it must be reset. Does nothing where nothing failed.
    Uses settle();
    void recover(const Uses& through);
    // Drops everything but pinned memory that is handed out: memory, streams, functions, and opens the device
    // anew.
    void reset();

    // Another library's stream as the compute lane, for as long as it is set; null: the device's own.
    void use_stream(void* stream);
    void* stream(Lane lane);

    struct State;

  private:
    friend void shut_down() noexcept;
    explicit Device(int number);
    void close() noexcept;
    ~Device();  // never called: buffers may outlive every destructor of the process
    std::unique_ptr<State> state_;
};

// Page-locked memory within a scope; work that uses it then may still run afterwards.
class ScopedPinned {
  public:
    ScopedPinned(Device& device, size_t nbytes) : device_(device), block_(device.allocate_pinned(nbytes)) {}
    ~ScopedPinned() { device_.release_pinned(block_); }
    ScopedPinned(const ScopedPinned&) = delete;
    ScopedPinned& operator=(const ScopedPinned&) = delete;
    void* address() const { return block_.address; }
    void used(Ticket ticket) { block_.uses[index_of(ticket.lane)] = ticket.number; }

  private:
    Device& device_;
    PinnedBlock block_;
};

// The end of the process, or of a test: lanes are waited for (not longer than a second or so), everything is
// given back, aclFinalize. Devices can be opened again. Pinned memory that is handed out stays, for what
// looks at it on the host.
void shut_down() noexcept;

}  // namespace pyasc::npu
