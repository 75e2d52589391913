// The engine's own view of a core and of a launch. Instructions see sim/core.hpp only.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cube_state.hpp"
#include "sim/core.hpp"
#include "sim/events.hpp"

namespace sim {

struct Capacities {
    uint32_t bytes[spaces];
    uint32_t cube_cores, vector_cores;
};

struct Finding {
    Kind kind = Kind::None;
    int32_t core = -1;
    int32_t line = 0;
    std::string message;
};

// Thrown through the kernel's code by what ends it early.
struct Stop {
    Finding finding;
};

enum class CoreKind : uint8_t { Vector, Cube };

// A buffer of global memory that the launch was given.
struct GlobalBuffer {
    uint8_t* address;
    uint64_t bytes;
    int32_t argument;  // its number; -1: the workspace
};

// Where an instruction stood.
struct Site {
    const char* name;
    const char* file;
    int32_t line;
};

// Who touched the bytes of one space last, in blocks of 32 bytes.
struct Shadow {
    std::vector<uint32_t> initialised;              // a bit for each byte of the block
    std::vector<uint32_t> written;                  // pipe << 28 | clock; 0: never
    std::array<std::vector<uint32_t>, pipes> read;  // clock of each pipe's last read
    std::array<bool, pipes> was_read{};
    uint32_t dirty = 0;  // blocks below this were touched
    void size(uint32_t bytes);
    void clear();
};

// The memories of one core, kept between launches.
struct CoreMemory {
    explicit CoreMemory(CoreKind kind, const Capacities& capacities);
    CoreKind kind;
    Capacities capacities;
    std::array<std::vector<uint8_t>, spaces> bytes;
    std::array<Shadow, spaces> shadow;
};

// One operand of an instruction on its way.
struct Access {
    enum class Kind : uint8_t { Read, Write, Update, ReadAny, ReadBlocks } kind;
    bool reads() const { return kind != Kind::Write; }
    bool writes() const { return kind == Kind::Write || kind == Kind::Update; }
    Space space;
    const char* role;
    uint64_t start;  // of the first piece: in the space, or the address in GM
    uint64_t bytes;
    int64_t stride;
    uint32_t count;
    int32_t buffer;  // of a local tensor; the number of the buffer in GM
};

// The records of a core. They are many: what is there is not copied when the memory grows.
class Log {
  public:
    void push(const Record& record) {
        if (count_ == room_) grow();
        records_.get()[count_++] = record;
    }
    const Record* data() const { return records_.get(); }
    uint64_t count() const { return count_; }

  private:
    struct Free {
        void operator()(Record* memory) const { std::free(memory); }
    };
    void grow();
    std::unique_ptr<Record, Free> records_;
    uint64_t count_ = 0, room_ = 0;
};

// What a core did to a buffer of GM.
struct GlobalAccess {
    uint64_t start, bytes;  // from the start of the buffer
    int64_t stride;
    uint32_t count;
    Access::Kind kind;
    uint8_t pipe;
    uint32_t clock;
    uint32_t wait;   // how many waits for other cores came before it
    uint32_t epoch;  // how many events, signals and barriers of all pipes came before it
    Site site;
    uint64_t low() const { return stride < 0 ? start - (count - 1) * static_cast<uint64_t>(-stride) : start; }
    uint64_t high() const {
        return (stride > 0 ? start + (count - 1) * static_cast<uint64_t>(stride) : start) + bytes;
    }
};

// Pieces of GM by their address: who touched each last.
class Intervals {
  public:
    struct Entry {
        uint64_t end;
        uint32_t clock;
        uint8_t pipe;
        Access::Kind kind;
        Site site;
    };
    // Puts an entry where others may be, which it replaces.
    void put(uint64_t start, const Entry& entry);
    template <typename F>
    void overlapping(uint64_t start, uint64_t end, F&& f) const {
        auto it = entries_.upper_bound(start);
        if (it != entries_.begin() && std::prev(it)->second.end > start) --it;
        for (; it != entries_.end() && it->first < end; ++it) f(it->first, it->second);
    }

  private:
    std::map<uint64_t, Entry> entries_;
};

struct GlobalTrace {
    std::vector<GlobalAccess> reads, writes;
    uint64_t read_low = UINT64_MAX, read_high = 0, write_low = UINT64_MAX, write_high = 0;
    bool indexed = false;
    Intervals read_index, write_index;
};

struct Buffer {
    enum class State : uint8_t { Free, Taken, Waiting, Got } state = State::Free;
    Space space;
    uint8_t position;
    uint32_t offset, bytes;
    int32_t free_event = -1;   // set by FreeTensor, to be waited for by AllocTensor
    int32_t queue_event = -1;  // set by EnQue, to be waited for by DeQue
    Pipe free_from = Pipe::ALL, free_to = Pipe::ALL;
    bool queued = false;  // belongs to a queue
    bool alive = true;
    Where where{};  // of AllocTensor
};

struct Flag {
    bool set = false;
    bool taken = false;
    std::array<uint32_t, pipes> clock{};
    Where where{};
};

struct Launch;

struct Core {
    Launch* launch;
    int32_t index;  // among all of the launch
    int32_t kind_index;
    CoreKind kind;
    int32_t block, sub_block;
    std::unique_ptr<CoreMemory> memory;
    bool check, cost, move;
    bool cleans = false;  // writes the scalar unit's cache back
    Registers registers;

    std::array<uint32_t, pipes> count{};  // instructions issued
    std::array<std::array<uint32_t, pipes>, pipes>
        known{};                               // known[p][q]: what of q is over before p goes on
    std::array<uint32_t, pipes> barrier_at{};  // instructions issued at the last barrier
    struct Issued {
        uint32_t clock;
        Site site;
    };
    std::array<std::vector<Issued>, pipes> sites;  // of what touched local memory
    uint32_t epoch = 0;                            // events set and barriers, of any pipe
    std::vector<Access> accesses;
    struct Copied {
        Space from, to;
        uint64_t from_start, to_start, bytes;
        int64_t from_stride, to_stride;
        uint32_t count;
    };
    std::vector<Copied> copied;  // of the instruction on its way: what is written there says its source
    CubeState cube;
    std::array<std::array<Flag, 8>, pipes * pipes> flags;
    std::vector<Buffer> buffers;
    std::array<uint32_t, spaces> top{};  // handed out by the pipe object
    void* pipe = nullptr;

    // The last writes and reads of each pipe in UB, for what the scalar unit must wait for.
    struct Touched {
        struct Entry {
            uint32_t low, high, clock;
        };
        static constexpr size_t kept = 8;
        std::array<Entry, kept> entries{};
        Entry older{};  // around all those that are not kept
        uint8_t next = 0;

        void add(uint32_t low, uint32_t high, uint32_t clock, uint32_t over);
        // The last that touches some bytes, or 0.
        uint32_t last(uint32_t low, uint32_t high) const;
    };
    std::array<Touched, pipes> written{}, touched{};

    std::vector<GlobalTrace> traces;  // for each buffer of the launch
    // At each signal to other cores: what of each pipe it covers.
    std::vector<std::array<uint32_t, pipes>> segments;
    std::vector<uint32_t> know;                // of each core, how many of its segments are over for this one
    std::vector<std::vector<uint32_t>> waits;  // `know` after each wait

    Log log;
    std::array<std::pair<const char*, uint16_t>, 256> names{};

    Core(Launch& launch, int32_t index);
    ~Core();
    std::string name() const;
    bool ordered(int before, uint32_t clock, int after) const {
        return before == after || known[after][before] >= clock;
    }
    void poll() const;
    uint16_t name_number(const char* name);
    void record(Event event, Pipe pipe, Pipe to, int32_t id, const char* name, Where where, const Work& work);
    const GlobalBuffer* find(const uint8_t* address) const;
    void finish();
    [[noreturn]] void fail(Kind kind, Where where, const char* name, const std::string& text) const;
};

extern thread_local Core* current __attribute__((tls_model("initial-exec")));

struct Token {
    std::vector<uint32_t> know;
};

// One kernel on its way: its cores, and what they share.
struct Launch {
    using Entry = void (*)(void* const*);
    Entry entry = nullptr;
    std::vector<void*> arguments;
    std::vector<GlobalBuffer> buffers;
    Capacities capacities{};
    int32_t blocks = 1;
    enum class Kind : uint8_t { Vector, Cube, Mixed } kind = Kind::Vector;
    bool check = true, cost = false, move = true;
    uint8_t* workspace = nullptr;
    int32_t vectors_per_block = 2;

    int32_t cores() const { return kind == Kind::Mixed ? blocks * (1 + vectors_per_block) : blocks; }
    int32_t cores_of(CoreKind of) const;

    // Results.
    Finding finding;
    std::vector<std::unique_ptr<Core>> finished;

    // Scheduling.
    struct Waiting {
        Core* core;
        std::string what;
        std::function<bool()> ready;
    };
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<int32_t> failed{INT32_MAX};  // the lowest core with a finding; -1: to be stopped
    int32_t slots = 1, running = 0, workers = 0, next = 0;
    std::vector<std::thread> threads;
    std::vector<const Waiting*> waiting;

    // Signals between cores; under the mutex.
    std::map<std::pair<int32_t, uint16_t>, std::deque<Token>> counters;  // (core, id)
    struct Group {
        std::vector<std::deque<Token>> arrived;
    };
    std::map<std::tuple<int32_t, int32_t, uint16_t>, Group> groups;  // (mode and kind, block, id)
    struct Barrier {
        int32_t arrived = 0;
        uint64_t generation = 0;
        std::vector<uint32_t> know, result;
    } barriers[2];
    std::map<std::tuple<const uint8_t*, int64_t, int32_t>, std::deque<Token>> block_flags;

    void run();
    void worker();
    void start_worker();
    bool stuck() const;
    void run_core(int32_t index);
    void block(Core& core, std::unique_lock<std::mutex>& lock, const char* name, Where where,
               std::string what, std::function<bool()> ready);
    void report(const Finding& found);
    void check_cores();               // accesses of different cores to the same bytes
    void check_lines(size_t buffer);  // and scalar writes to the same lines of the cache
};

std::string format(const char* text, va_list arguments);
std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));
const char* name_of(Space space);
const char* name_of(Pipe pipe);
const char* name_of(Kind kind);
std::string name_of_position(uint8_t position);
std::string at(const Site& site);

// The table of names in logs.
uint16_t global_name(const char* name);
std::vector<std::string> all_names();

// checks.cpp
void check_local(Core& core, const Access& access, Pipe pipe, const char* name, Where where);
void mark_local(Core& core, const Access& access, Pipe pipe);
void mark_copied(Core& core);
// The number of the latest of a pipe's instructions that wrote one of these bytes.
uint32_t last_write(const Core& core, const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count,
                    int64_t stride, Pipe pipe);
void check_global(Core& core, const Access& access, Pipe pipe, const char* name, Where where);
void mark_global(Core& core, const Access& access, Pipe pipe, const Site& site);

}  // namespace sim
