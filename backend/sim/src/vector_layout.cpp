#include <cinttypes>
#include <cstring>
#include <vector>

#include "ascendc/types.hpp"
#include "sim/events.hpp"
#include "vector_access.hpp"

namespace sim {

namespace {

constexpr uint32_t index_types = set_of({Dtype::I16, Dtype::F16, Dtype::I32, Dtype::F32});
constexpr uint32_t any_dtype = ~uint32_t{0};

template <typename F>
void by_size(uint32_t size, F f) {
    switch (size) {
        case 1:
            return f(uint8_t{});
        case 2:
            return f(uint16_t{});
        case 4:
            return f(uint32_t{});
        default:
            return f(uint64_t{});
    }
}

}  // namespace

void duplicate(const Call& call, const Local& dst, uint64_t value, Stride dst_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(dst.dtype);
    const Extent extent = extent_of(instruction, call, lanes_of(size));
    const Access all[1] = {{dst, "dst", dst_stride}};
    if (!cost_only()) {
        check(instruction, dst, "dst", sixteen_or_thirty_two_bits);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        declare(instruction, all[0], extent, Touch::Write);
    }
    if (extent.nothing() || !launch(instruction, extent, size, dst.dtype)) return;
    by_size(size, [&](auto zero) {
        using T = decltype(zero);
        walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
            std::fill_n(reinterpret_cast<T*>(data(dst) + offset[0]), count, static_cast<T>(value));
        });
    });
}

void vector_index(const Call& call, const Local& dst, uint64_t first, Stride dst_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(dst.dtype), lanes = lanes_of(size);
    const Extent extent = extent_of(instruction, call, lanes);
    const Access all[1] = {{dst, "dst", dst_stride}};
    if (!cost_only()) {
        check(instruction, dst, "dst", index_types);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        declare(instruction, all[0], extent, Touch::Write);
    }
    if (extent.nothing() || !launch(instruction, extent, size, dst.dtype)) return;
    walk(extent, all, [&](int64_t repeat, uint32_t lane, int64_t count, const int64_t* offset) {
        uint8_t* to = data(dst) + offset[0];
        const int64_t start = repeat * lanes + lane;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t index = start + i;
            if (dst.dtype == Dtype::I32) {
                reinterpret_cast<uint32_t*>(to)[i] =
                    static_cast<uint32_t>(first + static_cast<uint64_t>(index));
            } else if (dst.dtype == Dtype::I16) {
                reinterpret_cast<uint16_t*>(to)[i] =
                    static_cast<uint16_t>(first + static_cast<uint64_t>(index));
            } else if (dst.dtype == Dtype::F32) {
                float start_value;
                std::memcpy(&start_value, &first, 4);
                reinterpret_cast<float*>(to)[i] = start_value + static_cast<float>(index);
            } else {
                const float start_value = half_to_float(static_cast<uint16_t>(first));
                reinterpret_cast<uint16_t*>(to)[i] = float_to_half(start_value + static_cast<float>(index));
            }
        }
    });
}

void broadcast_block(const Call& call, const Local& dst, const Local& src, Stride dst_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(dst.dtype), per_block = 32 / size;
    const int64_t repeats = call.repeats;
    const int64_t block = int64_t{dst_stride.block} * 32, step = int64_t{dst_stride.repeat} * 32;
    if (!cost_only() && repeats > 0) {
        check(instruction, dst, "dst", sixteen_or_thirty_two_bits);
        check(instruction, src, "src", sixteen_or_thirty_two_bits);
        check_block_stride(instruction, dst_stride);
        check_apart(instruction, dst, static_cast<uint64_t>((repeats - 1) * step + 7 * block + 32), src,
                    static_cast<uint64_t>(repeats) * 8 * size, "src");
        instruction.reads(src, 0, static_cast<uint64_t>(repeats) * 8 * size, 1, 0, "src");
        const auto count = static_cast<uint32_t>(repeats);
        if (block == 32 && step == 256)
            instruction.writes(dst, 0, 256 * static_cast<uint64_t>(repeats), 1, 0, "dst");
        else if (block == 32)
            instruction.writes(dst, 0, 256, step == 0 ? 1 : count, step, "dst");
        else
            for (int64_t i = 0; i < 8; ++i)
                instruction.writes(dst, i * block, 32, step == 0 ? 1 : count, step, "dst");
    }
    if (repeats == 0) return;
    instruction.work(Work::vector(static_cast<uint32_t>(repeats), size, static_cast<uint8_t>(src.dtype)));
    if (!instruction.issue()) return;
    by_size(size, [&](auto zero) {
        using T = decltype(zero);
        const auto* from = reinterpret_cast<const T*>(data(src));
        for (int64_t repeat = 0; repeat < repeats; ++repeat)
            for (int64_t i = 0; i < 8; ++i)
                std::fill_n(reinterpret_cast<T*>(data(dst) + repeat * step + i * block), per_block,
                            from[repeat * 8 + i]);
    });
}

namespace {

void check_copy_steps(Instruction& instruction, Stride dst_stride, Stride src_stride) {
    instruction.require(dst_stride.repeat <= 4095, "Expected dstRepeatSize of 0 to 4095, given %u",
                        dst_stride.repeat);
    instruction.require(src_stride.repeat <= 4095, "Expected srcRepeatSize of 0 to 4095, given %u",
                        src_stride.repeat);
}

// In counter mode Copy, unlike the others, makes its repeats, of so many elements each: as many blocks as
// that takes.
void copy_counted(Instruction& instruction, const Call& call, const Local& dst, const Local& src,
                  Stride dst_stride, Stride src_stride) {
    if (call.lanes.form != Lanes::Form::Register) registers().mask[0] = call.lanes.low;
    const uint32_t size = size_of(dst.dtype), per_block = 32 / size;
    const auto count = static_cast<int64_t>(registers().mask[0]);
    const int64_t repeats = call.repeats, blocks = (count + per_block - 1) / per_block;
    const auto bytes_of_block = [&](int64_t block) {
        return static_cast<uint64_t>(std::min<int64_t>(per_block, count - block * per_block) * size);
    };
    if (count == 0 || repeats == 0) return;
    if (!cost_only()) {
        check(instruction, dst, "dst", sixteen_or_thirty_two_bits);
        check(instruction, src, "src", sixteen_or_thirty_two_bits);
        check_copy_steps(instruction, dst_stride, src_stride);
        const auto declare_blocks = [&](Stride stride, auto touch) {
            const auto pieces = stride.repeat == 0 ? 1U : static_cast<uint32_t>(repeats);
            for (int64_t block = 0; block < blocks; ++block)
                touch(block * stride.block * 32, bytes_of_block(block), pieces, int64_t{stride.repeat} * 32);
        };
        declare_blocks(src_stride, [&](int64_t at, uint64_t bytes, uint32_t pieces, int64_t step) {
            instruction.reads(src, at, bytes, pieces, step, "src");
        });
        declare_blocks(dst_stride, [&](int64_t at, uint64_t bytes, uint32_t pieces, int64_t step) {
            instruction.writes(dst, at, bytes, pieces, step, "dst");
        });
    }
    instruction.work(Work::vector(static_cast<uint32_t>(repeats * ((blocks + 7) / 8)), size,
                                  static_cast<uint8_t>(src.dtype)));
    if (!instruction.issue()) return;
    for (int64_t repeat = 0; repeat < repeats; ++repeat)
        for (int64_t block = 0; block < blocks; ++block)
            std::memmove(data(dst) + (repeat * dst_stride.repeat + block * dst_stride.block) * 32,
                         data(src) + (repeat * src_stride.repeat + block * src_stride.block) * 32,
                         bytes_of_block(block));
}

}  // namespace

void copy_lanes(const Call& call, const Local& dst, const Local& src, Stride dst_stride, Stride src_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(dst.dtype), lanes = lanes_of(size);
    if (registers().counter) return copy_counted(instruction, call, dst, src, dst_stride, src_stride);
    const Extent extent = extent_of(instruction, call, lanes);
    const Access all[2] = {{dst, "dst", dst_stride}, {src, "src", src_stride}};
    if (!cost_only()) {
        check(instruction, dst, "dst", sixteen_or_thirty_two_bits);
        check(instruction, src, "src", sixteen_or_thirty_two_bits);
        check_copy_steps(instruction, dst_stride, src_stride);
        check_overlap(instruction, all[0], all[1], extent);
        declare(instruction, all[1], extent, Touch::Read);
        declare(instruction, all[0], extent, Touch::Write);
    }
    if (extent.nothing() || !launch(instruction, extent, size, src.dtype)) return;
    walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
        std::memmove(data(dst) + offset[0], data(src) + offset[1], static_cast<size_t>(count) * size);
    });
}

void transpose_tile(const Call& call, const Local& dst, const Local& src) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    if (!cost_only()) {
        constexpr uint32_t types = set_of({Dtype::I16, Dtype::U16, Dtype::F16});
        check(instruction, dst, "dst", types);
        check(instruction, src, "src", types);
        if (dst.offset != src.offset) check_apart(instruction, dst, 512, src, 512, "src");
        instruction.reads(src, 0, 512, 1, 0, "src");
        instruction.writes(dst, 0, 512, 1, 0, "dst");
    }
    instruction.work(Work::vector(2, 2, static_cast<uint8_t>(src.dtype)));
    if (!instruction.issue()) return;
    uint16_t tile[256];
    std::memcpy(tile, data(src), 512);
    auto* to = reinterpret_cast<uint16_t*>(data(dst));
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 16; ++column) to[column * 16 + row] = tile[row * 16 + column];
}

void transpose_image(const Call& call, const Local& dst, const Local& src, const Local& scratch,
                     const ImageShape& shape) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(src.dtype);
    const uint64_t plane = uint64_t{shape.h} * shape.w, elements = shape.n * shape.c * plane;
    const uint64_t block = 32 / size, tall = size == 1 ? 32 : 16;
    const uint64_t needed = (shape.channels_last ? shape.c * 2 + 1 : shape.c + 2) * tall * block * size;
    if (elements == 0) return;
    if (!cost_only()) {
        constexpr uint32_t types = set_of(
            {Dtype::I8, Dtype::U8, Dtype::I16, Dtype::U16, Dtype::F16, Dtype::I32, Dtype::U32, Dtype::F32});
        check(instruction, dst, "dst", types);
        check(instruction, src, "src", types);
        check(instruction, scratch, "sharedTmpBuffer", any_dtype);
        instruction.require(shape.c <= 4095, "Expected cSize of 0 to 4095, given %u", shape.c);
        instruction.require(plane <= 4095, "Expected hSize * wSize of 0 to 4095, given %" PRIu64, plane);
        instruction.require(plane * size % 32 == 0,
                            "Expected hSize * wSize * sizeof(T) to be a multiple of 32 bytes, given %" PRIu64,
                            plane * size);
        instruction.require(scratch.bytes >= needed,
                            "Expected a sharedTmpBuffer of at least %" PRIu64 " bytes, given %u", needed,
                            scratch.bytes);
        check_apart(instruction, dst, elements * size, src, elements * size, "src");
        instruction.reads(src, 0, elements * size, 1, 0, "src");
        instruction.writes(scratch, 0, needed, 1, 0, "sharedTmpBuffer");
        instruction.writes(dst, 0, elements * size, 1, 0, "dst");
    }
    // Tiles of sixteen blocks, in and out of the scratch.
    const auto tiles = static_cast<uint32_t>((elements * size + 511) / 512);
    instruction.work(Work::vector(tiles * 4, size, static_cast<uint8_t>(src.dtype)));
    if (!instruction.issue()) return;
    const uint64_t rows = shape.channels_last ? plane : shape.c,
                   columns = shape.channels_last ? shape.c : plane;
    by_size(size, [&](auto zero) {
        using T = decltype(zero);
        const auto* from = reinterpret_cast<const T*>(data(src));
        auto* to = reinterpret_cast<T*>(data(dst));
        for (uint64_t image = 0; image < shape.n; ++image, from += rows * columns, to += rows * columns)
            for (uint64_t row = 0; row < rows; ++row)
                for (uint64_t column = 0; column < columns; ++column)
                    to[column * rows + row] = from[row * columns + column];
    });
}

Local block_at(uint64_t address, Dtype dtype, Where where) {
    const Local start{Space::UB, 11, dtype, 0, 0, -1};
    // UB addresses have 32 bits; the host's may have been cut to that.
    const auto offset = static_cast<uint32_t>(address - reinterpret_cast<uint64_t>(data(start)));
    if (offset >= capacity(Space::UB))
        fail(Kind::Bounds, where, "Expected the address of a tensor in UB (GetPhyAddr), given 0x%" PRIx64,
             address);
    return {Space::UB, 11, dtype, offset, capacity(Space::UB) - offset, -1};
}

namespace {

// Transposes 16 blocks: element i of block j becomes element j of block i. Of bytes only half a block takes
// part; of 32-bit elements a block has eight, and a column of sixteen fills two blocks.
template <typename T>
void transpose_sixteen(uint8_t* const* to, const uint8_t* const* from, const FractalConversion& conversion) {
    T tile[16][16];
    constexpr int columns = sizeof(T) == 4 ? 8 : 16;
    const int src_half = sizeof(T) == 1 && conversion.src_high ? 16 : 0;
    const int dst_half = sizeof(T) == 1 && conversion.dst_high ? 16 : 0;
    for (int block = 0; block < 16; ++block)
        for (int i = 0; i < columns; ++i)
            std::memcpy(&tile[i][block], from[block] + (src_half + i) * sizeof(T), sizeof(T));
    for (int i = 0; i < columns; ++i) {
        if (sizeof(T) == 4) {
            std::memcpy(to[2 * i], tile[i], 32);
            std::memcpy(to[2 * i + 1], tile[i] + 8, 32);
        } else {
            std::memcpy(to[i] + dst_half, tile[i], 16 * sizeof(T));
        }
    }
}

}  // namespace

void transpose_blocks(const Call& call, Dtype dtype, const Local dst[16], const Local src[16],
                      const FractalConversion& conversion) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(dtype);
    const int64_t repeats = call.repeats;
    if (repeats == 0) return;
    // A single repeat starts one stride further on.
    const int64_t dst_step = int64_t{conversion.dst_repeat} * 32,
                  src_step = int64_t{conversion.src_repeat} * 32;
    const int64_t dst_first = repeats == 1 ? dst_step : 0, src_first = repeats == 1 ? src_step : 0;
    const uint32_t bytes = size == 1 ? 16 : 32;
    if (!cost_only()) {
        instruction.require(repeats >= 0 && repeats <= 255,
                            "Expected repeatTimes of 0 to 255, given %" PRId64, repeats);
        constexpr uint32_t types = set_of(
            {Dtype::I8, Dtype::U8, Dtype::I16, Dtype::U16, Dtype::F16, Dtype::I32, Dtype::U32, Dtype::F32});
        const auto count = static_cast<uint32_t>(repeats);
        for (int i = 0; i < 16; ++i) {
            check(instruction, src[i], "srcList", types);
            check(instruction, dst[i], "dstList", types);
            const int64_t high_src = size == 1 && conversion.src_high ? 16 : 0;
            const int64_t high_dst = size == 1 && conversion.dst_high ? 16 : 0;
            instruction.reads(src[i], src_first + high_src, bytes, src_step == 0 ? 1 : count, src_step,
                              "srcList");
            instruction.writes(dst[i], dst_first + high_dst, bytes, dst_step == 0 ? 1 : count, dst_step,
                               "dstList");
        }
    }
    instruction.work(Work::vector(static_cast<uint32_t>(2 * repeats), size, static_cast<uint8_t>(dtype)));
    if (!instruction.issue()) return;
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        uint8_t* to[16];
        const uint8_t* from[16];
        for (int i = 0; i < 16; ++i) {
            to[i] = data(dst[i]) + dst_first + repeat * dst_step;
            from[i] = data(src[i]) + src_first + repeat * src_step;
        }
        if (size == 1)
            transpose_sixteen<uint8_t>(to, from, conversion);
        else if (size == 2)
            transpose_sixteen<uint16_t>(to, from, conversion);
        else
            transpose_sixteen<uint32_t>(to, from, conversion);
    }
}

}  // namespace sim
