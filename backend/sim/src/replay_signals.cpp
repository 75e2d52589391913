// Signals between cores: flags, signals through memory, barriers.
#include "replay_signals.hpp"

#include <algorithm>
#include <limits>

namespace sim::replay {

namespace {
constexpr double never = std::numeric_limits<double>::infinity();
}  // namespace

void Signals::set(int32_t core, uint32_t mode, uint8_t id, double time) {
    changed = true;
    if (mode == 3) {
        through_memory_[id].push_back(time);
        return;
    }
    const CoreInput& from = cores_[static_cast<size_t>(core)];
    std::vector<int32_t> setters, told;
    for (int32_t other = 0; other < static_cast<int32_t>(cores_.size()); ++other) {
        const CoreInput& to = cores_[static_cast<size_t>(other)];
        const bool same_block = mode == 0 || to.block == from.block;
        if (same_block && to.kind == from.kind) setters.push_back(other);
        if (same_block && (mode == 2 ? to.kind != from.kind : to.kind == from.kind)) told.push_back(other);
    }
    Group& group = groups_[{static_cast<int32_t>(mode), from.kind, mode == 0 ? 0 : from.block, id}];
    group.arrived[core].push_back(time);
    if (group.arrived.size() < setters.size()) return;
    for (const auto& [who, times] : group.arrived)
        if (times.empty()) return;
    double latest = 0;
    for (auto& [who, times] : group.arrived) {
        latest = std::max(latest, times.front());
        times.pop_front();
    }
    for (const int32_t other : told) for_core_[{other, id}].push_back(latest);
}

double Signals::take(int32_t core, uint8_t id) {
    auto& times = for_core_[{core, id}];
    auto& memory = through_memory_[id];
    auto& from = times.empty() ? memory : times;
    if (from.empty()) return never;
    const double time = from.front();
    from.pop_front();
    return time;
}

size_t Signals::arrive(int32_t core, bool all, double time) {
    const int32_t which = all ? 2 : cores_[static_cast<size_t>(core)].kind;
    Barrier& barrier = barriers_[static_cast<size_t>(which)];
    if (!barrier.members)
        for (const CoreInput& other : cores_) barrier.members += all || other.kind == which;
    const size_t generation = generation_[{core, which}]++;
    if (barrier.arrived.size() <= generation) barrier.arrived.resize(generation + 1);
    barrier.arrived[generation].push_back(time);
    changed = true;
    return generation;
}

double Signals::released(int32_t core, bool all, size_t generation) const {
    const Barrier& barrier = barriers_[static_cast<size_t>(all ? 2 : cores_[static_cast<size_t>(core)].kind)];
    const auto& arrived = barrier.arrived[generation];
    return arrived.size() < barrier.members ? never : *std::max_element(arrived.begin(), arrived.end());
}

}  // namespace sim::replay
