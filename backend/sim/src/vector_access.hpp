// Which bytes a vector instruction touches: masks, repeats and strides, for the checks and for the loops.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "sim/vector.hpp"

namespace sim {

// A set of dtypes.
constexpr uint32_t set_of(std::initializer_list<Dtype> dtypes) {
    uint32_t set = 0;
    for (Dtype dtype : dtypes) set |= 1U << static_cast<int>(dtype);
    return set;
}
constexpr bool holds(uint32_t set, Dtype dtype) { return set >> static_cast<int>(dtype) & 1U; }

constexpr uint32_t half_and_float = set_of({Dtype::F16, Dtype::F32});
constexpr uint32_t arithmetic_types = set_of({Dtype::I16, Dtype::F16, Dtype::I32, Dtype::F32});
constexpr uint32_t sixteen_bits = set_of({Dtype::I16, Dtype::U16});
constexpr uint32_t sixteen_or_thirty_two_bits =
    set_of({Dtype::I16, Dtype::U16, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::U32, Dtype::F32});

// Half bytes of an element.
constexpr uint32_t nibbles_of(Dtype dtype) { return dtype == Dtype::I4 ? 1 : 2 * size_of(dtype); }

// The elements of an instruction once mask and mode are resolved: `count` without repeats, or `repeats` of
// `lanes` elements of which `mask` works (in the last repeat `last`).
struct Extent {
    bool counted = false;
    int64_t count = 0;
    int64_t repeats = 0;
    uint32_t lanes = 0;
    uint64_t mask[2] = {0, 0};
    uint64_t last[2] = {0, 0};

    // The number of elements where each repeat is full but perhaps the last, of which the first ones work;
    // -1 otherwise.
    int64_t linear() const;
    bool nothing() const {
        return counted ? count == 0 : repeats == 0 || (mask[0] | mask[1] | last[0] | last[1]) == 0;
    }
    // Repeats the unit makes, for the cost.
    uint32_t cost_repeats() const {
        return static_cast<uint32_t>(counted ? (count + lanes - 1) / lanes : repeats);
    }
};

// Resolves the lanes of a call, `lanes` elements to a repeat, and updates the mask register as the call does.
Extent extent_of(Instruction& instruction, const Call& call, uint32_t lanes);

// One operand: where element k of repeat r lies.
struct Access {
    const Local* tensor;
    const char* role;
    Stride stride{};
    uint32_t nibbles;

    Access(const Local& local, const char* role, Stride stride = {})
        : tensor(&local), role(role), stride(stride), nibbles(nibbles_of(local.dtype)) {}

    uint32_t block_elements() const { return 64 / nibbles; }
    int64_t bytes(int64_t elements) const { return elements * nibbles / 2; }
    // Whether an extent's elements lie one after another.
    bool contiguous(const Extent& extent) const {
        return stride.block == 1 &&
               (extent.repeats <= 1 || stride.repeat * int64_t{64} == int64_t{extent.lanes} * nibbles);
    }
    int64_t at(int64_t repeat, uint32_t lane) const {  // bytes into the tensor
        const uint32_t per_block = block_elements();
        return repeat * stride.repeat * 32 + int64_t{lane / per_block} * stride.block * 32 +
               bytes(lane % per_block);
    }
};

enum class Touch : uint8_t { Read, Write, Update };

// Tells the instruction which bytes of the operand it touches.
void declare(Instruction& instruction, const Access& access, const Extent& extent, Touch touch);

// Checks that hold for every operand of a vector instruction: in UB, starting at 32 bytes, of a dtype of
// `set`.
void check(Instruction& instruction, const Local& tensor, const char* role, uint32_t set,
           uint32_t alignment = 32);

// A source that overlaps the destination does so wholly, block by block, and nothing written in a repeat is
// read in a later one; `accumulates` allows that, where one of the two stays in place.
void check_overlap(Instruction& instruction, const Access& dst, const Access& src, const Extent& extent,
                   bool accumulates = false);

// Two tensors have no byte in common, where the instruction does not work in place at all.
void check_apart(Instruction& instruction, const Local& dst, uint64_t dst_bytes, const Local& src,
                 uint64_t src_bytes, const char* role);

// A block stride of 0 of a destination is undefined.
void check_block_stride(Instruction& instruction, Stride dst_stride);

// Calls f(first, count) for each run of set bits.
template <typename F>
void for_each_run(const uint64_t mask[2], uint32_t lanes, F f) {
    uint32_t lane = 0;
    while (lane < lanes) {
        uint64_t word = mask[lane / 64] >> (lane % 64);
        if (word == 0) {
            lane = (lane / 64 + 1) * 64;
            continue;
        }
        lane += static_cast<uint32_t>(__builtin_ctzll(word));
        if (lane >= lanes) break;
        const uint32_t first = lane;
        while (lane < lanes && (mask[lane / 64] >> (lane % 64) & 1U)) {
            // A run of ones at once; the shift brings zeros in from above.
            const uint64_t rest = ~(mask[lane / 64] >> (lane % 64));
            const uint32_t ones = rest == 0 ? 64 : static_cast<uint32_t>(__builtin_ctzll(rest));
            lane += std::min(ones, 64 - lane % 64);
        }
        f(first, std::min(lane, lanes) - first);
    }
}

// Calls f(repeat, first lane, elements, bytes into each operand…) for pieces in which every operand is
// contiguous.
template <int operands, typename F>
void walk(const Extent& extent, const Access (&access)[operands], F f) {
    int64_t at[operands] = {};
    if (extent.counted) {
        if (extent.count > 0) f(0, 0U, extent.count, at);
        return;
    }
    const int64_t linear = extent.linear();
    bool contiguous = linear >= 0;
    bool blocks = true;  // whether every operand's blocks follow one another
    uint32_t per_block = 64;
    for (const Access& each : access) {
        contiguous = contiguous && each.contiguous(extent);
        blocks = blocks && each.stride.block == 1;
        per_block = std::min(per_block, each.block_elements());
    }
    if (contiguous) {
        if (linear > 0) f(0, 0U, linear, at);
        return;
    }
    for (int64_t repeat = 0; repeat < extent.repeats; ++repeat) {
        const uint64_t* mask = repeat + 1 == extent.repeats ? extent.last : extent.mask;
        for_each_run(mask, extent.lanes, [&](uint32_t first, uint32_t count) {
            while (count > 0) {
                const uint32_t part = blocks ? count : std::min(count, per_block - first % per_block);
                for (int i = 0; i < operands; ++i) at[i] = access[i].at(repeat, first);
                f(repeat, first, int64_t{part}, at);
                first += part;
                count -= part;
            }
        });
    }
}

// The eight KiB at byte 184 * 1024 of UB that some instructions overwrite. No buffer is reserved for them:
// what a kernel keeps there is lost.
Local scratch_space();

// Elements of a repeat of instructions on elements of up to `bytes` bytes.
constexpr uint32_t lanes_of(uint32_t bytes) { return 256 / bytes; }

// Lets one pipe wait for what another has done so far, as instructions do that are made of several.
void synchronise(Pipe from, Pipe to, Where where);

// Repeats in which two operands are read from the same group of banks, one after the other. A repeat reads
// eight blocks of each; the 16 groups are one block wide.
uint32_t repeats_that_meet(const Access& first, const Access& second, const Extent& extent);

// Logs the instruction's cost and orders it; whether its data is to be moved.
bool launch(Instruction& instruction, const Extent& extent, uint32_t widest, Dtype dtype,
            uint32_t meeting = 0);

}  // namespace sim
