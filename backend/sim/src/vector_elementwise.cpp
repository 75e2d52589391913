#include "saturation.hpp"
#include "vector_access.hpp"
#include "vector_loops.hpp"

namespace sim {

namespace {

constexpr uint32_t any_dtype = ~uint32_t{0};

bool reads_destination(Binary operation) {
    return operation == Binary::MulAddDst || operation == Binary::FusedMulAdd ||
           operation == Binary::FusedMulAddRelu;
}

// What may add up over repeats in one place: dst and src1 the same, one of them not moving on.
bool may_accumulate(Binary operation, Dtype dtype) {
    switch (operation) {
        case Binary::Add:
        case Binary::Sub:
        case Binary::Mul:
        case Binary::Max:
        case Binary::Min:
        case Binary::AddRelu:
        case Binary::SubRelu:
            return dtype != Dtype::I16;
        default:
            return false;
    }
}

const uint8_t* at(const Local& tensor, int64_t bytes) { return data(tensor) + bytes; }

}  // namespace

void binary(const Call& call, Binary operation, const Local& dst, const Local& src0, const Local& src1,
            Stride dst_stride, Stride src0_stride, Stride src1_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t widest = std::max(size_of(dst.dtype), size_of(src0.dtype));
    const Extent extent = extent_of(instruction, call, lanes_of(widest));
    const Loop loop = binary_loop(operation, dst.dtype, src0.dtype);
    const Access to(dst, "dst", dst_stride), from0(src0, "src0", src0_stride),
        from1(src1, "src1", src1_stride);
    if (!cost_only()) {
        instruction.takes(loop != nullptr && src0.dtype == src1.dtype, src0.dtype, "src0");
        check(instruction, dst, "dst", any_dtype);
        check(instruction, src0, "src0", any_dtype);
        check(instruction, src1, "src1", any_dtype);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        check_overlap(instruction, to, from0, extent);
        check_overlap(instruction, to, from1, extent, may_accumulate(operation, src0.dtype));
        declare(instruction, from0, extent, Touch::Read);
        declare(instruction, from1, extent, Touch::Read);
        if (reads_destination(operation)) declare(instruction, to, extent, Touch::Read);
        if (operation == Binary::AddDeqRelu && !extent.nothing())
            instruction.writes(scratch_space(), 0,
                               std::min<int64_t>(8192, int64_t{extent.cost_repeats()} * 256), 1, 0,
                               "scratch");
        declare(instruction, to, extent, Touch::Write);
    }
    if (extent.nothing() ||
        !launch(instruction, extent, widest, src0.dtype, repeats_that_meet(from0, from1, extent)))
        return;
    const uint64_t scalar = operation == Binary::AddDeqRelu ? registers().quantisation : 0;
    const Access all[3] = {to, from0, from1};
    walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
        loop({data(dst) + offset[0], at(src0, offset[1]), at(src1, offset[2]), scalar}, count);
        saturate_results(dst.dtype, data(dst) + offset[0], count);
    });
}

void unary(const Call& call, Unary operation, const Local& dst, const Local& src, Stride dst_stride,
           Stride src_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const Extent extent = extent_of(instruction, call, lanes_of(size_of(src.dtype)));
    const Loop loop = unary_loop(operation, src.dtype);
    const Access all[2] = {{dst, "dst", dst_stride}, {src, "src", src_stride}};
    if (!cost_only()) {
        instruction.takes(loop != nullptr, src.dtype, "src");
        check(instruction, dst, "dst", any_dtype);
        check(instruction, src, "src", any_dtype);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        check_overlap(instruction, all[0], all[1], extent);
        declare(instruction, all[1], extent, Touch::Read);
        declare(instruction, all[0], extent, Touch::Write);
    }
    if (extent.nothing() || !launch(instruction, extent, size_of(src.dtype), src.dtype)) return;
    walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
        loop({data(dst) + offset[0], at(src, offset[1]), nullptr, 0}, count);
        saturate_results(dst.dtype, data(dst) + offset[0], count);
    });
}

void scalar(const Call& call, Scalar operation, const Local& dst, const Local& src, uint64_t value,
            Stride dst_stride, Stride src_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t widest = std::max(size_of(dst.dtype), size_of(src.dtype));
    const Extent extent = extent_of(instruction, call, lanes_of(widest));
    const Loop loop = scalar_loop(operation, dst.dtype, src.dtype);
    const Access all[2] = {{dst, "dst", dst_stride}, {src, "src", src_stride}};
    if (!cost_only()) {
        instruction.takes(loop != nullptr, src.dtype, "src");
        check(instruction, dst, "dst", any_dtype);
        check(instruction, src, "src", any_dtype);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        if (operation == Scalar::ShiftLeft || operation == Scalar::ShiftRight ||
            operation == Scalar::ShiftRightRound) {
            const uint64_t width = 8 * size_of(src.dtype);
            instruction.require(value <= width, "Expected scalarValue of 0 to %d bits, given %d",
                                static_cast<int>(width), static_cast<int>(value));
        }
        check_overlap(instruction, all[0], all[1], extent);
        declare(instruction, all[1], extent, Touch::Read);
        if (operation == Scalar::Axpy) declare(instruction, all[0], extent, Touch::Read);
        declare(instruction, all[0], extent, Touch::Write);
    }
    if (extent.nothing() || !launch(instruction, extent, widest, src.dtype)) return;
    walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
        loop({data(dst) + offset[0], at(src, offset[1]), nullptr, value}, count);
        saturate_results(dst.dtype, data(dst) + offset[0], count);
    });
}

}  // namespace sim
