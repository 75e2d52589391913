#include <cinttypes>
#include <cstring>

#include "sim/events.hpp"
#include "vector_access.hpp"

namespace sim {

namespace {

constexpr uint32_t offset_types = set_of({Dtype::U32});
constexpr uint32_t block_types = set_of({Dtype::U16, Dtype::U32});

uint32_t offset_at(const Local& offsets, int64_t index) {
    uint32_t value;
    std::memcpy(&value, data(offsets) + index * 4, 4);
    return value;
}

// Neighbouring accesses of one size, told to the instruction as ranges.
class Ranges {
  public:
    Ranges(Instruction& instruction, const Local& tensor, const char* role, int64_t bytes)
        : instruction_(instruction), tensor_(tensor), role_(role), bytes_(bytes) {}
    void add(int64_t offset) {
        if (end_ >= 0 && offset == end_) {
            end_ += bytes_;
            return;
        }
        if (offset >= first_ && offset + bytes_ <= end_) return;
        flush();
        first_ = offset;
        end_ = offset + bytes_;
    }

    // Tells what is left; not a destructor's work, for it may find something.
    void flush() {
        if (end_ > first_)
            instruction_.reads(tensor_, first_, static_cast<uint64_t>(end_ - first_), 1, 0, role_);
        first_ = end_ = -1;
    }

  private:
    Instruction& instruction_;
    const Local& tensor_;
    const char* role_;
    int64_t bytes_, first_ = -1, end_ = -1;
};

}  // namespace

void gather(const Call& call, const Local& dst, const Local& src, const Local& offsets, uint32_t base,
            uint32_t dst_repeat) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(dst.dtype), lanes = lanes_of(size);
    const Extent extent = extent_of(instruction, call, lanes);
    // The offsets are read one after another; they are wider than 16-bit elements.
    const Access all[2] = {{dst, "dst", {1, dst_repeat}}, {offsets, "srcOffset", {1, lanes / 8}}};
    if (!cost_only() && !extent.nothing()) {
        check(instruction, dst, "dst", sixteen_or_thirty_two_bits);
        check(instruction, src, "src", sixteen_or_thirty_two_bits);
        instruction.takes(src.dtype == dst.dtype, src.dtype, "src");
        check(instruction, offsets, "srcOffset", offset_types);
        instruction.require(base % size == 0, "Expected srcBaseAddr to be a multiple of %u bytes, given %u",
                            size, base);
        declare(instruction, all[1], extent, Touch::Read);
        declare(instruction, all[0], extent, Touch::Write);
        Ranges ranges(instruction, src, "src", size);
        walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
            for (int64_t i = 0; i < count; ++i) {
                const uint32_t each = offset_at(offsets, offset[1] / 4 + i);
                const uint64_t at = uint64_t{base} + each;
                instruction.require(each % size == 0,
                                    "Expected srcOffset to be a multiple of %u bytes, given %u", size, each);
                const uint64_t from = src.offset + at;
                instruction.require(
                    from + size <= dst.offset || from >= uint64_t{dst.offset} + dst.bytes,
                    "Expected src apart from dst, given an element at byte %" PRIu64 " of UB in dst", from);
                ranges.add(static_cast<int64_t>(at));
            }
        });
        ranges.flush();
    }
    if (extent.nothing() || !launch(instruction, extent, size, src.dtype)) return;
    walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
        uint8_t* to = data(dst) + offset[0];
        const uint8_t* from = data(src) + base;
        for (int64_t i = 0; i < count; ++i)
            std::memcpy(to + i * size, from + offset_at(offsets, offset[1] / 4 + i), size);
    });
}

void gather_blocks(const Call& call, const Local& dst, const Local& src, const Local& offsets,
                   Stride dst_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const int64_t repeats = call.repeats;
    if (repeats == 0) return;
    const int64_t block = int64_t{dst_stride.block == 0 ? 1 : dst_stride.block} * 32;
    const int64_t step = int64_t{dst_stride.repeat} * 32;
    if (!cost_only()) {
        check(instruction, dst, "dst", block_types);
        check(instruction, src, "src", block_types);
        check(instruction, offsets, "offset", offset_types);
        const uint64_t touched = static_cast<uint64_t>((repeats - 1) * step + 7 * block + 32);
        instruction.reads(offsets, 0, static_cast<uint64_t>(repeats) * 32, 1, 0, "offset");
        const auto count = static_cast<uint32_t>(repeats);
        if (block == 32 && step == 256)
            instruction.writes(dst, 0, 256 * static_cast<uint64_t>(repeats), 1, 0, "dst");
        else
            for (int64_t i = 0; i < 8; ++i)
                instruction.writes(dst, i * block, 32, step == 0 ? 1 : count, step, "dst");
        Ranges ranges(instruction, src, "src", 32);
        for (int64_t i = 0; i < repeats * 8; ++i) {
            const uint32_t each = offset_at(offsets, i);
            instruction.require(each % 32 == 0, "Expected offset to be a multiple of 32 bytes, given %u",
                                each);
            instruction.require(uint64_t{src.offset} + each + 32 <= capacity(Space::UB),
                                "Expected offset inside UB, given %u from src on", each);
            Local part = src;
            part.offset += each;
            check_apart(instruction, dst, touched, part, 32, "src");
            ranges.add(each);
        }
        ranges.flush();
    }
    instruction.work(
        Work::vector(static_cast<uint32_t>(repeats), size_of(dst.dtype), static_cast<uint8_t>(src.dtype)));
    if (!instruction.issue()) return;
    for (int64_t i = 0; i < repeats * 8; ++i)
        std::memcpy(data(dst) + i / 8 * step + i % 8 * block, data(src) + offset_at(offsets, i), 32);
}

uint64_t gather_mask(const Call& call, const Local& dst, const Local& src, const Local* pattern,
                     uint8_t fixed, const GatherMaskShape& shape) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return 0;
    const uint32_t size = size_of(src.dtype), lanes = lanes_of(size), per_block = 32 / size;
    registers().counter = false;
    registers().mask[0] = registers().mask[1] = ~uint64_t{0};
    // Normal mode takes a repeat of 256 bytes at a time, counter mode `mask` elements, from as many blocks on
    // end.
    const int64_t per_repeat = shape.counter ? shape.mask : lanes;
    const int64_t repeats = call.repeats;
    const auto at = [&](int64_t repeat, int64_t element) {
        return repeat * shape.src_repeat * 32 + element / per_block * shape.src_block * 32 +
               element % per_block * size;
    };
    static constexpr uint64_t fixed_patterns[8] = {0,
                                                   0x5555555555555555,
                                                   0xaaaaaaaaaaaaaaaa,
                                                   0x1111111111111111,
                                                   0x2222222222222222,
                                                   0x4444444444444444,
                                                   0x8888888888888888,
                                                   0xffffffffffffffff};
    const auto taken = [&](int64_t repeat, int64_t element) -> bool {
        if (!pattern) return fixed_patterns[fixed & 7] >> element % 64 & 1U;
        return data(*pattern)[repeat * shape.pattern_repeat * 32 + element / 8] >> element % 8 & 1U;
    };
    if (!cost_only()) {
        check(instruction, dst, "dst", sixteen_or_thirty_two_bits);
        check(instruction, src, "src0", sixteen_or_thirty_two_bits);
        if (shape.counter)
            instruction.require(shape.mask >= 1, "Expected mask of 1 or more in counter mode, given 0");
        if (pattern) {
            check(instruction, *pattern, "src1Pattern", block_types);
            instruction.takes(size_of(pattern->dtype) == size, pattern->dtype, "src1Pattern");
            if (repeats > 0)
                instruction.reads(*pattern, 0, static_cast<uint64_t>((per_repeat + 7) / 8),
                                  shape.pattern_repeat == 0 ? 1 : static_cast<uint32_t>(repeats),
                                  int64_t{shape.pattern_repeat} * 32, "src1Pattern");
        } else {
            instruction.require(fixed >= 1 && fixed <= 7, "Expected src1Pattern of 1 to 7, given %d", fixed);
        }
        if (repeats > 0) {
            const auto pieces = shape.src_repeat == 0 ? 1 : static_cast<uint32_t>(repeats);
            const int64_t step = int64_t{shape.src_repeat} * 32;
            if (shape.src_block == 1) {
                instruction.reads(src, 0, static_cast<uint64_t>(per_repeat * size), pieces, step, "src0");
            } else {
                for (int64_t first = 0; first < per_repeat; first += per_block)
                    instruction.reads(
                        src, at(0, first),
                        static_cast<uint64_t>(std::min<int64_t>(per_block, per_repeat - first) * size),
                        pieces, step, "src0");
            }
            int64_t kept = 0;
            for (int64_t repeat = 0; repeat < repeats; ++repeat)
                for (int64_t element = 0; element < per_repeat; ++element) kept += taken(repeat, element);
            if (kept > 0) instruction.writes(dst, 0, static_cast<uint64_t>(kept * size), 1, 0, "dst");
        }
    }
    if (repeats == 0) return 0;
    const auto made = static_cast<uint32_t>(repeats * ((per_repeat + lanes - 1) / lanes));
    instruction.work(Work::vector(made, size, static_cast<uint8_t>(src.dtype)));
    if (!instruction.issue()) return 0;
    uint64_t kept = 0;
    uint8_t* to = data(dst);
    for (int64_t repeat = 0; repeat < repeats; ++repeat)
        for (int64_t element = 0; element < per_repeat; ++element)
            if (taken(repeat, element))
                std::memcpy(to + kept++ * size, data(src) + at(repeat, element), size);
    registers().vector[reserved_register] = kept;
    return vector_register(reserved_register, call.where);
}

}  // namespace sim
