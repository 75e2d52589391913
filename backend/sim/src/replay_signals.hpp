// Signals between the cores of a launch, and what a core's log is.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "replay.hpp"

namespace sim::replay {

struct CoreInput {
    const Record* records;
    int64_t count;
    int32_t kind;  // 0 vector, 1 cube
    int32_t block;
    double* starts;  // of each instruction, or null
    double* ends;
};

// Signals between cores.
class Signals {
  public:
    explicit Signals(const std::vector<CoreInput>& cores) : cores_(cores) {}
    void set(int32_t core, uint32_t mode, uint8_t id, double time);
    // The time of the next signal for a core, or infinity.
    double take(int32_t core, uint8_t id);
    // Arrives at a barrier; the generation to ask `released` for.
    size_t arrive(int32_t core, bool all, double time);
    double released(int32_t core, bool all, size_t generation) const;
    bool changed = false;

  private:
    struct Group {
        std::map<int32_t, std::deque<double>> arrived;
    };
    const std::vector<CoreInput>& cores_;
    std::map<std::pair<int32_t, uint8_t>, std::deque<double>> for_core_;
    std::map<uint8_t, std::deque<double>> through_memory_;
    std::map<std::array<int32_t, 4>, Group> groups_;
    struct Barrier {
        size_t members = 0;
        std::vector<std::vector<double>> arrived;  // by generation
    };
    mutable std::array<Barrier, 3> barriers_;
    std::map<std::pair<int32_t, int32_t>, size_t> generation_;
};

}  // namespace sim::replay
