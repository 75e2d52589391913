// What a core did, one record for each instruction, event and barrier: the input of the cost model.
#pragma once

#include <cstdint>

namespace sim {

enum class Dtype : uint8_t;

// The way of a transfer; None for what computes.
enum class Path : uint8_t {
    None,
    GmToUb,
    UbToGm,
    GmToL1,
    L1ToGm,
    UbToUb,
    L1ToL0a,
    L1ToL0b,
    L1ToBt,
    L1ToFb,
    L0cToGm,
    L0cToL1,
    L0cToUb,
    UbToL1,
    GmToL0a,
    GmToL0b
};

// How much an instruction does. What that costs is the cost model's business alone (chips/*.toml,
// replay.cpp).
struct Work {
    uint32_t repeats = 0;  // vector: repeats of 256 bytes; transfer: pieces
    uint32_t bytes = 0;    // transfer: bytes of a piece; vector: bytes of an element of the widest operand
    uint32_t m = 0, n = 0, k = 0;  // Mmad; Fixpipe has m and n; vector: m repeats whose reads take turns
    Path path = Path::None;
    uint8_t dtype = 0;  // sim::Dtype of the (first) source
    bool l2 = true;     // whether a transfer with GM goes through L2
    uint8_t unit_flag =
        0;                 // of Mmad and Fixpipe: 2 waits for the flags of what it touches, 3 also turns them
    uint64_t address = 0;  // of the first byte in GM; in the log: the buffer's number << 40, and where in it
    int64_t stride = 0;    // bytes between the pieces in GM

    // `repeats` of an instruction on elements of `bytes` bytes.
    static Work vector(uint32_t repeats, uint32_t bytes, uint8_t dtype) {
        Work w;
        w.repeats = repeats;
        w.bytes = bytes;
        w.dtype = dtype;
        return w;
    }
    static Work transfer(Path path, uint32_t pieces, uint32_t bytes) {
        Work w;
        w.repeats = pieces;
        w.bytes = bytes;
        w.path = path;
        return w;
    }
    static Work cube(uint32_t m, uint32_t n, uint32_t k, uint8_t dtype) {
        Work w;
        w.m = m;
        w.n = n;
        w.k = k;
        w.dtype = dtype;
        return w;
    }
};

enum class Event : uint8_t {
    Instruction,  // on `pipe`
    SetFlag,      // `pipe` → `to`, `id`
    WaitFlag,     // `to` waits for `pipe`'s flag `id`
    PipeBarrier,  // of `pipe`, or of all pipes
    ScalarWait,   // the scalar unit waits until `pipe` has nothing left (GetValue after a vector instruction)
    CoreSet,      // flag to other cores: `id`, mode in work.m, from `pipe`
    CoreWait,     // flag from other cores: `id`
    SyncAll,      // all cores of the kernel
    Scalar        // scalar work: work.repeats instructions
};

struct Record {
    Event event;
    uint8_t pipe;
    uint8_t to;
    uint8_t id;
    uint16_t name;  // number in the table of names
    uint16_t line;  // of the kernel's source, 65535 at most
    Work work;
};

}  // namespace sim
