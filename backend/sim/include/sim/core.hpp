// The simulated core as instructions see it: memories, pipes, checks and the log that is costed.
//
// Everything in ascendc/ is a thin, typed shell over functions of this library: a shell turns its tensors
// into Local and Global and calls code that was compiled once. A kernel therefore compiles in a fraction of a
// second.
//
// The scalar unit runs the kernel's C++ as it stands. An instruction is carried out when it is issued, in
// program order; on the chip it waits in the queue of its pipe. That an order other than program order could
// give another result is what the checks find: each access is compared with earlier ones that no event,
// barrier or pipe orders before it (happens-before, by vector clocks over the pipes of a core).
#pragma once

#include <cstdint>

#include "log.hpp"

namespace sim {

enum class Pipe : uint8_t { S, V, M, MTE1, MTE2, MTE3, FIX, ALL };
constexpr int pipes = 7;

enum class Space : uint8_t { GM, UB, L1, L0A, L0B, L0C, BT, FB };
constexpr int spaces = 8;

enum class Dtype : uint8_t { I4, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 };

constexpr uint32_t size_of(Dtype dtype) {  // of int4, two to a byte: 1
    switch (dtype) {
        case Dtype::I4:
        case Dtype::I8:
        case Dtype::U8:
            return 1;
        case Dtype::I16:
        case Dtype::U16:
        case Dtype::F16:
        case Dtype::BF16:
            return 2;
        case Dtype::I32:
        case Dtype::U32:
        case Dtype::F32:
            return 4;
        default:
            return 8;
    }
}

// The kernel's line that called an API function. Last parameter, with this default, of every one:
//     template <typename T> void Add(..., const int32_t& count, sim::Where where = sim::Where::here());
struct Where {
    const char* file;
    int line;
    static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

// A local tensor without its type.
struct Local {
    Space space;
    uint8_t position;  // AscendC::TPosition
    Dtype dtype;
    uint32_t offset;  // bytes from the start of its space
    uint32_t bytes;   // that belong to the tensor, from `offset`
    int32_t buffer;   // which allocation it belongs to, for messages and the queue protocol; -1: none
};

// A global tensor without its type.
struct Global {
    uint8_t* address;
    uint64_t bytes;  // as SetGlobalBuffer said; 0: up to the end of the buffer it lies in
    Dtype dtype;
    bool l2;  // false after SetL2CacheHint(CACHE_MODE_DISABLE)
};

// One instruction on its way. Its constructor names it, `reads` and `writes` say what it touches and check
// that (bounds, alignment as given, position), `work` says how long it takes, `issue` orders it after what it
// must wait for, looks for races and uninitialised reads, and logs it.
//
//     Instruction add(Pipe::V, "Add", where);
//     add.reads(src0, 0, bytes); add.reads(src1, 0, bytes); add.writes(dst, 0, bytes);
//     add.work(Work::vector(repeats, dtype));
//     if (add.issue()) { … move the data … }
class Instruction {
  public:
    Instruction(Pipe pipe, const char* name, Where where);

    // `count` pieces of `bytes`, `stride` bytes from the start of one to the next, the first `offset` bytes
    // into the tensor. `role` names the operand in messages ("dst", "src0", …).
    void reads(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1, int64_t stride = 0,
               const char* role = "src");
    void writes(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1, int64_t stride = 0,
                const char* role = "dst");
    void reads(const Global& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1, int64_t stride = 0,
               const char* role = "src");
    void writes(const Global& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1, int64_t stride = 0,
                const char* role = "dst");
    // A write that adds to what is there (atomics, accumulation): it reads too, and two of them do not race.
    void updates(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1, int64_t stride = 0,
                 const char* role = "dst");
    void updates(const Global& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1, int64_t stride = 0,
                 const char* role = "dst");

    // Reads whatever is there, written before or not: what lies between the elements that count.
    void reads_any(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1,
                   int64_t stride = 0, const char* role = "src");
    // Reads whole blocks of 32 bytes in each of which something was written: what a copy cannot help to take
    // along.
    void reads_blocks(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count = 1,
                      int64_t stride = 0, const char* role = "src");
    // Copies `count` pieces of `bytes` as they are, from `src` to `dst`; both ends at blocks of 32 bytes.
    // What was not written in the source counts as not written in the destination.
    void copies(const Local& dst, int64_t dst_offset, int64_t dst_stride, const Local& src,
                int64_t src_offset, int64_t src_stride, uint64_t bytes, uint32_t count);
    // Waits, by means of its own, until the instruction `clock` of another pipe is over.
    void after(Pipe other, uint32_t clock);
    // Its number on its pipe, once it is issued.
    uint32_t clock() const;
    // Whether what its own pipe wrote there is over: pipes start instructions in order, and may overlap them.
    bool settled(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count, int64_t stride) const;

    // Checks of the tensor itself.
    void aligned(const Local& tensor, uint32_t bytes, const char* role);  // its start, in its space
    void lives_in(const Local& tensor, Space space, const char* role);
    void takes(bool supported, Dtype dtype, const char* role);  // "Add does not take int8 on …"
    // Any other rule: `what` says what was expected, then printf-style what was given.
    void require(bool condition, const char* format, ...) __attribute__((format(printf, 3, 4)));

    void work(const Work& work);

    // Whether the data is to be moved: not in a run that only costs.
    bool issue();

    // Whether this core is of the other kind than the instruction is for: in a kernel for both kinds it is
    // then passed over. `issue` returns false, and nothing that was said of it is checked.
    bool skipped() const { return skipped_; }

  private:
    Pipe pipe_;
    bool skipped_;
    const char* name_;
    Where where_;
    Work work_{};
};

// Where a local tensor's bytes are on the host.
uint8_t* data(const Local& tensor);

// The core that this thread runs.
bool is_vector();
bool is_cube();

// A tensor at an address of the kernel's own choice; checked against the capacity of the space.
Local place(uint8_t position, Space space, uint64_t offset, uint64_t bytes, Dtype dtype, Where where);

// Reads and writes of the scalar unit, `offset` bytes into a tensor. In a run that only costs, reads give
// zeros.
void load(const Local& tensor, uint64_t offset, void* value, uint32_t bytes, Where where);
void load(const Global& tensor, uint64_t offset, void* value, uint32_t bytes, Where where);
void store(const Local& tensor, uint64_t offset, const void* value, uint32_t bytes, Where where);
void store(const Global& tensor, uint64_t offset, const void* value, uint32_t bytes, Where where);
// For what is both read and written, through a reference.
void* scalar_reference(const Local& tensor, uint64_t offset, uint32_t bytes, Where where);
void* scalar_reference(const Global& tensor, uint64_t offset, uint32_t bytes, Where where);

// What the scalar unit wrote to GM goes there from its cache.
void clean_cache();

// True in a run that only costs: values read from memory (GetValue) are then 0.
bool cost_only();

// What the kernel sets and instructions obey, of this core.
struct Registers {
    bool counter = false;                             // SetMaskCount: the mask is a number of elements
    uint64_t mask[2] = {~uint64_t{0}, ~uint64_t{0}};  // SetVectorMask: high word second
    enum class Atomic : uint8_t { None, Add, Max, Min } atomic = Atomic::None;
    Dtype atomic_dtype = Dtype::F32;
    uint8_t compare_mask[32] = {};  // Compare without a destination, SetCmpMask
    uint64_t quantisation = 0;      // SetDeqScale, SetFixPipeConfig: the scalar's bits
    uint64_t control = 0;           // CTRL, as SetCtrlSpr set it
    uint64_t vector[16] = {};       // for the instructions' own helpers, by their numbering
};
Registers& registers();

// Of the vector unit's masked instructions and the like: what kind of rule was broken.
enum class Kind : uint8_t {
    None,
    Bounds,
    Alignment,
    Capacity,
    Position,
    Uninitialised,
    Race,
    Queue,
    Deadlock,
    Dtype,
    Argument,
    Stopped
};

// Stops this core with a finding of the kind; never returns.
[[noreturn]] void fail(Kind kind, Where where, const char* format, ...) __attribute__((format(printf, 3, 4)));

// The same for a wrong argument.
[[noreturn]] void fail(Where where, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace sim
