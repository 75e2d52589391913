// Accesses of different cores to the same bytes of global memory.
#include <algorithm>

#include "engine.hpp"

namespace sim {

namespace {

struct Piece {
    uint64_t start, end;
    const Core* core;
    const GlobalAccess* access;
};

void pieces_of(std::vector<Piece>& pieces, const Core& core, const std::vector<GlobalAccess>& accesses,
               uint64_t low, uint64_t high) {
    for (const GlobalAccess& access : accesses) {
        if (access.low() >= high || access.high() <= low) continue;
        for (uint32_t i = 0; i < access.count; ++i) {
            const uint64_t start =
                access.start + static_cast<uint64_t>(static_cast<int64_t>(i) * access.stride);
            if (start < high && start + access.bytes > low)
                pieces.push_back({start, start + access.bytes, &core, &access});
        }
    }
}

// The number of the core's signals that must have been seen by who comes after the access.
uint32_t segment_of(const Core& core, const GlobalAccess& access) {
    const auto it =
        std::partition_point(core.segments.begin(), core.segments.end(),
                             [&](const auto& covered) { return covered[access.pipe] < access.clock; });
    return static_cast<uint32_t>(it - core.segments.begin()) + 1;
}

bool before(const Piece& first, const Piece& second) {
    const auto& know = second.core->waits[second.access->wait];
    return know[static_cast<size_t>(first.core->index)] >= segment_of(*first.core, *first.access);
}

bool conflict(const Piece& a, const Piece& b) {
    if (a.core == b.core) return false;
    const auto kind = [](const Piece& piece) { return piece.access->kind; };
    if (kind(a) == Access::Kind::Read && kind(b) == Access::Kind::Read) return false;
    if (kind(a) == Access::Kind::Update && kind(b) == Access::Kind::Update) return false;
    return !before(a, b) && !before(b, a);
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
        std::vector<const Piece*> open;
        for (const Piece& piece : pieces) {
            open.erase(std::remove_if(open.begin(), open.end(),
                                      [&](const Piece* other) { return other->end <= piece.start; }),
                       open.end());
            for (const Piece* other : open) {
                if (!conflict(*other, piece)) continue;
                const bool write_first = other->access->kind != Access::Kind::Read;
                const Piece& writer = write_first ? *other : piece;
                const Piece& second = write_first ? piece : *other;
                const int32_t argument = buffers[number].argument;
                finding = {
                    sim::Kind::Race, second.core->index, second.access->site.line,
                    format(
                        "[%s] %s byte %llu of %s is also written by %s of %s, and nothing orders the two. "
                        "Expected SyncAll or a flag between the cores, or bytes of each core's own. (%s, %s)",
                        second.access->site.name,
                        second.access->kind == Access::Kind::Read ? "The read" : "The written",
                        static_cast<unsigned long long>(std::max(piece.start, other->start)),
                        argument < 0 ? "the workspace" : format("argument %d", argument).c_str(),
                        at(writer.access->site).c_str(), writer.core->name().c_str(),
                        second.core->name().c_str(), at(second.access->site).c_str())};
                return;
            }
            open.push_back(&piece);
        }
    }
}

}  // namespace sim
