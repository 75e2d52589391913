#include <cinttypes>
#include <cstring>

#include "ascendc/types.hpp"
#include "narrow.hpp"
#include "vector_access.hpp"

namespace sim {

namespace {

constexpr uint32_t byte_types = set_of({Dtype::I8, Dtype::U8});
constexpr uint32_t comparable = set_of({Dtype::F16, Dtype::F32, Dtype::I32});
constexpr uint32_t mask_types = set_of({Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64});
constexpr uint32_t any_dtype = ~uint32_t{0};

template <typename T>
void compare_elements(uint8_t* flags, Comparison mode, const T* a, const T* b, int64_t step, int64_t count) {
    const auto each = [&](auto holds) {
        for (int64_t i = 0; i < count; ++i) flags[i] = holds(a[i], b[i * step]) ? 1 : 0;
    };
    switch (mode) {
        case Comparison::Less:
            return each([](T x, T y) { return x < y; });
        case Comparison::Greater:
            return each([](T x, T y) { return x > y; });
        case Comparison::Equal:
            return each([](T x, T y) { return x == y; });
        case Comparison::LessEqual:
            return each([](T x, T y) { return x <= y; });
        case Comparison::GreaterEqual:
            return each([](T x, T y) { return x >= y; });
        case Comparison::NotEqual:
            return each([](T x, T y) { return x != y; });
    }
}

// Flags, one to a byte, of contiguous elements; `step` 0 compares with one value.
void compare_piece(uint8_t* flags, Comparison mode, Dtype dtype, const uint8_t* a, const uint8_t* b,
                   int64_t step, int64_t count) {
    if (dtype == Dtype::F32)
        return compare_elements(flags, mode, reinterpret_cast<const float*>(a),
                                reinterpret_cast<const float*>(b), step, count);
    if (dtype == Dtype::I32)
        return compare_elements(flags, mode, reinterpret_cast<const int32_t*>(a),
                                reinterpret_cast<const int32_t*>(b), step, count);
    float wide_a[piece], wide_b[piece];
    widen_half(wide_a, reinterpret_cast<const uint16_t*>(a), count);
    widen_half(wide_b, reinterpret_cast<const uint16_t*>(b), step == 0 ? 1 : count);
    compare_elements(flags, mode, wide_a, wide_b, step, count);
}

void set_bits(uint8_t* out, int64_t first, const uint8_t* flags, int64_t count) {
    int64_t i = 0;
    if (first % 8 == 0) {
        for (; i + 8 <= count; i += 8) {
            uint64_t eight;
            std::memcpy(&eight, flags + i, 8);
            out[(first + i) / 8] = static_cast<uint8_t>(eight * 0x0102040810204080U >> 56);
        }
    }
    for (; i < count; ++i) {
        uint8_t& byte = out[(first + i) / 8];
        const auto bit = static_cast<uint8_t>(1U << (first + i) % 8);
        byte = static_cast<uint8_t>(flags[i] ? byte | bit : byte & ~bit);
    }
}

// The mask has no effect where the result goes to memory.
Extent whole_repeats(Instruction& instruction, const Call& call, uint32_t lanes) {
    Extent extent = extent_of(instruction, call, lanes);
    if (extent.counted || registers().counter) return extent;
    extent.mask[0] = extent.last[0] = lanes >= 64 ? ~uint64_t{0} : (uint64_t{1} << lanes) - 1;
    extent.mask[1] = extent.last[1] = lanes > 64 ? ~uint64_t{0} : 0;
    return extent;
}

void check_comparison(Instruction& instruction, Comparison mode, const Local& src) {
    check(instruction, src, "src0", comparable);
    if (src.dtype == Dtype::I32)
        instruction.require(mode == Comparison::Equal, "Expected cmpMode EQ for int32, given another");
}

// One body for both forms: `src1` a tensor, or none and `value` its bits.
void compare_any(const Call& call, Comparison mode, const Local& dst, const Local& src0, const Local* src1,
                 uint64_t value, Stride src0_stride, Stride src1_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(src0.dtype), lanes = lanes_of(size);
    const Extent extent = whole_repeats(instruction, call, lanes);
    const Access from0(src0, "src0", src0_stride),
        from1(src1 ? *src1 : src0, "src1", src1 ? src1_stride : src0_stride);
    const int64_t elements = extent.counted ? extent.count : extent.linear();
    const auto result_bytes = static_cast<uint64_t>((elements + 7) / 8);
    if (!cost_only()) {
        check_comparison(instruction, mode, src0);
        check(instruction, dst, "dst", byte_types);
        if (src1) {
            instruction.takes(src1->dtype == src0.dtype, src1->dtype, "src1");
            check(instruction, *src1, "src1", any_dtype);
        }
        if (extent.counted)
            instruction.require(extent.count * size % 256 == 0,
                                "Expected count elements that fill whole repeats of 256 bytes (a multiple of "
                                "%u), given %" PRId64,
                                lanes, extent.count);
        declare(instruction, from0, extent, Touch::Read);
        if (src1) declare(instruction, from1, extent, Touch::Read);
        if (elements > 0) instruction.writes(dst, 0, result_bytes, 1, 0, "dst");
    }
    const uint32_t meeting = src1 ? repeats_that_meet(from0, from1, extent) : 0;
    if (extent.nothing() || !launch(instruction, extent, size, src0.dtype, meeting)) return;
    const Access all[2] = {from0, from1};
    uint8_t flags[piece];
    walk(extent, all, [&](int64_t repeat, uint32_t first, int64_t count, const int64_t* offset) {
        for (int64_t start = 0; start < count; start += piece) {
            const int64_t n = std::min(count - start, piece);
            const uint8_t* b =
                src1 ? data(*src1) + offset[1] + start * size : reinterpret_cast<uint8_t*>(&value);
            compare_piece(flags, mode, src0.dtype, data(src0) + offset[0] + start * size, b, src1 ? 1 : 0, n);
            set_bits(data(dst), repeat * lanes + first + start, flags, n);
        }
    });
}

}  // namespace

void compare(const Call& call, Comparison mode, const Local& dst, const Local& src0, const Local& src1,
             Stride src0_stride, Stride src1_stride) {
    compare_any(call, mode, dst, src0, &src1, 0, src0_stride, src1_stride);
}

void compare_scalar(const Call& call, Comparison mode, const Local& dst, const Local& src0, uint64_t value,
                    Stride src0_stride) {
    compare_any(call, mode, dst, src0, nullptr, value, src0_stride, {});
}

void compare_to_mask(const Call& call, Comparison mode, const Local& src0, const Local& src1,
                     Stride src0_stride, Stride src1_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(src0.dtype), lanes = lanes_of(size);
    const Extent extent = extent_of(instruction, call, lanes);
    const Access all[2] = {{src0, "src0", src0_stride}, {src1, "src1", src1_stride}};
    if (!cost_only()) {
        check(instruction, src0, "src0", half_and_float);
        check(instruction, src1, "src1", half_and_float);
        declare(instruction, all[0], extent, Touch::Read);
        declare(instruction, all[1], extent, Touch::Read);
    }
    if (extent.nothing() || !launch(instruction, extent, size, src0.dtype)) return;
    uint8_t flags[piece];
    walk(extent, all, [&](int64_t, uint32_t first, int64_t count, const int64_t* offset) {
        compare_piece(flags, mode, src0.dtype, data(src0) + offset[0], data(src1) + offset[1], 1, count);
        set_bits(registers().compare_mask, first, flags, count);  // what the mask leaves out stays
    });
}

void get_compare_mask(const Local& dst, Where where) {
    Instruction instruction(Pipe::V, "GetCmpMask", where);
    if (instruction.skipped()) return;
    if (!cost_only()) {
        check(instruction, dst, "dst", any_dtype, 16);
        instruction.writes(dst, 0, 16, 1, 0, "dst");
    }
    instruction.work(Work::vector(1, 1, static_cast<uint8_t>(dst.dtype)));
    if (instruction.issue()) std::memcpy(data(dst), registers().compare_mask, 16);
}

void set_compare_mask(const Local& src, Where where) {
    Instruction instruction(Pipe::V, "SetCmpMask", where);
    if (instruction.skipped()) return;
    const uint32_t bytes = std::min(src.bytes, 16U);
    if (!cost_only()) {
        check(instruction, src, "src", any_dtype, 16);
        instruction.reads(src, 0, bytes, 1, 0, "src");
    }
    instruction.work(Work::vector(1, 1, static_cast<uint8_t>(src.dtype)));
    if (!instruction.issue()) return;
    std::memset(registers().compare_mask, 0, 16);
    std::memcpy(registers().compare_mask, data(src), bytes);
}

namespace {

template <typename T>
void select_elements(T* dst, const uint8_t* bits, int64_t first, const T* a, const T* b, int64_t step,
                     int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const int64_t bit = first + i;
        dst[i] = bits[bit / 8] >> bit % 8 & 1U ? a[i] : b[i * step];
    }
}

struct SelectOperands {
    const Local* dst;
    const Local* bits;  // the selection in memory, or none
    const uint8_t* bits_in_register;
    const Local* src0;
    const Local* src1;  // or none and `value` its bits
    uint64_t value;
    bool reuses_bits;  // the same bits for every repeat
    bool scratch;
};

void select_any(const Call& call, const SelectOperands& operands, Stride dst_stride, Stride src0_stride,
                Stride src1_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const Local& dst = *operands.dst;
    const Local& src0 = *operands.src0;
    const Local* src1 = operands.src1;
    const uint32_t size = size_of(src0.dtype), lanes = lanes_of(size);
    const Extent extent = extent_of(instruction, call, lanes);
    const Access all[3] = {{dst, "dst", dst_stride},
                           {src0, "src0", src0_stride},
                           {src1 ? *src1 : src0, "src1", src1 ? src1_stride : src0_stride}};
    if (!cost_only()) {
        check(instruction, dst, "dst", half_and_float);
        check(instruction, src0, "src0", half_and_float);
        if (src1) {
            instruction.takes(src1->dtype == src0.dtype, src1->dtype, "src1");
            check(instruction, *src1, "src1", half_and_float);
        }
        if (operands.bits) check(instruction, *operands.bits, "selMask", mask_types);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        check_overlap(instruction, all[0], all[1], extent);
        if (src1) check_overlap(instruction, all[0], all[2], extent);
        declare(instruction, all[1], extent, Touch::Read);
        if (src1) declare(instruction, all[2], extent, Touch::Read);
        if (operands.bits && !extent.nothing()) {
            const int64_t elements = extent.counted ? extent.count : extent.repeats * lanes;
            const int64_t used = operands.reuses_bits ? std::min<int64_t>(elements, lanes) : elements;
            instruction.reads(*operands.bits, 0, static_cast<uint64_t>((used + 7) / 8), 1, 0, "selMask");
            if (operands.scratch) instruction.writes(scratch_space(), 0, 32, 1, 0, "scratch");
        }
        declare(instruction, all[0], extent, Touch::Write);
    }
    const uint32_t meeting = src1 ? repeats_that_meet(all[1], all[2], extent) : 0;
    if (extent.nothing() || !launch(instruction, extent, size, src0.dtype, meeting)) return;
    const uint8_t* bits = operands.bits ? data(*operands.bits) : operands.bits_in_register;
    const auto part = [&](int64_t first, int64_t count, const int64_t* offset) {
        uint8_t* to = data(dst) + offset[0];
        const uint8_t* a = data(src0) + offset[1];
        const uint8_t* b = src1 ? data(*src1) + offset[2] : reinterpret_cast<const uint8_t*>(&operands.value);
        if (size == 2)
            select_elements(reinterpret_cast<uint16_t*>(to), bits, first,
                            reinterpret_cast<const uint16_t*>(a), reinterpret_cast<const uint16_t*>(b),
                            src1 ? 1 : 0, count);
        else
            select_elements(reinterpret_cast<uint32_t*>(to), bits, first,
                            reinterpret_cast<const uint32_t*>(a), reinterpret_cast<const uint32_t*>(b),
                            src1 ? 1 : 0, count);
    };
    walk(extent, all, [&](int64_t repeat, uint32_t first, int64_t count, const int64_t* offset) {
        if (!operands.reuses_bits) return part(repeat * lanes + first, count, offset);
        for (int64_t done = 0; done < count;) {  // no further than the end of a repeat at once
            const int64_t lane = (first + done) % lanes;
            const int64_t n = std::min(count - done, lanes - lane);
            const int64_t moved = done * size;
            const int64_t shifted[3] = {offset[0] + moved, offset[1] + moved, offset[2] + moved};
            part(lane, n, shifted);
            done += n;
        }
    });
}

}  // namespace

void select(const Call& call, Selection mode, const Local& dst, const Local& mask, const Local& src0,
            const Local& src1, Stride dst_stride, Stride src0_stride, Stride src1_stride) {
    if (mode == Selection::TensorScalar)
        fail(call.where,
             "[%s] Expected selMode VSEL_CMPMASK_SPR or VSEL_TENSOR_TENSOR_MODE where src1 is a tensor, "
             "given VSEL_TENSOR_SCALAR_MODE",
             call.name);
    const bool reuses = mode == Selection::CompareMask;
    if (reuses && !cost_only()) std::memcpy(registers().compare_mask, data(mask), std::min(mask.bytes, 16U));
    select_any(call, {&dst, &mask, nullptr, &src0, &src1, 0, reuses, !reuses}, dst_stride, src0_stride,
               src1_stride);
}

void select_scalar(const Call& call, const Local& dst, const Local& mask, const Local& src0, uint64_t value,
                   Stride dst_stride, Stride src0_stride) {
    select_any(call, {&dst, &mask, nullptr, &src0, nullptr, value, false, true}, dst_stride, src0_stride, {});
}

void select_register(const Call& call, Selection mode, const Local& dst, const Local& src0, const Local& src1,
                     Stride dst_stride, Stride src0_stride, Stride src1_stride) {
    const uint8_t* held = registers().compare_mask;
    uint64_t word;
    std::memcpy(&word, held, 8);
    if (mode == Selection::CompareMask)
        return select_any(call, {&dst, nullptr, held, &src0, &src1, 0, true, false}, dst_stride, src0_stride,
                          src1_stride);
    if (mode == Selection::TensorScalar)
        return select_any(call, {&dst, &src1, nullptr, &src0, nullptr, word, false, false}, dst_stride,
                          src0_stride, {});
    Local bits = cost_only() ? src0 : block_at(word, Dtype::U8, call.where);
    bits.bytes = std::max(bits.bytes, static_cast<uint32_t>(call.repeats) * 16);
    bits.dtype = Dtype::U8;
    select_any(call, {&dst, &bits, nullptr, &src0, &src1, 0, false, false}, dst_stride, src0_stride,
               src1_stride);
}

}  // namespace sim
