// The timing engine: replays the logs of a launch's cores on a model of the chip. Time is in cycles of the
// core's clock. Figures come from the chip's data (chips/*.toml); their meaning is in docs/ascend.md, "The
// cost model".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/core.hpp"

namespace sim::replay {

constexpr int paths = 16;
constexpr int dtypes = 13;

// As backend/sim/cost.py lays it out: numbers only. Bandwidths are in bytes per cycle.
struct Parameters {
    double hbm, l2, fabric;             // of the chip
    double hbm_rate, l2_rate;           // of one core's reads
    double l2_bytes, line, sector;      // what L2 holds; a line; the least that is read of one
    double backlog;                     // bytes written back that may wait for HBM
    double launch, launch_core, start;  // before any core begins, more for each core, and in each
    double queue_depth, sync_all;
    double issue_vector, issue_copy, issue_cube, issue_flag, issue_instruction, issue_bypass,
        wait;  // scalar unit
    double write_aligned, write_span, write_rate;
    double mmad_head, conflict;
    double cores[2];  // vector, cube
    double steps[dtypes][3];
    struct Copy {
        double head, latency, piece, rate;
    } copies[paths];
};

// The cycles of an instruction: before the first repeat, and of a repeat of elements of up to 2, 4, 8 bytes.
struct InstructionCost {
    double head, repeat[3];
};

// What a transfer with global memory asks of the memory.
struct Transfer {
    int32_t core;
    int32_t pipe;
    bool writes;
    bool bypass;       // L2
    bool idle;         // the pipe stood still before
    uint64_t address;  // of the first piece
    int64_t stride;
    uint32_t pieces, bytes;
    double piece_cycles;  // of all pieces, besides the bytes
    double rate;          // bytes per cycle between the core and L2 at most; 0: as the memory gives
};

struct Done {
    int32_t core;
    int32_t pipe;
    double end;
    double held;  // cycles that it waited in the memory's queue before its first byte
};

struct Traffic {
    double hbm_read = 0, hbm_write = 0, l2_read = 0, l2_write = 0;
    double must_read = 0, must_write = 0;  // each byte once, and what the kernel wrote itself not at all
};

// Which lines a launch has read and written so far.
class Footprint {
  public:
    // Adds parts of a line; how many of them are new.
    int add(uint64_t line, uint32_t sectors, bool writes);

  private:
    struct Slot {
        uint64_t line = UINT64_MAX;
        uint8_t read = 0, written = 0;
    };
    Slot& slot(uint64_t line);
    std::vector<Slot> slots_;
    size_t used_ = 0;
};

// What L2 holds: least recently used lines leave first. Of large launches only every `sampling`-th line is
// followed, which gives the same shares.
class Cache {
  public:
    Cache(double bytes, uint32_t line, uint32_t sector, uint32_t sampling);
    // The share of a transfer's bytes that is not there; afterwards they are, unless it bypasses the cache.
    // `lines` becomes how many lines it touches over how many its bytes would fill.
    double missing(const Transfer& transfer, double& lines, Footprint& footprint, Traffic& traffic);

  private:
    struct Node {
        uint64_t line = UINT64_MAX;
        uint32_t previous = 0, next = 0;
        uint32_t chain = 0;  // next node with the same hash, plus 1
        uint8_t present = 0;
    };
    uint32_t find(uint64_t line) const;
    uint32_t insert(uint64_t line);
    void forget(uint32_t node);
    void to_front(uint32_t node);
    void unlink(uint32_t node);
    uint32_t line_, sector_, sampling_shift_;
    std::vector<Node> nodes_;  // node 0 is the ring's head
    std::vector<uint32_t> buckets_;
    uint32_t used_ = 0;
    std::vector<double>
        last_;  // the share of each core and pipe's last transfer, where none of a new one is sampled
};

// HBM and L2, shared by all transfers under way. Bandwidth is shared evenly, up to what each can take.
class Memory {
  public:
    Memory(const Parameters& parameters, Cache& cache) : parameters_(parameters), cache_(cache) {}
    double now() const { return now_; }
    // The time of the next thing that happens of itself; infinity: nothing is under way.
    double next();
    void advance(double to, std::vector<Done>& done);
    void begin(const Transfer& transfer);
    const Traffic& traffic() const { return traffic_; }

  private:
    struct Flow {
        int32_t core, pipe;
        bool writes;
        double left, cap, from_hbm, from_l2;  // bytes, bytes per cycle, shares
        double rate;
        double held_until, held;
    };
    void share();
    const Parameters& parameters_;
    Cache& cache_;
    std::vector<Flow> flows_;
    std::vector<double> uses_;
    Footprint footprint_;
    bool stale_ = false;  // who gets how much is to be worked out again
    double now_ = 0;
    double waiting_ = 0;         // bytes to be written back
    double waiting_change_ = 0;  // per cycle
    Traffic traffic_;
};

}  // namespace sim::replay
