// A pretended machine with NPUs. A device is the simulator's engine, its memory is the host's at addresses
// that the host cannot follow, and its streams are threads.
//
// One mutex guards everything here; a stream's thread gives it up while it copies or runs a kernel.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "acl.hpp"
#include "engine.hpp"
#include "kernel.hpp"

namespace standin {

using Time = int64_t;  // nanoseconds: of the device's clock, or of the modelled one

// From the environment, read by aclInit and standin_reset.
struct Settings {
    uint32_t devices = 2;
    std::vector<uint32_t> visible;  // ASCEND_RT_VISIBLE_DEVICES
    uint64_t memory = uint64_t{64} << 30;
    uint32_t events = 65536, streams = 1024;
    uint32_t delay_us = 0;  // at most, before each task
    uint64_t seed = 1;
    bool model_time = false, null_kernels = false, unchecked = false;
    double kernel_us = 0;
    double bytes_per_us = 25000;  // of a copy to or from the host
    std::string soc = "Ascend910B1";
    sim::Capacities chip{};
};

// Of each stream by its number, how much of it something comes after.
using Clock = std::vector<uint64_t>;
void merge(Clock& into, const Clock& from);
bool covers(const Clock& clock, uint32_t stream, uint64_t number);

struct Stream;
struct Context;
struct Run;

// Memory of a device, or page-locked memory of the host.
struct Memory {
    uint8_t* bytes;  // where it really is
    size_t size;
    int32_t device;  // -1: the host's
    struct Use {
        uint32_t stream;
        uint64_t number, from, to;
        bool write;
        const char* what;
    };
    std::vector<Use> uses;  // that are not known to be over
};

struct Record {
    bool done = false;
    aclError error = 0;
    Time at = 0;
    Time step = 1000;  // what the next question whether it is done takes the host, on the modelled clock
    Clock clock;
    uint32_t stream = 0;
    uint64_t number = 0;
};

struct Event {
    uint32_t id, flags;
    int32_t device;
    bool reusable;  // made by aclrtCreateEventExWithFlag
    std::shared_ptr<Record> record;
    uint32_t waits = 0;  // tasks of streams that wait for it and have not run
};

struct Library;
struct Function {
    const Kernel* kernel;  // on vector cores, or on both
    const Kernel* cube;    // of a kernel that was compiled for both apart
    std::string name;
    Library* library;
    bool signals = false;  // it is given the address for signals between cores first
};
struct Library {
    std::vector<void*> opened;
    int32_t device;
    std::vector<std::unique_ptr<Function>> functions;
    uint64_t launches = 0, through = 0;
    bool mixed = false;  // of two objects
};

struct Task {
    enum class Kind : uint8_t { Copy, Set, Kernel, Record, Wait, Call } kind;
    explicit Task(Kind of) : kind(of) {}
    uint32_t id = 0;
    uint64_t number = 0;
    Time earliest = 0;
    // Copy, Set: places as the caller gave them.
    uint8_t* to = nullptr;
    const uint8_t* from = nullptr;
    size_t bytes = 0;
    int32_t value = 0;
    bool within = false;  // one device
    // Kernel
    Function* function = nullptr;
    uint32_t blocks = 0;
    std::vector<uint8_t> arguments;
    // Record, Wait
    std::shared_ptr<Record> record;
    Event* event = nullptr;
    // Call
    aclrtCallback call = nullptr;
    void* data = nullptr;
    // Everything it comes after.
    Clock clock;
};

struct Stream {
    uint32_t id;
    Context* context;
    int32_t device;
    std::deque<Task> queue;
    uint64_t submitted = 0, done = 0;
    aclError error = 0;
    std::string message;
    uint32_t aborts = 0;    // how often it was aborted
    bool aborting = false;  // what is in the queue is dropped
    bool closing = false, sleeping = false;
    Clock clock;  // what the next task comes after
    Time now = 0;
    Run* running = nullptr;
    std::mt19937_64 random;
    std::condition_variable work;
    std::thread thread;
};

struct Context {
    int32_t device;
    Stream* stream;      // its default stream
    bool own;            // of aclrtCreateContext
    bool stops = false;  // all of its streams, when a task of one fails
    aclError error = 0;  // of that task
};

struct Span {
    uint32_t stream;
    int32_t device;
    const char* kind;
    std::string name;
    Time begin, end;
};

struct Device {
    Context* primary = nullptr;
    uint32_t references = 0;
    size_t used = 0, peak = 0;
    aclError lost = 0;  // until it is reset
    std::set<int32_t> peers;
};

struct Machine {
    std::mutex mutex;
    std::condition_variable progress;
    uint32_t watchers = 0;
    Settings settings;
    bool initialised = false;
    uint64_t users = 0;  // that called aclInit
    std::vector<Device> devices;
    std::unordered_set<void*> contexts, streams, events, libraries, functions;
    std::map<uintptr_t, Memory> memory;                // by the address that the caller knows
    std::map<void*, std::shared_ptr<void>> arguments;  // blocks of arguments that callers keep here
    std::vector<uint32_t> free_streams;                // numbers of streams that are no more
    std::vector<uint64_t> last_of_streams;             // of each number, that of its last task
    uint32_t next_event = 1;
    Clock observed;  // what the host has waited for
    Time host = 0;   // modelled: the latest that the host has waited for
    uint64_t launches = 0, copies = 0;
    struct Fault {
        uint64_t nth;
        aclError code;
    };
    std::multimap<std::string, Fault> faults;
    bool hang = false;
    uint32_t execute_timeout_s = 0;
    std::vector<std::string> complaints;
    std::vector<Span> timeline;
    bool keep_timeline = false;
    aclrtExceptionInfoCallback callback = nullptr;
};

// Never destroyed: threads of other libraries may call until the end.
Machine& machine();
using Lock = std::unique_lock<std::mutex>;

// What begins each function of the interface: the lock, or why it cannot be called.
struct Call {
    Lock lock;
    aclError error;
    Call(const char* name, bool initialised = true);
};
extern thread_local Context* current;

// A failure whose text the calling thread gets by aclGetRecentErrMsg; misuse is also among the complaints.
aclError fail(aclError code, const std::string& text);
aclError misuse(aclError code, const std::string& text);
void complain(const std::string& text);
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
// The next of these is to fail: its code.
aclError fault(const char* point);

void read_settings();
uint32_t number_of_driver(int32_t device);  // the driver's number of a device
Time clock_now();

// Memory
constexpr uintptr_t device_offset = uintptr_t{1} << 46;
// The memory around an address as the caller knows it.
std::pair<const uintptr_t, Memory>* find(const void* address);
bool of_device(const void* address);
uint8_t* real(const void* address);
void forget(Memory& memory);
// What a task that is put into a stream will use.
void hold_all(const Task& task, uint32_t stream);
// Notes what a task is about to touch, and whether that is ordered after all that conflict with it.
void touch(std::pair<const uintptr_t, Memory>& memory, const Stream& stream, const Task& task, uint64_t from,
           uint64_t to, bool write, const char* what);

// Streams
Stream* make_stream(Context& context, aclError& error);
void destroy_stream(Lock& lock, Stream* stream, bool drop);
void destroy_event(Event* event);
// null: the default stream. Sets error where it is none of the current context.
Stream* stream_of(aclrtStream handle, aclError& error);
Event* event_of(aclrtEvent handle, aclError& error);
aclError submit(Stream& stream, Task&& task);
void kick(Stream& stream);
// The host has waited for all of these.
void observe(const Clock& clock, Time at);
aclError wait_for(Lock& lock, Stream& stream, int32_t milliseconds);
// The error of work that failed, which is told once.
aclError taken_error(Stream& stream);
Stream* stream_numbered(uint32_t id);
void abort_stream(Lock& lock, Stream& stream);
template <typename Ready>
bool wait_until(Lock& lock, int32_t milliseconds, Ready ready) {
    Machine& all = machine();
    ++all.watchers;
    bool is_ready = true;
    if (milliseconds < 0)
        all.progress.wait(lock, ready);
    else
        is_ready = all.progress.wait_for(lock, std::chrono::milliseconds(milliseconds), ready);
    --all.watchers;
    return is_ready;
}

// Kernels
constexpr uint64_t sync_address = 0x5ffe00000000;  // of the first device
aclError check_arguments(const Function& function, int32_t device, const void* data, size_t bytes);
// Runs it, without the lock; the code of its exception and what it found.
std::pair<aclError, std::string> run(Lock& lock, Stream& stream, const Task& task);
void stop(Run& run);

}  // namespace standin
