// L2 and HBM of the timing engine.
#include <algorithm>
#include <cmath>
#include <limits>

#include "replay.hpp"

namespace sim::replay {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double nothing = 1e-6;  // bytes

uint64_t scatter(uint64_t line) { return line * 0x9E3779B97F4A7C15ULL; }

// The even share of `capacity` among demands: each gets the result at most, and no more than it asks for.
double even_share(std::vector<double>& demands, double capacity) {
    double total = 0;
    for (const double demand : demands) total += demand;
    if (total <= capacity) return never;
    std::sort(demands.begin(), demands.end());
    double left = capacity;
    for (size_t i = 0; i < demands.size(); ++i) {
        const double share = left / static_cast<double>(demands.size() - i);
        if (demands[i] >= share) return share;
        left -= demands[i];
    }
    return never;
}

}  // namespace

// --- What L2 holds
// ------------------------------------------------------------------------------------------

Cache::Cache(double bytes, uint32_t line, uint32_t sector, uint32_t sampling)
    : line_(line), sector_(sector), sampling_shift_(0) {
    while ((1U << sampling_shift_) < sampling) ++sampling_shift_;
    const auto count = static_cast<uint32_t>(bytes / line) >> sampling_shift_;
    nodes_.resize(std::max(count, 1U) + 1);
    uint32_t buckets = 1;
    while (buckets < nodes_.size() * 2) buckets *= 2;
    buckets_.assign(buckets, 0);
}

uint32_t Cache::find(uint64_t line) const {
    const size_t bucket = scatter(line) >> 20 & (buckets_.size() - 1);
    for (uint32_t node = buckets_[bucket]; node; node = nodes_[node].chain)
        if (nodes_[node].line == line) return node;
    return 0;
}

void Cache::unlink(uint32_t node) {
    nodes_[nodes_[node].previous].next = nodes_[node].next;
    nodes_[nodes_[node].next].previous = nodes_[node].previous;
}

void Cache::to_front(uint32_t node) {
    const uint32_t first = nodes_[0].next;
    nodes_[node].previous = 0;
    nodes_[node].next = first;
    nodes_[first].previous = node;
    nodes_[0].next = node;
}

void Cache::forget(uint32_t node) {
    uint32_t* link = &buckets_[scatter(nodes_[node].line) >> 20 & (buckets_.size() - 1)];
    while (*link != node) link = &nodes_[*link].chain;
    *link = nodes_[node].chain;
}

uint32_t Cache::insert(uint64_t line) {
    uint32_t node;
    if (used_ + 1 < nodes_.size()) {
        node = ++used_;
    } else {
        node = nodes_[0].previous;
        unlink(node);
        forget(node);
    }
    nodes_[node].line = line;
    nodes_[node].present = 0;
    uint32_t& bucket = buckets_[scatter(line) >> 20 & (buckets_.size() - 1)];
    nodes_[node].chain = bucket;
    bucket = node;
    to_front(node);
    return node;
}

double Cache::missing(const Transfer& transfer, double& lines, Footprint& footprint, Traffic& traffic) {
    const size_t who = static_cast<size_t>(transfer.core) * pipes + static_cast<size_t>(transfer.pipe);
    if (last_.size() <= who) last_.resize(who + 1, 1.0);
    const uint64_t mask = (1ULL << sampling_shift_) - 1;
    uint64_t touched = 0, asked = 0, absent = 0;
    int64_t fresh = 0;
    const bool packed = transfer.stride == static_cast<int64_t>(transfer.bytes);
    const uint32_t pieces = packed ? 1 : transfer.pieces;
    const uint64_t length = packed ? uint64_t{transfer.pieces} * transfer.bytes : transfer.bytes;
    for (uint32_t piece = 0; piece < pieces; ++piece) {
        const uint64_t from = transfer.address + static_cast<uint64_t>(transfer.stride) * piece;
        const uint64_t first = from / line_, last = (from + length - 1) / line_;
        touched += last - first + 1;
        for (uint64_t line = first; line <= last; ++line) {
            if ((scatter(line) >> 52 & mask) != 0) continue;
            const uint64_t low = std::max(from, line * line_) - line * line_;
            const uint64_t high = std::min(from + length - 1, line * line_ + line_ - 1) - line * line_;
            uint32_t sectors = 0;
            for (uint64_t sector = low / sector_; sector <= high / sector_; ++sector) sectors |= 1U << sector;
            fresh += footprint.add(line, sectors, transfer.writes);
            if (transfer.bypass && transfer.writes) continue;
            uint32_t node = find(line);
            const uint32_t present = node ? nodes_[node].present : 0U;
            asked += static_cast<uint64_t>(__builtin_popcount(sectors));
            absent += static_cast<uint64_t>(__builtin_popcount(sectors & ~present));
            if (transfer.bypass) continue;
            if (!node) {
                node = insert(line);
            } else {
                unlink(node);
                to_front(node);
            }
            nodes_[node].present = static_cast<uint8_t>(present | sectors);
        }
    }
    const uint64_t filled = uint64_t{pieces} * ((length + line_ - 1) / line_);
    lines = std::max(1.0, static_cast<double>(touched) / static_cast<double>(filled));
    (transfer.writes ? traffic.must_write : traffic.must_read) +=
        static_cast<double>(fresh * sector_) * static_cast<double>(1U << sampling_shift_);
    if (transfer.bypass && transfer.writes) return 1.0;
    if (asked) last_[who] = static_cast<double>(absent) / static_cast<double>(asked);
    return last_[who];
}

Footprint::Slot& Footprint::slot(uint64_t line) {
    size_t at = scatter(line) >> 24 & (slots_.size() - 1);
    while (slots_[at].line != line && slots_[at].line != UINT64_MAX) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
}

int Footprint::add(uint64_t line, uint32_t sectors, bool writes) {
    if ((used_ + 1) * 2 > slots_.size()) {
        std::vector<Slot> old(std::max<size_t>(1024, slots_.size() * 2));
        old.swap(slots_);
        for (const Slot& kept : old)
            if (kept.line != UINT64_MAX) slot(kept.line) = kept;
    }
    Slot& here = slot(line);
    if (here.line != line) {
        here.line = line;
        ++used_;
    }
    const uint32_t known = writes ? here.written : here.read | here.written;
    (writes ? here.written : here.read) |= static_cast<uint8_t>(sectors);
    return __builtin_popcount(sectors & ~known);
}

// --- Who gets how much
// --------------------------------------------------------------------------------------

void Memory::begin(const Transfer& transfer) {
    const Parameters& of = parameters_;
    double lines = 1;
    const double missing = cache_.missing(transfer, lines, footprint_, traffic_);
    const double bytes = transfer.pieces * std::max<double>(transfer.bytes, of.sector) * lines;
    Flow flow{};
    flow.core = transfer.core;
    flow.pipe = transfer.pipe;
    flow.writes = transfer.writes;
    flow.left = bytes;
    flow.from_hbm = missing;
    flow.from_l2 = transfer.bypass ? 1 - missing : 1.0;
    double cycles = transfer.piece_cycles;
    if (transfer.writes)
        cycles += bytes / transfer.rate;
    else
        cycles += bytes * (missing / of.hbm_rate + (1 - missing) / of.l2_rate);
    flow.cap = bytes / std::max(cycles, 1.0);
    if (transfer.idle && !transfer.writes && missing > 0) {
        double before = waiting_;
        for (const Flow& other : flows_)
            if (other.writes) before += other.left * other.from_hbm;
        flow.held = before / of.hbm;
    }
    flow.held_until = now_ + flow.held;
    if (transfer.writes) {
        traffic_.hbm_write += bytes * missing;
        if (!transfer.bypass) traffic_.l2_write += bytes;
    } else {
        traffic_.hbm_read += bytes * missing;
        traffic_.l2_read += bytes * (1 - missing);
    }
    flows_.push_back(flow);
    stale_ = true;
}

void Memory::share() {
    const Parameters& of = parameters_;
    // Reads from HBM, beside what is written back.
    double written = 0;
    for (const Flow& flow : flows_)
        if (flow.writes) written += flow.cap * flow.from_hbm;
    const bool busy = waiting_ > nothing;
    const double reserved = busy ? of.hbm / 2 : std::min(written, of.hbm / 2);
    const auto reading = [&](const Flow& flow) { return !flow.writes && flow.held_until <= now_; };
    uses_.clear();
    for (const Flow& flow : flows_)
        if (reading(flow) && flow.from_hbm > 0) uses_.push_back(flow.cap * flow.from_hbm);
    const double hbm_share = even_share(uses_, of.hbm - reserved);
    uses_.clear();
    for (const Flow& flow : flows_)
        if (reading(flow) && flow.from_hbm < 1) uses_.push_back(flow.cap * (1 - flow.from_hbm));
    const double l2_share = even_share(uses_, of.l2);
    double from_hbm = 0;
    for (Flow& flow : flows_) {
        if (flow.writes) continue;
        flow.rate = 0;
        if (!reading(flow)) continue;
        flow.rate = flow.cap;
        if (flow.from_hbm > 0) flow.rate = std::min(flow.rate, hbm_share / flow.from_hbm);
        if (flow.from_hbm < 1) flow.rate = std::min(flow.rate, l2_share / (1 - flow.from_hbm));
        from_hbm += flow.rate * flow.from_hbm;
    }
    // Writes take what is left of the way through the chip; once too much waits for HBM, HBM's pace.
    uses_.clear();
    for (const Flow& flow : flows_)
        if (flow.writes) uses_.push_back(flow.cap);
    const double write_share = even_share(uses_, of.fabric - from_hbm);
    uses_.clear();
    for (const Flow& flow : flows_)
        if (flow.writes && flow.from_hbm > 0)
            uses_.push_back(std::min(flow.cap, write_share) * flow.from_hbm);
    const double drain = of.hbm - from_hbm;
    const double missing_share = waiting_ >= of.backlog - nothing ? even_share(uses_, drain) : never;
    double arriving = 0;
    for (Flow& flow : flows_) {
        if (!flow.writes) continue;
        flow.rate = std::min(flow.cap, write_share);
        if (flow.from_hbm > 0) flow.rate = std::min(flow.rate, missing_share / flow.from_hbm);
        arriving += flow.rate * flow.from_hbm;
    }
    waiting_change_ = arriving - drain;
    if (!busy && waiting_change_ < 0) waiting_change_ = 0;
    if (waiting_ >= of.backlog - nothing && std::abs(waiting_change_) < nothing) waiting_change_ = 0;
}

double Memory::next() {
    if (stale_) share();
    stale_ = false;
    double time = never;
    for (const Flow& flow : flows_) {
        if (flow.held_until > now_) time = std::min(time, flow.held_until);
        if (flow.rate > 0) time = std::min(time, now_ + flow.left / flow.rate);
    }
    if (flows_.empty()) return never;
    if (waiting_change_ < 0) time = std::min(time, now_ + waiting_ / -waiting_change_);
    if (waiting_change_ > 0 && waiting_ < parameters_.backlog - nothing)
        time = std::min(time, now_ + (parameters_.backlog - waiting_) / waiting_change_);
    return time;
}

void Memory::advance(double to, std::vector<Done>& done) {
    const double step = to - now_;
    now_ = to;
    waiting_ = std::clamp(waiting_ + waiting_change_ * step, 0.0, parameters_.backlog);
    // What flows within one step of the clock's rounding is nothing: the clock would stand still over it.
    const double rounding = std::max(nothing, std::abs(waiting_change_) * now_ * 1e-15);
    if (waiting_ < rounding) waiting_ = 0;
    if (parameters_.backlog - waiting_ < rounding) waiting_ = parameters_.backlog;
    size_t kept = 0;
    for (Flow& flow : flows_) {
        flow.left -= flow.rate * step;
        if (flow.rate > 0 && flow.left <= std::max(nothing, flow.rate * now_ * 1e-15))
            done.push_back({flow.core, flow.pipe, now_, flow.held});
        else
            flows_[kept++] = flow;
    }
    flows_.resize(kept);
    stale_ = true;
}

}  // namespace sim::replay
