// Accesses of different cores to the same bytes of global memory.
#include <algorithm>

#include "engine.hpp"

namespace sim {

namespace {

struct Piece {
    uint64_t start, end;
    const Core* core;
    const GlobalAccess* access;
    uint32_t segment;
};

// The number of the core's signals that must have been seen by who comes after the access.
uint32_t segment_of(const Core& core, const GlobalAccess& access) {
    const auto it =
        std::partition_point(core.segments.begin(), core.segments.end(),
                             [&](const auto& covered) { return covered[access.pipe] < access.clock; });
    return static_cast<uint32_t>(it - core.segments.begin()) + 1;
}

void pieces_of(std::vector<Piece>& pieces, const Core& core, const std::vector<GlobalAccess>& accesses,
               uint64_t low, uint64_t high) {
    for (const GlobalAccess& access : accesses) {
        if (access.low() >= high || access.high() <= low) continue;
        const uint32_t segment = segment_of(core, access);
        for (uint32_t i = 0; i < access.count; ++i) {
            const uint64_t start =
                access.start + static_cast<uint64_t>(static_cast<int64_t>(i) * access.stride);
            if (start < high && start + access.bytes > low)
                pieces.push_back({start, start + access.bytes, &core, &access, segment});
        }
    }
}

bool before(const Piece& first, const Piece& second) {
    const auto& know = second.core->waits[second.access->wait];
    return know[static_cast<size_t>(first.core->index)] >= first.segment;
}

// Whether nothing tells the two apart for accesses of other cores.
bool alike(const Piece& a, const Piece& b) {
    return a.core == b.core && a.segment == b.segment && a.access->kind == b.access->kind &&
           a.access->wait == b.access->wait;
}

bool conflict(const Piece& a, const Piece& b) {
    if (a.core == b.core) return false;
    const auto kind = [](const Piece& piece) { return piece.access->kind; };
    if (kind(a) == Access::Kind::Read && kind(b) == Access::Kind::Read) return false;
    if (kind(a) == Access::Kind::Update && kind(b) == Access::Kind::Update) return false;
    return !before(a, b) && !before(b, a);
}

// What is called an argument or the workspace.
std::string named(const GlobalBuffer& buffer) {
    return buffer.argument < 0 ? "the workspace" : format("argument %d", buffer.argument);
}

}  // namespace

void Launch::check_cores() {
    for (size_t number = 0; number < buffers.size(); ++number) {
        uint64_t low = UINT64_MAX, high = 0;
        for (const auto& core : finished)
            if (core)
                for (const GlobalAccess& write : core->traces[number].writes) {
                    low = std::min(low, write.low());
                    high = std::max(high, write.high());
                }
        if (low >= high) continue;  // nobody writes
        std::vector<Piece> pieces;
        for (const auto& core : finished) {
            if (!core) continue;
            pieces_of(pieces, *core, core->traces[number].writes, low, high);
            pieces_of(pieces, *core, core->traces[number].reads, low, high);
        }
        std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
            return a.start != b.start ? a.start < b.start : a.core->index < b.core->index;
        });
        // Those that reach past the start of the next.
        std::vector<const Piece*> open;  // of those that are alike only the one that reaches furthest
        for (const Piece& piece : pieces) {
            open.erase(std::remove_if(open.begin(), open.end(),
                                      [&](const Piece* other) { return other->end <= piece.start; }),
                       open.end());
            for (const Piece* other : open) {
                if (!conflict(*other, piece)) continue;
                const bool write_first = other->access->kind != Access::Kind::Read;
                const Piece& writer = write_first ? *other : piece;
                const Piece& second = write_first ? piece : *other;
                finding = {
                    sim::Kind::Race, second.core->index, second.access->site.line,
                    format(
                        "[%s] %s byte %llu of %s is also written by %s of %s, and nothing orders the two. "
                        "Expected SyncAll or a flag between the cores, or bytes of each core's own. (%s, %s)",
                        second.access->site.name,
                        second.access->kind == Access::Kind::Read ? "The read" : "The written",
                        static_cast<unsigned long long>(std::max(piece.start, other->start)),
                        named(buffers[number]).c_str(), at(writer.access->site).c_str(),
                        writer.core->name().c_str(), second.core->name().c_str(),
                        at(second.access->site).c_str())};
                return;
            }
            const auto same = std::find_if(open.begin(), open.end(),
                                           [&](const Piece* other) { return alike(*other, piece); });
            if (same == open.end())
                open.push_back(&piece);
            else if ((*same)->end < piece.end)
                *same = &piece;
        }
        check_lines(number);
        if (finding.kind != sim::Kind::None) return;
    }
}

// The scalar unit writes to a cache that goes back to memory in whole lines. Buffers begin at a line.
void Launch::check_lines(size_t number) {
    constexpr uint64_t line = 64;
    std::vector<Piece> pieces;
    for (const auto& core : finished) {
        if (!core || !core->cleans) continue;
        uint64_t last = UINT64_MAX;
        for (const GlobalAccess& access : core->traces[number].writes) {
            if (access.pipe != static_cast<uint8_t>(Pipe::S)) continue;
            for (uint64_t at = access.start / line; at <= (access.start + access.bytes - 1) / line; ++at) {
                if (at != last)
                    pieces.push_back(
                        {at * line, (at + 1) * line, core.get(), &access, segment_of(*core, access)});
                last = at;
            }
        }
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
        return a.start != b.start ? a.start < b.start : a.core->index < b.core->index;
    });
    for (size_t i = 1; i < pieces.size(); ++i) {
        const Piece &one = pieces[i - 1], &other = pieces[i];
        if (one.start != other.start || !conflict(one, other)) continue;
        finding = {
            sim::Kind::Race, other.core->index, other.access->site.line,
            format("[%s] Bytes %llu to %llu of %s, a line of the data cache, are also written by %s of "
                   "%s: one of the two is lost. Expected lines of each core's own. (%s, %s)",
                   other.access->site.name, static_cast<unsigned long long>(one.start),
                   static_cast<unsigned long long>(one.end - 1), named(buffers[number]).c_str(),
                   at(one.access->site).c_str(), one.core->name().c_str(), other.core->name().c_str(),
                   at(other.access->site).c_str())};
        return;
    }
}

}  // namespace sim
