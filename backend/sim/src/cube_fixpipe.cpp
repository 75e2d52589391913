// Fixpipe: results from L0C to GM or L1, converted, quantised and laid out on the way.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ascendc/cube_instructions.hpp"
#include "ascendc/types.hpp"
#include "cube_state.hpp"
#include "saturation.hpp"

namespace sim {

namespace {

bool by_column(Quantization how) {
    return how == Quantization::IntToHalfByColumn || how == Quantization::FloatToByteByColumn ||
           how == Quantization::IntToByteByColumn;
}

// Whether a conversion exists, and that the mode fits the two types.
bool fits(Quantization how, Dtype from, Dtype to) {
    bool byte = to == Dtype::I8 || to == Dtype::U8;
    switch (how) {
        case Quantization::None:
            return from == to && (from == Dtype::F32 || from == Dtype::I32);
        case Quantization::ToHalf:
            return from == Dtype::F32 && to == Dtype::F16;
        case Quantization::ToBfloat:
            return from == Dtype::F32 && to == Dtype::BF16;
        case Quantization::IntToHalf:
        case Quantization::IntToHalfByColumn:
            return from == Dtype::I32 && to == Dtype::F16;
        case Quantization::FloatToByte:
        case Quantization::FloatToByteByColumn:
            return from == Dtype::F32 && byte;
        case Quantization::IntToByte:
        case Quantization::IntToByteByColumn:
            return from == Dtype::I32 && byte;
    }
    return false;
}

// The fields of a quantisation parameter of this architecture.
struct Scale {
    float factor;  // 1 + 8 + 10 bits
    uint32_t shift;
    bool shifts;
    int32_t offset;  // 9 bits, signed
    bool is_signed;

    explicit Scale(uint64_t bits) {
        uint32_t word = uint32_t(bits) & ~0x1fffU;
        std::memcpy(&factor, &word, 4);
        shift = uint32_t(bits >> 32 & 15) + 1;
        shifts = bits >> 36 & 1;
        offset = int32_t(bits >> 37 & 511);
        if (offset >= 256) offset -= 512;
        is_signed = bits >> 46 & 1;
    }
};

float saturate(float value, float low, float high) {
    return value != value ? 0.0F : std::nearbyintf(std::clamp(value, low, high));
}

// One value of 4 bytes at `from` to its destination type at `to`.
void convert(uint8_t* to, const uint8_t* from, Dtype source, Quantization how, const Scale& scale,
             bool relu) {
    float value;
    int32_t integer;
    std::memcpy(&value, from, 4);
    std::memcpy(&integer, from, 4);
    uint16_t half;
    switch (how) {
        case Quantization::None:
            if (relu && source == Dtype::F32) value = value < 0 ? 0.0F : value;
            if (relu && source == Dtype::I32) integer = std::max(integer, 0);
            std::memcpy(to, source == Dtype::F32 ? static_cast<void*>(&value) : &integer, 4);
            return;
        case Quantization::ToHalf:
        case Quantization::ToBfloat:
            if (relu && value < 0) value = 0.0F;
            half = how == Quantization::ToHalf ? float_to_half(value) : float_to_bfloat16(value);
            if (saturates()) half = saturated(how == Quantization::ToHalf ? Dtype::F16 : Dtype::BF16, half);
            std::memcpy(to, &half, 2);
            return;
        default:
            break;
    }
    if (source == Dtype::I32) {
        if (scale.shifts) integer = std::clamp(integer >> scale.shift, -32768, 32767);
        value = static_cast<float>(integer);
    }
    value *= relu && value < 0 ? 0.0F : scale.factor;
    if (how == Quantization::IntToHalf || how == Quantization::IntToHalfByColumn) {
        half = float_to_half(value);
        if (saturates()) half = saturated(Dtype::F16, half);
        std::memcpy(to, &half, 2);
        return;
    }
    float byte = saturate(value, -256.0F, 255.0F) + static_cast<float>(scale.offset);
    *to = scale.is_signed ? uint8_t(int8_t(saturate(byte, -128.0F, 127.0F)))
                          : uint8_t(saturate(byte, 0.0F, 255.0F));
}

// `count` values of a row, without a scale.
void convert_row(uint8_t* to, const uint8_t* from, uint32_t count, Dtype source, Quantization how,
                 bool relu) {
    if (how == Quantization::None && !relu) {
        std::memcpy(to, from, size_t(count) * 4);
        return;
    }
    if (how == Quantization::None) {
        for (uint32_t e = 0; e < count; ++e) convert(to + e * 4, from + e * 4, source, how, Scale(0), relu);
        return;
    }
    for (uint32_t e = 0; e < count; ++e) {
        float value;
        std::memcpy(&value, from + e * 4, 4);
        if (relu && value < 0) value = 0.0F;
        const uint16_t bits = how == Quantization::ToHalf ? float_to_half(value) : float_to_bfloat16(value);
        std::memcpy(to + e * 2, &bits, 2);
    }
    saturate_results(how == Quantization::ToHalf ? Dtype::F16 : Dtype::BF16, to, count);
}

uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// Byte offset of an element in NZ of the destination: blocks of `width` columns, the last may be half as
// wide.
struct Nz {
    uint32_t size, width, columns, stride;

    uint64_t block(uint32_t column) const { return uint64_t(column / width) * stride * 32; }
    uint32_t width_of(uint32_t column) const {
        uint32_t left = columns - column / width * width;
        return width == 32 && left <= 16 ? 16 : width;
    }
    uint64_t at(uint32_t row, uint32_t column) const {
        return block(column) + (uint64_t(row) * width_of(column) + column % width) * size;
    }
};

uint8_t* place(const Global& dst) { return dst.address; }
uint8_t* place(const Local& dst) { return data(dst); }

void check_destination(Instruction& fix, const Local& dst, const Out& how) {
    fix.require(dst.space == Space::L1,
                "dst must be in GM or L1 (there is no way from L0C to UB on this chip)");
    fix.aligned(dst, 32, "dst");
    fix.require(!how.row_major, "the way from L0C to L1 keeps NZ: use CFG_NZ");
    fix.require(how.quantization != Quantization::None, "the way from L0C to L1 needs a quantPre");
}
void check_destination(Instruction&, const Global&, const Out&) {}

void set_address(Work& work, const Global& dst) {
    work.path = Path::L0cToGm;
    work.l2 = dst.l2;
    work.address = reinterpret_cast<uint64_t>(dst.address);
}
void set_address(Work& work, const Local&) { work.path = Path::L0cToL1; }

void wrote(Instruction& fix, const Local& dst, int64_t offset, uint64_t bytes, uint32_t count,
           int64_t stride) {
    fix.writes(dst, offset, bytes, count, stride);
}
void wrote(Instruction& fix, const Global& dst, int64_t offset, uint64_t bytes, uint32_t count,
           int64_t stride) {
    if (registers().atomic == Registers::Atomic::None) {
        fix.writes(dst, offset, bytes, count, stride);
    } else {
        fix.updates(dst, offset, bytes, count, stride);
    }
}

// What the destination gets where atomics are on: the sum, largest or smallest of old and new.
template <typename T, typename Read, typename Write>
void combine(uint8_t* to, const uint8_t* value, Read read, Write write) {
    T old, now;
    std::memcpy(&old, to, sizeof old);
    std::memcpy(&now, value, sizeof now);
    auto a = read(old), b = read(now);
    Registers::Atomic how = registers().atomic;
    T result = write(how == Registers::Atomic::Add   ? decltype(a)(a + b)
                     : how == Registers::Atomic::Max ? std::max(a, b)
                                                     : std::min(a, b));
    std::memcpy(to, &result, sizeof result);
}

void store(uint8_t* to, const uint8_t* value, Dtype dtype, bool atomic) {
    auto same = [](auto x) { return x; };
    if (!atomic) {
        std::memcpy(to, value, size_of(dtype));
    } else if (dtype == Dtype::F32) {
        combine<float>(to, value, same, same);
    } else if (dtype == Dtype::I32) {
        combine<int32_t>(to, value, same, same);
    } else if (dtype == Dtype::F16) {
        combine<uint16_t>(to, value, half_to_float, float_to_half);
    } else if (dtype == Dtype::BF16) {
        combine<uint16_t>(to, value, bfloat16_to_float, float_to_bfloat16);
    } else if (dtype == Dtype::I8) {
        combine<int8_t>(to, value, same, same);
    } else {
        combine<uint8_t>(to, value, same, same);
    }
}

bool atomic_on(const Global&) { return registers().atomic != Registers::Atomic::None; }
bool atomic_on(const Local&) { return false; }

template <typename Destination>
void run(const char* name, const Destination& dst, const Local& src, const Local* scales, const Out& how,
         Where where) {
    CubeState& state = cube_state();
    Instruction fix(Pipe::FIX, name, where);
    if (fix.skipped()) return;
    fix.lives_in(src, Space::L0C, "src");
    fix.aligned(src, 64, "src");
    fix.require(fits(how.quantization, src.dtype, dst.dtype),
                "quantPre, the type in L0C and the type of dst do not go together");
    fix.require(how.unit_flag == 0 || how.unit_flag == 2 || how.unit_flag == 3,
                "unitFlag must be 0, 2 or 3, not %u", how.unit_flag);
    check_destination(fix, dst, how);
    uint32_t size = size_of(dst.dtype);
    if (!how.m || !how.n || !how.matrices) return;
    fix.require(how.n <= 4095, "nSize must be at most 4095, not %u", how.n);
    if (how.row_major) {
        fix.require(how.m <= 8192, "mSize must be at most 8192, not %u", how.m);
        fix.require(!how.split_channels, "isChannelSplit is for the layout NZ");
        fix.require(how.src_matrix_stride <= 512, "srcNdStride must be at most 512, not %u",
                    how.src_matrix_stride);
    } else {
        uint32_t multiple = how.split_channels ? 8 : 16;
        fix.require(how.n % multiple == 0, "nSize must be a multiple of %u in the layout NZ, not %u",
                    multiple, how.n);
        fix.require(!how.split_channels || (dst.dtype == Dtype::F32 && how.unit_flag == 0),
                    "isChannelSplit is for float, without unitFlag");
    }
    fix.require(how.dst_stride != 0, "dstStride must not be 0");
    fix.require(how.src_stride >= how.m || how.n <= 16, "srcStride must be at least mSize (%u), not %u",
                how.m, how.src_stride);
    uint32_t matrices = how.row_major ? how.matrices : 1, blocks = ceil_div(how.n, 16);
    int64_t block_step = int64_t(how.src_stride) * 64, matrix_step = int64_t(how.src_matrix_stride) * 1024;
    Nz nz{size, how.split_channels ? 8U : size == 1 ? 32U : 16U, how.n, how.dst_stride};
    for (uint32_t i = 0; i < matrices; ++i) {
        // The last block counts as far as its columns go.
        uint32_t whole = how.n / 16, rest = how.n % 16;
        if (whole) fix.reads(src, i * matrix_step, uint64_t(how.m) * 64, whole, block_step);
        if (rest) fix.reads(src, i * matrix_step + whole * block_step, rest * 4, how.m, 64);
        if (how.row_major) {
            wrote(fix, dst, int64_t(i) * how.dst_matrix_stride * size, uint64_t(how.n) * size, how.m,
                  int64_t(how.dst_stride) * size);
        } else {
            for (uint32_t column = 0; column < how.n; column += nz.width)
                wrote(fix, dst, int64_t(nz.block(column)), uint64_t(how.m) * nz.width_of(column) * size, 1,
                      0);
        }
    }
    if (scales) fix.reads(*scales, 0, uint64_t(how.n) * 8, 1, 0, "quantPre");
    Work work = Work::transfer(Path::L0cToGm, how.m * matrices, how.n * size);
    work.m = how.m;
    work.n = how.n;
    work.dtype = uint8_t(dst.dtype);
    work.stride = int64_t(how.dst_stride) * size;
    if (!how.row_major) {
        work.repeats = ceil_div(how.n, nz.width);
        work.bytes = how.m * nz.width * size;
        work.stride = int64_t(how.dst_stride) * 32;
    }
    set_address(work, dst);
    work.unit_flag = how.unit_flag;
    fix.work(work);
    auto flags = [&](auto f) {
        if (!how.unit_flag || fix.skipped()) return;
        for (uint32_t block = 0; block < blocks; ++block)
            state.flags(src.offset + uint32_t(block * block_step), uint64_t(ceil_div(how.m, 16)) * 1024, f);
    };
    flags([&](CubeState::UnitFlag& flag, uint32_t at) {
        if (!flag.set)
            fail(Kind::Deadlock, where,
                 "[%s] src: Expected the unit flag of L0C byte %u to be set, given one that is clear: "
                 "Fixpipe waits for ever. The "
                 "last Mmad into it must have unitFlag 3.",
                 name, at);
        fix.after(Pipe::M, flag.mmad);
    });
    bool move = fix.issue();
    flags([&](CubeState::UnitFlag& flag, uint32_t) {
        flag.set = how.unit_flag == 2;
        flag.fixpipe = fix.clock();
    });
    if (!move) return;
    bool atomic = atomic_on(dst);
    if (how.row_major && !atomic && uint8_t(how.quantization) <= uint8_t(Quantization::ToBfloat)) {
        for (uint32_t i = 0; i < matrices; ++i)
            for (uint32_t row = 0; row < how.m; ++row)
                for (uint32_t block = 0; block < blocks; ++block)
                    convert_row(place(dst) + uint64_t(i) * how.dst_matrix_stride * size +
                                    (uint64_t(row) * how.dst_stride + block * 16) * size,
                                data(src) + i * matrix_step + block * block_step + size_t(row) * 64,
                                std::min(16U, how.n - block * 16), src.dtype, how.quantization, how.relu);
        return;
    }
    Scale scale(how.scalar);
    // The scales go to the fixpipe buffer first: what is written may lie where they were.
    std::vector<uint64_t> table(scales ? how.n : 0);
    if (scales) std::memcpy(table.data(), data(*scales), table.size() * 8);
    uint8_t value[4] = {};
    for (uint32_t i = 0; i < matrices; ++i)
        for (uint32_t block = 0; block < blocks; ++block)
            for (uint32_t row = 0; row < how.m; ++row) {
                uint32_t columns = std::min(16U, how.n - block * 16);
                const uint8_t* from = data(src) + i * matrix_step + block * block_step + size_t(row) * 64;
                for (uint32_t e = 0; e < columns; ++e) {
                    uint32_t column = block * 16 + e;
                    if (scales) scale = Scale(table[column]);
                    convert(value, from + e * 4, src.dtype, how.quantization, scale, how.relu);
                    uint64_t at = how.row_major ? uint64_t(i) * how.dst_matrix_stride * size +
                                                      (uint64_t(row) * how.dst_stride + column) * size
                                                : nz.at(row, column);
                    store(place(dst) + at, value, dst.dtype, atomic);
                }
            }
}

template <typename Destination>
void with_scales(const Destination& dst, const Local& src, const Local* scales, const Out& how, Where where) {
    if (by_column(how.quantization) && !scales)
        fail(Kind::Argument, where, "Fixpipe: this quantPre takes a tensor of scales, one for each column");
    if (scales && scales->space != Space::L1)
        fail(Kind::Position, where, "Fixpipe: the scales must be in L1 (C1)");
    run("Fixpipe", dst, src, by_column(how.quantization) ? scales : nullptr, how, where);
}

template <typename Destination>
void by_registers(const Destination& dst, const Local& src, Out how, Where where) {
    CubeState& state = cube_state();
    how.scalar = state.scalar;
    how.matrices = how.row_major ? state.matrices : 1;
    how.src_matrix_stride = state.src_matrix_stride;
    how.dst_matrix_stride = state.dst_matrix_stride;
    if (by_column(how.quantization) && !state.has_scales)
        fail(Kind::Argument, where,
             "DataCopy: SetFixPipeConfig has not said where the scales of the columns are");
    run("DataCopy", dst, src, by_column(how.quantization) ? &state.scales : nullptr, how, where);
}

}  // namespace

void fixpipe(const Global& dst, const Local& src, const Local* scales, const Out& how, Where where) {
    with_scales(dst, src, scales, how, where);
}
void fixpipe(const Local& dst, const Local& src, const Local* scales, const Out& how, Where where) {
    with_scales(dst, src, scales, how, where);
}
void copy_from_l0c(const Global& dst, const Local& src, Out how, Where where) {
    by_registers(dst, src, how, where);
}
void copy_from_l0c(const Local& dst, const Local& src, Out how, Where where) {
    by_registers(dst, src, how, where);
}

void set_fixpipe_scales(const Local& scales, bool clear_unit_flags, Where where) {
    CubeState& state = cube_state();
    if (clear_unit_flags) state.unit_flags.fill({});
    if (scales.space == Space::L0C) return;  // only to clear the unit flags
    if (scales.space != Space::FB)
        fail(Kind::Position, where, "SetFixPipeConfig: the tensor must be in the fixpipe buffer (C2PIPE2GM)");
    state.scales = scales;
    state.has_scales = true;
}
void set_fixpipe_scalar(uint64_t scalar) { cube_state().scalar = scalar; }
void set_fixpipe_matrices(uint32_t count, uint32_t src_stride, uint32_t dst_stride) {
    CubeState& state = cube_state();
    state.matrices = count;
    state.src_matrix_stride = src_stride;
    state.dst_matrix_stride = dst_stride;
}

}  // namespace sim
