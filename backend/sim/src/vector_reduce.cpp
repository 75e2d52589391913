#include <cstring>
#include <vector>

#include "ascendc/types.hpp"
#include "narrow.hpp"
#include "saturation.hpp"
#include "sim/events.hpp"
#include "vector_access.hpp"
#include "vector_math.hpp"

namespace sim {

namespace {

// In float16, as an instruction leaves it.
uint16_t half_of(float value) {
    const uint16_t bits = float_to_half(value);
    return saturates() ? saturated(Dtype::F16, bits) : bits;
}

void store_element(Dtype dtype, uint8_t* to, float value) {
    if (dtype == Dtype::F32) {
        std::memcpy(to, &value, 4);
    } else {
        const uint16_t bits = half_of(value);
        std::memcpy(to, &bits, 2);
    }
}

uint64_t element_bits(Dtype dtype, float value) {
    return dtype == Dtype::F32 ? bits_as<uint32_t>(value) : half_of(value);
}

// Sums of neighbours, each rounded to the dtype, until one is left. What the mask leaves out counts as 0.
float tree_sum(Dtype dtype, float* values, uint32_t count) {
    uint16_t rounded[64];
    for (; count > 1; count /= 2) {
        const uint32_t pairs = count / 2;
        for (uint32_t i = 0; i < pairs; ++i) values[i] = values[2 * i] + values[2 * i + 1];
        if (dtype != Dtype::F16) continue;
        narrow_half(rounded, values, pairs);
        saturate_results(dtype, reinterpret_cast<uint8_t*>(rounded), pairs);
        widen_half(values, rounded, pairs);
    }
    return values[0];
}

struct Extreme {
    float value = 0;
    uint32_t lane = 0;
    bool found = false;

    // The first of equals stays, and a NaN against everything.
    void take(Reduction reduction, float candidate, uint32_t at) {
        const bool better = reduction == Reduction::Max ? candidate > value : candidate < value;
        if (!found || (value == value && (better || candidate != candidate))) *this = {candidate, at, true};
    }
};

bool works(const uint64_t mask[2], uint32_t lane) { return mask[lane / 64] >> lane % 64 & 1U; }

// One repeat's elements; those that do not work are 0.
void load_repeat(const Access& from, int64_t repeat, const uint64_t mask[2], uint32_t lanes, float* values) {
    const Dtype dtype = from.tensor->dtype;
    const uint8_t* source = data(*from.tensor);
    const bool full = mask[0] == ~uint64_t{0} && (lanes == 64 || mask[1] == ~uint64_t{0});
    if (full && from.stride.block == 1) {
        source += from.at(repeat, 0);
        if (dtype == Dtype::F32)
            std::memcpy(values, source, lanes * sizeof(float));
        else
            widen_half(values, reinterpret_cast<const uint16_t*>(source), lanes);
        return;
    }
    for (uint32_t lane = 0; lane < lanes; ++lane)
        values[lane] = works(mask, lane) ? load_float(dtype, source + from.at(repeat, lane)) : 0.0F;
}

const uint64_t* mask_of(const Extent& extent, int64_t repeat) {
    return repeat + 1 == extent.repeats ? extent.last : extent.mask;
}

void check_strides(Instruction& instruction, int32_t dst_repeat, int32_t src_block, int32_t src_repeat) {
    const auto fits = [](int32_t stride) { return stride >= 0 && stride <= 65535; };
    instruction.require(fits(dst_repeat), "Expected dstRepStride of 0 to 65535, given %d", dst_repeat);
    instruction.require(fits(src_block), "Expected srcBlkStride of 0 to 65535, given %d", src_block);
    instruction.require(fits(src_repeat), "Expected srcRepStride of 0 to 65535, given %d", src_repeat);
}

// What a repeat writes must not be what a later one reads; results of `bytes` each, `step` bytes apart.
void check_results(Instruction& instruction, const Local& dst, int64_t bytes, int64_t step, const Access& src,
                   const Extent& extent) {
    if (extent.repeats == 0) return;
    const int64_t first = dst.offset, end = first + (extent.repeats - 1) * step + bytes;
    const int64_t source = src.tensor->offset;
    const int64_t source_end =
        source + (extent.repeats - 1) * src.stride.repeat * 32 + int64_t{7} * src.stride.block * 32 + 32;
    if (end <= source || source_end <= first) return;
    for (int64_t repeat = 1; repeat < extent.repeats; ++repeat)
        for (uint32_t block = 0; block < 8; ++block) {
            const int64_t read =
                source + (repeat * src.stride.repeat + int64_t{block} * src.stride.block) * 32;
            // The results of the repeats before it, as one range.
            const int64_t written_end = first + (repeat - 1) * step + bytes;
            instruction.require(
                read + 32 <= first || written_end <= read,
                "Expected no result of a repeat where a later repeat reads src, given dst at byte "
                "%u and src at byte %u of UB, in repeat %d",
                dst.offset, src.tensor->offset, static_cast<int>(repeat));
        }
}

struct Scheme {
    uint32_t value_at, index_at, unit, index_bytes;
    bool value, index;
};

Scheme scheme_of(Reduction reduction, Order order, Dtype dtype) {
    const uint32_t size = size_of(dtype);
    if (reduction == Reduction::Sum || order == Order::Value) return {0, 0, size, size, true, false};
    if (order == Order::ValueIndex) return {0, size, 2 * size, size, true, true};
    if (order == Order::IndexValue) return {size, 0, 2 * size, size, true, true};
    return {0, 0, 4, 4, false, true};
}

}  // namespace

void reduce_repeat(const Call& call, Reduction reduction, Order order, const Local& dst, const Local& src,
                   int32_t dst_repeat, int32_t src_block, int32_t src_repeat) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(src.dtype), lanes = lanes_of(size);
    const Extent extent = extent_of(instruction, call, lanes);
    const Access from(src, "src", {static_cast<uint32_t>(src_block), static_cast<uint32_t>(src_repeat)});
    const Scheme scheme = scheme_of(reduction, order, src.dtype);
    const int64_t step = int64_t{dst_repeat} * scheme.unit;
    if (!cost_only()) {
        check_strides(instruction, dst_repeat, src_block, src_repeat);
        check(instruction, src, "src", half_and_float);
        instruction.takes(dst.dtype == src.dtype, dst.dtype, "dst");
        check(instruction, dst, "dst", half_and_float, scheme.unit);
        if (!extent.nothing()) {
            check_results(instruction, dst, scheme.unit, step, from, extent);
            declare(instruction, from, extent, Touch::Read);
            const auto results = static_cast<uint32_t>(step == 0 ? 1 : extent.repeats);
            if (step == scheme.unit)
                instruction.writes(dst, 0, uint64_t{results} * scheme.unit, 1, 0, "dst");
            else
                instruction.writes(dst, 0, scheme.unit, results, step, "dst");
        }
    }
    if (extent.nothing() || !launch(instruction, extent, size, src.dtype)) return;
    float values[128];
    Extreme overall;
    for (int64_t repeat = 0; repeat < extent.repeats; ++repeat) {
        const uint64_t* mask = mask_of(extent, repeat);
        load_repeat(from, repeat, mask, lanes, values);
        uint8_t* to = data(dst) + repeat * step;
        if (reduction == Reduction::Sum) {
            store_element(src.dtype, to, tree_sum(src.dtype, values, lanes));
            continue;
        }
        Extreme extreme;
        for (uint32_t lane = 0; lane < lanes; ++lane)
            if (works(mask, lane)) extreme.take(reduction, values[lane], lane);
        if (!extreme.found) continue;
        if (scheme.value) store_element(src.dtype, to + scheme.value_at, extreme.value);
        if (scheme.index) std::memcpy(to + scheme.index_at, &extreme.lane, scheme.index_bytes);
        overall.take(reduction, extreme.value, static_cast<uint32_t>(repeat * lanes) + extreme.lane);
    }
    if (overall.found) {
        registers().vector[extreme_register] = element_bits(src.dtype, overall.value);
        registers().vector[index_register] = overall.lane;
    }
}

void reduce_block(const Call& call, Reduction reduction, const Local& dst, const Local& src,
                  int32_t dst_repeat, int32_t src_block, int32_t src_repeat) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(src.dtype), lanes = lanes_of(size), per_block = 32 / size;
    const Extent extent = extent_of(instruction, call, lanes);
    const Access from(src, "src", {static_cast<uint32_t>(src_block), static_cast<uint32_t>(src_repeat)});
    const int64_t step = int64_t{dst_repeat} * 8 * size;
    // A block without an element that works writes nothing.
    const auto writes = [&](const uint64_t* mask, uint32_t block) {
        for (uint32_t lane = block * per_block; lane < (block + 1) * per_block; ++lane)
            if (works(mask, lane)) return true;
        return false;
    };
    if (!cost_only()) {
        check_strides(instruction, dst_repeat, src_block, src_repeat);
        check(instruction, src, "src", half_and_float);
        instruction.takes(dst.dtype == src.dtype, dst.dtype, "dst");
        check(instruction, dst, "dst", half_and_float, 8 * size);
        if (!extent.nothing()) {
            check_results(instruction, dst, 8 * size, step, from, extent);
            declare(instruction, from, extent, Touch::Read);
            if (extent.linear() >= 0 && extent.linear() % lanes == 0) {
                const auto bytes = static_cast<uint64_t>(8 * size);
                if (dst_repeat == 1)
                    instruction.writes(dst, 0, bytes * extent.repeats, 1, 0, "dst");
                else
                    instruction.writes(dst, 0, bytes, static_cast<uint32_t>(step == 0 ? 1 : extent.repeats),
                                       step, "dst");
            } else {
                for (int64_t repeat = 0; repeat < extent.repeats; ++repeat)
                    for (uint32_t block = 0; block < 8; ++block)
                        if (writes(mask_of(extent, repeat), block))
                            instruction.writes(dst, repeat * step + block * size, size, 1, 0, "dst");
            }
        }
    }
    if (extent.nothing() || !launch(instruction, extent, size, src.dtype)) return;
    float values[128];
    for (int64_t repeat = 0; repeat < extent.repeats; ++repeat) {
        const uint64_t* mask = mask_of(extent, repeat);
        load_repeat(from, repeat, mask, lanes, values);
        for (uint32_t block = 0; block < 8; ++block) {
            if (!writes(mask, block)) continue;
            uint8_t* to = data(dst) + repeat * step + block * size;
            float* first = values + block * per_block;
            Extreme extreme;
            if (reduction != Reduction::Sum)
                for (uint32_t lane = 0; lane < per_block; ++lane)
                    if (works(mask, block * per_block + lane)) extreme.take(reduction, first[lane], lane);
            store_element(
                src.dtype, to,
                reduction == Reduction::Sum ? tree_sum(src.dtype, first, per_block) : extreme.value);
        }
    }
}

void reduce_pair(const Call& call, const Local& dst, const Local& src, int32_t dst_repeat, int32_t src_block,
                 int32_t src_repeat) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(src.dtype), lanes = lanes_of(size);
    const Extent extent = extent_of(instruction, call, lanes);
    const Access from(src, "src", {static_cast<uint32_t>(src_block), static_cast<uint32_t>(src_repeat)});
    const int64_t step = int64_t{dst_repeat} * 128;
    const auto writes = [&](const uint64_t* mask, uint32_t pair) {
        return works(mask, 2 * pair) || works(mask, 2 * pair + 1);
    };
    if (!cost_only()) {
        check_strides(instruction, dst_repeat, src_block, src_repeat);
        check(instruction, src, "src", half_and_float);
        instruction.takes(dst.dtype == src.dtype, dst.dtype, "dst");
        check(instruction, dst, "dst", half_and_float);
        if (!extent.nothing()) {
            check_results(instruction, dst, 128, step, from, extent);
            declare(instruction, from, extent, Touch::Read);
            for (int64_t repeat = 0; repeat < extent.repeats; ++repeat) {
                const uint64_t* mask = mask_of(extent, repeat);
                for (uint32_t pair = 0; pair < lanes / 2;) {
                    if (!writes(mask, pair)) {
                        ++pair;
                        continue;
                    }
                    const uint32_t first = pair;
                    while (pair < lanes / 2 && writes(mask, pair)) ++pair;
                    instruction.writes(dst, repeat * step + first * size, uint64_t{pair - first} * size, 1, 0,
                                       "dst");
                }
            }
        }
    }
    if (extent.nothing() || !launch(instruction, extent, size, src.dtype)) return;
    float values[128];
    for (int64_t repeat = 0; repeat < extent.repeats; ++repeat) {
        const uint64_t* mask = mask_of(extent, repeat);
        load_repeat(from, repeat, mask, lanes, values);
        for (uint32_t pair = 0; pair < lanes / 2; ++pair)
            if (writes(mask, pair))
                store_element(src.dtype, data(dst) + repeat * step + pair * size,
                              tree_sum(src.dtype, values + 2 * pair, 2));
    }
}

namespace {

// The scalar unit writes the result itself: it waits for the vector unit, and what follows waits for it.
void store_by_scalar(const Local& dst, uint32_t offset, const void* value, uint32_t bytes, Where where) {
    synchronise(Pipe::V, Pipe::S, where);
    store(dst, offset, value, bytes, where);
    synchronise(Pipe::S, Pipe::V, where);
    synchronise(Pipe::S, Pipe::MTE3, where);
}

// One of the instructions a reduction over everything is made of: `repeats` repeats, from src or from the
// scratch.
bool step(const Call& call, Dtype dtype, int64_t repeats) {
    Instruction instruction(Pipe::V, call.name, call.where);
    instruction.work(
        Work::vector(static_cast<uint32_t>(repeats), size_of(dtype), static_cast<uint8_t>(dtype)));
    return instruction.issue();
}

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Elements of the scratch that documents ask for.
int64_t scratch_elements(Reduction reduction, bool index, int64_t repeats, uint32_t size) {
    const int64_t per_block = 32 / size, lanes = lanes_of(size);
    if (reduction == Reduction::Sum) return round_up(repeats, per_block);
    int64_t results = 2 * repeats;
    int64_t needed = round_up(results, per_block);
    if (!index) return needed;
    while (results > 2) {  // each round's pairs behind those of the round before
        results = 2 * ((results + lanes - 1) / lanes);
        needed += round_up(results, per_block);
    }
    return needed;
}

}  // namespace

void reduce_all(const Call& call, Reduction reduction, bool index, const Local& dst, const Local& src,
                const Local& scratch, int32_t src_repeat) {
    const uint32_t size = size_of(src.dtype), lanes = lanes_of(size);
    const bool sequential = reduction == Reduction::Sum && call.lanes.form == Lanes::Form::Count;
    Extent extent;
    int64_t repeats;
    {
        Instruction instruction(Pipe::V, call.name, call.where);
        if (instruction.skipped()) return;
        Call limited = call;  // here more than 255 repeats are several instructions
        limited.repeats = std::min<int64_t>(call.repeats, 255);
        extent = extent_of(instruction, limited, lanes);
        if (!extent.counted && !registers().counter) extent.repeats = call.repeats;
        const Access from(src, "src", {1, static_cast<uint32_t>(src_repeat)});
        repeats = extent.counted ? (extent.count + lanes - 1) / lanes : extent.repeats;
        if (!cost_only()) {
            check_strides(instruction, 0, 1, src_repeat);
            check(instruction, src, "src", half_and_float);
            instruction.takes(dst.dtype == src.dtype, dst.dtype, "dst");
            check(instruction, dst, "dst", half_and_float, index ? 2 * size : size);
            if (index && size == 2)
                instruction.require(repeats * lanes <= 65536,
                                    "Expected at most 65536 elements where the index is a "
                                    "uint16, given %d",
                                    static_cast<int>(repeats * lanes));
            if (!sequential) check(instruction, scratch, "sharedTmpBuffer", half_and_float);
            if (!extent.nothing()) {
                declare(instruction, from, extent, Touch::Read);
                if (!sequential) {
                    const int64_t needed =
                        scratch_elements(reduction, index, std::max<int64_t>(repeats, 1), size);
                    instruction.require(needed * size <= scratch.bytes,
                                        "Expected a sharedTmpBuffer of at least %d elements, given %d",
                                        static_cast<int>(needed), static_cast<int>(scratch.bytes / size));
                    instruction.writes(scratch, 0, static_cast<uint64_t>(needed) * size, 1, 0,
                                       "sharedTmpBuffer");
                }
            }
        }
        if (extent.nothing()) return;
        instruction.work(Work::vector(static_cast<uint32_t>(repeats), size, static_cast<uint8_t>(src.dtype)));
        instruction.issue();
    }
    float result = 0;
    uint32_t at = 0;
    if (!cost_only()) {
        const Access from(src, "src", {1, static_cast<uint32_t>(src_repeat)});
        Extent walked = extent;
        if (walked.counted) {  // as repeats
            walked.counted = false;
            walked.repeats = repeats;
            walked.mask[0] = walked.mask[1] = ~uint64_t{0};
            const int64_t last = (extent.count - 1) % lanes + 1;
            walked.last[0] = last >= 64 ? ~uint64_t{0} : (uint64_t{1} << last) - 1;
            walked.last[1] = last >= 128 ? ~uint64_t{0} : last > 64 ? (uint64_t{1} << (last - 64)) - 1 : 0;
        }
        float values[128];
        std::vector<float> sums;
        Extreme overall;
        for (int64_t repeat = 0; repeat < repeats; ++repeat) {
            const uint64_t* mask = mask_of(walked, repeat);
            load_repeat(from, repeat, mask, lanes, values);
            if (reduction == Reduction::Sum) {
                sums.push_back(tree_sum(src.dtype, values, lanes));
            } else {
                for (uint32_t lane = 0; lane < lanes; ++lane)
                    if (works(mask, lane))
                        overall.take(reduction, values[lane], static_cast<uint32_t>(repeat * lanes) + lane);
            }
        }
        if (sequential) {
            for (float sum : sums) {
                result += sum;
                if (src.dtype == Dtype::F16) result = half_to_float(half_of(result));
            }
        } else if (reduction == Reduction::Sum) {  // repeats of sums until one is left
            while (sums.size() > 1) {
                std::vector<float> next;
                for (size_t first = 0; first < sums.size(); first += lanes) {
                    for (uint32_t lane = 0; lane < lanes; ++lane)
                        values[lane] = first + lane < sums.size() ? sums[first + lane] : 0.0F;
                    next.push_back(tree_sum(src.dtype, values, lanes));
                }
                sums = next;
            }
            result = sums[0];
        } else {
            result = overall.value;
            at = overall.lane;
        }
    }
    // The rounds over what the first one left.
    if (!sequential) {
        const int64_t left = reduction == Reduction::Sum ? 1 : 2;
        for (int64_t results = repeats * left; results > left;) {
            const int64_t rounds = (results + lanes - 1) / lanes;
            pipe_barrier(Pipe::V, call.where);
            step(call, src.dtype, rounds);
            results = rounds * left;
        }
        pipe_barrier(Pipe::V, call.where);
    }
    const uint64_t bits = element_bits(src.dtype, result);
    registers().vector[reduction == Reduction::Sum ? sum_register : extreme_register] = bits;
    if (reduction != Reduction::Sum) registers().vector[index_register] = at;
    uint64_t both = bits;
    std::memcpy(reinterpret_cast<uint8_t*>(&both) + size, &at, size);
    const uint32_t bytes = index ? 2 * size : size;
    if (sequential || index || (reduction == Reduction::Sum && repeats <= lanes))
        return store_by_scalar(dst, 0, &both, bytes, call.where);
    Instruction last(Pipe::V, call.name, call.where);
    if (!cost_only()) last.writes(dst, 0, bytes, 1, 0, "dst");
    last.work(Work::vector(1, size, static_cast<uint8_t>(src.dtype)));
    if (last.issue()) std::memcpy(data(dst), &both, bytes);
}

}  // namespace sim
