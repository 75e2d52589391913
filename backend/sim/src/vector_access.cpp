#include "vector_access.hpp"

#include <cinttypes>
#include <vector>

#include "sim/events.hpp"

namespace sim {

namespace {

void prefix(uint64_t mask[2], uint64_t elements) {
    mask[0] = elements >= 64 ? ~uint64_t{0} : (uint64_t{1} << elements) - 1;
    mask[1] = elements >= 128 ? ~uint64_t{0} : elements > 64 ? (uint64_t{1} << (elements - 64)) - 1 : 0;
}

bool covers(const uint64_t mask[2], uint32_t lanes) {
    uint64_t all[2];
    prefix(all, lanes);
    return (mask[0] & all[0]) == all[0] && (mask[1] & all[1]) == all[1];
}

void touch_range(Instruction& instruction, const Access& access, Touch touch, int64_t offset, uint64_t bytes,
                 uint32_t count, int64_t stride) {
    switch (touch) {
        case Touch::Read:
            instruction.reads(*access.tensor, offset, bytes, count, stride, access.role);
            break;
        case Touch::Write:
            instruction.writes(*access.tensor, offset, bytes, count, stride, access.role);
            break;
        case Touch::Update:
            instruction.updates(*access.tensor, offset, bytes, count, stride, access.role);
            break;
    }
}

// The lanes of `mask` in repeats [first, first + count).
void declare_mask(Instruction& instruction, const Access& access, const uint64_t mask[2], uint32_t lanes,
                  int64_t first, int64_t count, Touch touch) {
    if (count == 0) return;
    const uint32_t pieces = access.stride.repeat == 0 ? 1 : static_cast<uint32_t>(count);
    const int64_t step = int64_t{access.stride.repeat} * 32;
    const uint32_t per_block = access.block_elements();
    for_each_run(mask, lanes, [&](uint32_t lane, uint32_t run) {
        while (run > 0) {
            const uint32_t part =
                access.stride.block == 1 ? run : std::min(run, per_block - lane % per_block);
            const auto bytes = static_cast<uint64_t>(access.bytes(part));
            const int64_t offset = access.at(first, lane);
            if (step == static_cast<int64_t>(bytes))
                touch_range(instruction, access, touch, offset, bytes * pieces, 1, 0);
            else
                touch_range(instruction, access, touch, offset, bytes, pieces, step);
            lane += part;
            run -= part;
        }
    });
}

}  // namespace

int64_t Extent::linear() const {
    if (counted) return count;
    if (repeats == 0) return 0;
    if (repeats > 1 && !covers(mask, lanes)) return -1;
    const int works = __builtin_popcountll(last[0]) + __builtin_popcountll(last[1]);
    uint64_t first[2];
    prefix(first, static_cast<uint64_t>(works));
    if (last[0] != first[0] || last[1] != first[1]) return -1;
    return (repeats - 1) * lanes + works;
}

Extent extent_of(Instruction& instruction, const Call& call, uint32_t lanes) {
    Registers& state = registers();
    Extent extent;
    extent.lanes = lanes;
    if (call.lanes.form == Lanes::Form::Count) {
        const auto count = static_cast<int64_t>(call.lanes.low);
        instruction.require(count >= 0, "Expected count of 0 or more, given %" PRId64, count);
        extent.counted = true;
        extent.count = count;
        // The instruction sets counter mode and the mask, and both back afterwards.
        state.counter = false;
        state.mask[0] = state.mask[1] = ~uint64_t{0};
        return extent;
    }
    extent.repeats = call.repeats;
    if (call.lanes.form == Lanes::Form::Prefix) {
        if (state.counter) {
            state.mask[0] = call.lanes.low;
            state.mask[1] = 0;
        } else {
            instruction.require(call.lanes.low <= lanes,
                                "Expected mask of 0 to %u elements of a repeat, given %" PRIu64, lanes,
                                call.lanes.low);
            prefix(state.mask, call.lanes.low);
        }
    } else if (call.lanes.form == Lanes::Form::Bits) {
        if (!state.counter && lanes <= 64)
            instruction.require(call.lanes.low != 0 || call.lanes.high == 0,
                                "Expected bits in mask[0], which holds the %u lanes of a repeat, given "
                                "mask[0] = 0 and bits in mask[1]",
                                lanes);
        state.mask[0] = call.lanes.low;
        state.mask[1] = call.lanes.high;
    }
    if (state.counter) {  // the mask is a number of elements; the repeats follow from it
        const uint64_t count = state.mask[0];
        extent.repeats = static_cast<int64_t>((count + lanes - 1) / lanes);
        prefix(extent.mask, lanes);
        prefix(extent.last, count == 0 ? 0 : (count - 1) % lanes + 1);
        return extent;
    }
    instruction.require(extent.repeats >= 0 && extent.repeats <= 255,
                        "Expected repeatTime of 0 to 255, given %" PRId64, extent.repeats);
    uint64_t all[2];
    prefix(all, lanes);
    for (int word = 0; word < 2; ++word) extent.mask[word] = extent.last[word] = state.mask[word] & all[word];
    return extent;
}

void declare(Instruction& instruction, const Access& access, const Extent& extent, Touch touch) {
    if (extent.nothing()) return;
    if (extent.counted) {
        const int64_t bytes = (extent.count * access.nibbles + 1) / 2;
        touch_range(instruction, access, touch, 0, static_cast<uint64_t>(bytes), 1, 0);
    } else if (extent.linear() >= 0 && access.contiguous(extent)) {
        touch_range(instruction, access, touch, 0, static_cast<uint64_t>(access.bytes(extent.linear())), 1,
                    0);
    } else if (extent.mask[0] == extent.last[0] && extent.mask[1] == extent.last[1]) {
        declare_mask(instruction, access, extent.mask, extent.lanes, 0, extent.repeats, touch);
    } else {
        declare_mask(instruction, access, extent.mask, extent.lanes, 0, extent.repeats - 1, touch);
        declare_mask(instruction, access, extent.last, extent.lanes, extent.repeats - 1, 1, touch);
    }
}

void check(Instruction& instruction, const Local& tensor, const char* role, uint32_t set,
           uint32_t alignment) {
    instruction.lives_in(tensor, Space::UB, role);
    instruction.takes(holds(set, tensor.dtype), tensor.dtype, role);
    instruction.aligned(tensor, alignment, role);
}

void check_block_stride(Instruction& instruction, Stride dst_stride) {
    instruction.require(dst_stride.block != 0, "Expected dstBlkStride of 1 or more, given 0");
}

void check_apart(Instruction& instruction, const Local& dst, uint64_t dst_bytes, const Local& src,
                 uint64_t src_bytes, const char* role) {
    const bool apart = dst.space != src.space || dst_bytes == 0 || src_bytes == 0 ||
                       dst.offset + dst_bytes <= src.offset || src.offset + src_bytes <= dst.offset;
    instruction.require(apart,
                        "Expected dst and %s not to overlap, given dst at bytes [%u, %" PRIu64
                        ") and %s at [%u, %" PRIu64 ") of UB",
                        role, dst.offset, dst.offset + dst_bytes, role, src.offset, src.offset + src_bytes);
}

namespace {

// Where an operand's first and last bytes are, as blocks of UB.
struct Hull {
    int64_t first, end;
};

Hull hull(const Access& access, const Extent& extent) {
    const int64_t start = access.tensor->offset;
    if (extent.counted) return {start, start + (extent.count * access.nibbles + 1) / 2};
    const uint32_t blocks = (extent.lanes * access.nibbles + 63) / 64;
    return {start, start + (extent.repeats - 1) * access.stride.repeat * 32 +
                       int64_t{blocks - 1} * access.stride.block * 32 + 32};
}

}  // namespace

void check_overlap(Instruction& instruction, const Access& dst, const Access& src, const Extent& extent,
                   bool accumulates) {
    if (extent.nothing() || dst.tensor->space != src.tensor->space) return;
    const Hull written = hull(dst, extent);
    const Hull read = hull(src, extent);
    if (written.end <= read.first || read.end <= written.first) return;
    const bool same_start = dst.tensor->offset == src.tensor->offset;
    const char* what =
        "Expected dst and %s to be the same elements or not to overlap, given dst at bytes [%" PRId64
        ", %" PRId64 ") and %s at [%" PRId64 ", %" PRId64 ") of UB";
    if (extent.counted) {
        // From wide to narrow in place what is written has been read before.
        instruction.require(same_start && dst.nibbles <= src.nibbles, what, src.role, written.first,
                            written.end, src.role, read.first, read.end);
        return;
    }
    if (same_start && dst.nibbles == src.nibbles && dst.stride.block == src.stride.block &&
        dst.stride.repeat == src.stride.repeat && (dst.stride.repeat != 0 || extent.repeats == 1))
        return;
    if (accumulates && same_start && (dst.stride.repeat == 0 || src.stride.repeat == 0)) return;
    // Block by block: the last repeat before the present one that wrote a block, and where.
    constexpr uint32_t all_blocks = 256 * 1024 / 32;
    std::vector<int32_t> writer(all_blocks, -1);
    const auto blocks_of = [&](const Access& access, int64_t repeat, auto f) {
        const uint64_t* mask = repeat + 1 == extent.repeats ? extent.last : extent.mask;
        const uint32_t per_block = access.block_elements();
        for (uint32_t block = 0; block * per_block < extent.lanes; ++block) {
            bool works = false;
            for (uint32_t lane = block * per_block; lane < std::min(extent.lanes, (block + 1) * per_block);
                 ++lane)
                works = works || (mask[lane / 64] >> (lane % 64) & 1U);
            const int64_t at = (access.tensor->offset + access.at(repeat, block * per_block)) / 32;
            if (works && at >= 0 && at < all_blocks) f(static_cast<uint32_t>(at));
        }
    };
    bool sound = true;
    for (int64_t repeat = 0; repeat < extent.repeats && sound; ++repeat) {
        blocks_of(src, repeat, [&](uint32_t block) { sound = sound && writer[block] < 0; });
        blocks_of(dst, repeat, [&](uint32_t block) { writer[block] = static_cast<int32_t>(repeat); });
        // Within a repeat the two start at the same place or share no block.
        if (sound && dst.tensor->offset + dst.at(repeat, 0) != src.tensor->offset + src.at(repeat, 0))
            blocks_of(src, repeat, [&](uint32_t block) { sound = sound && writer[block] != repeat; });
    }
    instruction.require(sound, what, src.role, written.first, written.end, src.role, read.first, read.end);
}

Local scratch_space() { return {Space::UB, 11, Dtype::U8, 184 * 1024, 8 * 1024, -1}; }

void synchronise(Pipe from, Pipe to, Where where) {
    const int32_t id = free_event(from, to, false, where);
    set_flag(from, to, id, where);
    wait_flag(from, to, id, where);
}

uint64_t vector_register(VectorRegister number, Where where) {
    synchronise(Pipe::V, Pipe::S, where);
    return cost_only() ? 0 : registers().vector[number];
}

uint32_t repeats_that_meet(const Access& first, const Access& second, const Extent& extent) {
    const auto groups = [&](const Access& access, int64_t repeat) {
        const int64_t block =
            access.tensor->offset / 32 + repeat * (extent.counted ? 8 : access.stride.repeat);
        uint32_t used = 0;
        for (int64_t i = 0; i < 8; ++i)
            used |= 1U << ((block + i * (extent.counted ? 1 : access.stride.block)) % 16);
        return used;
    };
    const uint32_t repeats = extent.cost_repeats();
    if (extent.counted) return groups(first, 0) & groups(second, 0) ? repeats : 0;
    uint32_t meeting = 0;
    for (uint32_t repeat = 0; repeat < repeats; ++repeat)
        meeting += (groups(first, repeat) & groups(second, repeat)) != 0;
    return meeting;
}

bool launch(Instruction& instruction, const Extent& extent, uint32_t widest, Dtype dtype, uint32_t meeting) {
    Work work = Work::vector(extent.cost_repeats(), widest, static_cast<uint8_t>(dtype));
    work.m = meeting;
    instruction.work(work);
    return instruction.issue();
}

}  // namespace sim
