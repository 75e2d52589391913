// What the shadow of each memory tells: uninitialised reads and accesses that nothing orders.
#include <algorithm>

#include "engine.hpp"

namespace sim {

namespace {

constexpr uint32_t block_bytes = 32;
constexpr uint32_t clock_bits = 28;
constexpr uint32_t clock_mask = (1U << clock_bits) - 1;

uint32_t mask_of(uint64_t block, uint64_t start, uint64_t end) {
    const uint64_t low = std::max(start, block * block_bytes) - block * block_bytes;
    const uint64_t high = std::min(end, (block + 1) * block_bytes) - block * block_bytes;
    const uint32_t below = high == 32 ? ~0U : (1U << high) - 1;
    return below & ~((low == 0 ? 0U : (1U << low) - 1));
}

// The first number from `i` on that differs, or `count`. Most stretches are alike.
uint64_t next_other(const uint32_t* numbers, uint64_t i, uint64_t count, uint32_t value) {
    constexpr uint64_t step = 32;
    for (; i + step <= count; i += step) {
        uint32_t differ = 0;
        for (uint64_t k = 0; k < step; ++k) differ |= numbers[i + k] ^ value;
        if (differ) break;
    }
    while (i < count && numbers[i] == value) ++i;
    return i;
}

}  // namespace

void Shadow::size(uint32_t bytes) {
    const size_t blocks = (bytes + block_bytes - 1) / block_bytes;
    initialised.assign(blocks, 0);
    written.assign(blocks, 0);
    for (auto& clocks : read) clocks.assign(blocks, 0);
    dirty = 0;
    was_read.fill(false);
}

void Shadow::clear() {
    std::fill_n(initialised.begin(), dirty, 0);
    std::fill_n(written.begin(), dirty, 0);
    for (size_t p = 0; p < pipes; ++p)
        if (was_read[p]) std::fill_n(read[p].begin(), dirty, 0);
    dirty = 0;
    was_read.fill(false);
}

namespace {

[[noreturn]] void race(const Core& core, const Access& access, Pipe pipe, const char* name, Where where,
                       int before, uint32_t clock, const char* did, uint64_t offset) {
    const auto& sites = core.sites[static_cast<size_t>(before)];
    const Site& site = std::partition_point(sites.begin(), sites.end(), [&](const auto& s) {
                           return s.clock < clock;
                       })->site;
    const auto other = static_cast<Pipe>(before);
    core.fail(
        Kind::Race, where, name,
        format(
            "%s: %s of %s byte %llu on pipe %s is not ordered after %s, which %s it on pipe %s. Expected an "
            "event %s_%s or a barrier between them.",
            access.role, access.writes() ? "the write" : "the read", name_of(access.space),
            static_cast<unsigned long long>(offset), name_of(pipe), at(site).c_str(), did, name_of(other),
            name_of(other), name_of(pipe)));
}

}  // namespace

void check_local(Core& core, const Access& access, Pipe pipe, const char* name, Where where) {
    const Shadow& shadow = core.memory->shadow[static_cast<size_t>(access.space)];
    const int p = static_cast<int>(pipe);
    for (uint32_t piece = 0; piece < access.count; ++piece) {
        const uint64_t start =
            access.start + static_cast<uint64_t>(static_cast<int64_t>(piece) * access.stride);
        const uint64_t end = start + access.bytes;
        const uint64_t first = start / block_bytes, stop = (end - 1) / block_bytes + 1;
        uint32_t value = 0;
        const uint32_t* written = shadow.written.data();
        for (uint64_t block = first; (block = next_other(written, block, stop, value)) < stop;) {
            value = written[block];
            const int q = static_cast<int>(value >> clock_bits);
            if (value && !core.ordered(q, value & clock_mask, p))
                race(core, access, pipe, name, where, q, value & clock_mask, "wrote",
                     std::max(start, block * block_bytes));
        }
        if (access.kind == Access::Kind::Read || access.kind == Access::Kind::Update ||
            access.kind == Access::Kind::ReadBlocks) {
            const bool whole = access.kind == Access::Kind::ReadBlocks;
            const uint32_t* initialised = shadow.initialised.data();
            for (uint64_t block = first; (block = next_other(initialised, block, stop, ~0U)) < stop;
                 ++block) {
                const uint32_t missing = mask_of(block, start, end) & ~initialised[block];
                if (missing && !(whole && initialised[block]))
                    core.fail(
                        Kind::Uninitialised, where, name,
                        format("%s: Expected bytes that were written before, given %s byte %llu of the bytes "
                               "%llu to %llu that are read.",
                               access.role, name_of(access.space),
                               static_cast<unsigned long long>(block * block_bytes + __builtin_ctz(missing)),
                               static_cast<unsigned long long>(start), static_cast<unsigned long long>(end)));
            }
        }
        if (!access.writes()) continue;
        for (int q = 0; q < pipes; ++q) {
            if (q == p || !shadow.was_read[static_cast<size_t>(q)]) continue;
            const uint32_t* clocks = shadow.read[static_cast<size_t>(q)].data();
            uint32_t clock = 0;
            for (uint64_t block = first; (block = next_other(clocks, block, stop, clock)) < stop;) {
                clock = clocks[block];
                if (clock && !core.ordered(q, clock, p))
                    race(core, access, pipe, name, where, q, clock, "read",
                         std::max(start, block * block_bytes));
            }
        }
    }
}

void mark_local(Core& core, const Access& access, Pipe pipe) {
    Shadow& shadow = core.memory->shadow[static_cast<size_t>(access.space)];
    const auto p = static_cast<size_t>(pipe);
    const uint32_t clock = core.count[p];
    const uint32_t epoch = static_cast<uint32_t>(p) << clock_bits | clock;
    if (access.kind != Access::Kind::Write) shadow.was_read[p] = true;
    for (uint32_t piece = 0; piece < access.count; ++piece) {
        const uint64_t start =
            access.start + static_cast<uint64_t>(static_cast<int64_t>(piece) * access.stride);
        const uint64_t end = start + access.bytes;
        const uint64_t first = start / block_bytes, last = (end - 1) / block_bytes;
        shadow.dirty = std::max(shadow.dirty, static_cast<uint32_t>(last + 1));
        if (access.reads())
            std::fill(shadow.read[p].begin() + static_cast<int64_t>(first),
                      shadow.read[p].begin() + static_cast<int64_t>(last) + 1, clock);
        if (access.writes()) {
            std::fill(shadow.written.begin() + static_cast<int64_t>(first),
                      shadow.written.begin() + static_cast<int64_t>(last) + 1, epoch);
            shadow.initialised[first] |= mask_of(first, start, end);
            if (last > first) {
                shadow.initialised[last] |= mask_of(last, start, end);
                std::fill(shadow.initialised.begin() + static_cast<int64_t>(first) + 1,
                          shadow.initialised.begin() + static_cast<int64_t>(last), ~0U);
            }
        }
    }
}

void mark_copied(Core& core) {
    for (const Core::Copied& copy : core.copied) {
        const auto& from = core.memory->shadow[static_cast<size_t>(copy.from)].initialised;
        auto& to = core.memory->shadow[static_cast<size_t>(copy.to)].initialised;
        for (uint32_t piece = 0; piece < copy.count; ++piece) {
            const int64_t source =
                static_cast<int64_t>(copy.from_start) + static_cast<int64_t>(piece) * copy.from_stride;
            const int64_t target =
                static_cast<int64_t>(copy.to_start) + static_cast<int64_t>(piece) * copy.to_stride;
            std::copy_n(from.begin() + source / block_bytes, copy.bytes / block_bytes,
                        to.begin() + target / block_bytes);
        }
    }
}

uint32_t last_write(const Core& core, const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count,
                    int64_t stride, Pipe pipe) {
    const auto& written = core.memory->shadow[static_cast<size_t>(tensor.space)].written;
    uint32_t latest = 0;
    for (uint32_t piece = 0; piece < count; ++piece) {
        const auto start =
            static_cast<uint64_t>(tensor.offset + offset + static_cast<int64_t>(piece) * stride);
        for (uint64_t block = start / block_bytes; block <= (start + bytes - 1) / block_bytes; ++block)
            if (written[block] >> clock_bits == static_cast<uint32_t>(pipe))
                latest = std::max(latest, written[block] & clock_mask);
    }
    return latest;
}

// --- Global memory
// ------------------------------------------------------------------------------------------

void Intervals::put(uint64_t start, const Entry& entry) {
    auto it = entries_.lower_bound(start);
    if (it != entries_.begin()) {
        auto before = std::prev(it);
        if (before->second.end > start) {
            const Entry rest = before->second;
            before->second.end = start;
            if (rest.end > entry.end) entries_.emplace(entry.end, rest);
        }
    }
    while (it != entries_.end() && it->first < entry.end) {
        if (it->second.end > entry.end) {
            const Entry rest = it->second;
            entries_.erase(it);
            entries_.emplace(entry.end, rest);
            break;
        }
        it = entries_.erase(it);
    }
    entries_.insert_or_assign(start, entry);
}

namespace {

void index_access(Intervals& index, const GlobalAccess& access) {
    for (uint32_t piece = 0; piece < access.count; ++piece) {
        const uint64_t start =
            access.start + static_cast<uint64_t>(static_cast<int64_t>(piece) * access.stride);
        index.put(start, {start + access.bytes, access.clock, access.pipe, access.kind, access.site});
    }
}

void check_index(const Core& core, const Intervals& index, const Access& access, uint64_t base, Pipe pipe,
                 const char* name, Where where, int32_t argument, const char* did) {
    const int p = static_cast<int>(pipe);
    for (uint32_t piece = 0; piece < access.count; ++piece) {
        const uint64_t start =
            access.start + static_cast<uint64_t>(static_cast<int64_t>(piece) * access.stride) - base;
        index.overlapping(start, start + access.bytes, [&](uint64_t begin, const Intervals::Entry& entry) {
            if (core.ordered(entry.pipe, entry.clock, p)) return;
            if (access.kind == Access::Kind::Update && entry.kind == Access::Kind::Update) return;
            const auto other = static_cast<Pipe>(entry.pipe);
            core.fail(
                Kind::Race, where, name,
                format(
                    "%s: %s of byte %llu of %s on pipe %s is not ordered after %s, which %s it on pipe %s. "
                    "Expected an event %s_%s or a barrier between them.",
                    access.role, access.kind == Access::Kind::Read ? "the read" : "the write",
                    static_cast<unsigned long long>(std::max(begin, start)),
                    argument < 0 ? "the workspace" : format("argument %d", argument).c_str(), name_of(pipe),
                    at(entry.site).c_str(), did, name_of(other), name_of(other), name_of(pipe)));
        });
    }
}

}  // namespace

namespace {

// Whether a scalar access begins where the one before was or ended, with nothing between that could tell them
// apart.
bool continues(const GlobalAccess& last, const GlobalAccess& next) {
    return last.pipe == next.pipe && last.count == 1 && last.kind == next.kind && last.wait == next.wait &&
           last.epoch == next.epoch && last.start <= next.start && next.start <= last.start + last.bytes &&
           last.site.line == next.site.line;
}

}  // namespace

void check_global(Core& core, const Access& access, Pipe pipe, const char* name, Where where) {
    const GlobalBuffer& buffer = core.launch->buffers[static_cast<size_t>(access.buffer)];
    GlobalTrace& trace = core.traces[static_cast<size_t>(access.buffer)];
    const auto base = reinterpret_cast<uint64_t>(buffer.address);
    const bool reads = access.kind == Access::Kind::Read;
    if (!trace.indexed) {
        // A buffer that is only read or only written needs no index.
        if (reads ? trace.writes.empty() : trace.reads.empty()) return;
        for (const GlobalAccess& earlier : trace.writes) index_access(trace.write_index, earlier);
        for (const GlobalAccess& earlier : trace.reads) index_access(trace.read_index, earlier);
        trace.indexed = true;
    }
    check_index(core, trace.write_index, access, base, pipe, name, where, buffer.argument, "wrote");
    if (!reads) check_index(core, trace.read_index, access, base, pipe, name, where, buffer.argument, "read");
}

void mark_global(Core& core, const Access& access, Pipe pipe, const Site& site) {
    const GlobalBuffer& buffer = core.launch->buffers[static_cast<size_t>(access.buffer)];
    GlobalTrace& trace = core.traces[static_cast<size_t>(access.buffer)];
    const auto p = static_cast<size_t>(pipe);
    const GlobalAccess entry{access.start - reinterpret_cast<uint64_t>(buffer.address),
                             access.bytes,
                             access.count > 1 ? access.stride : 0,
                             access.count,
                             access.kind,
                             static_cast<uint8_t>(p),
                             core.count[p],
                             static_cast<uint32_t>(core.waits.size() - 1),
                             core.epoch + static_cast<uint32_t>(core.segments.size()),
                             site};
    const bool reads = access.kind == Access::Kind::Read;
    auto& entries = reads ? trace.reads : trace.writes;
    if (pipe == Pipe::S && !entries.empty() && continues(entries.back(), entry)) {
        GlobalAccess& last = entries.back();
        last.bytes = std::max(last.start + last.bytes, entry.start + entry.bytes) - last.start;
        last.clock = entry.clock;
    } else {
        entries.push_back(entry);
    }
    if (trace.indexed) index_access(reads ? trace.read_index : trace.write_index, entry);
}

}  // namespace sim
