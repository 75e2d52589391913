#include <cinttypes>

#include "narrow.hpp"
#include "saturation.hpp"
#include "vector_access.hpp"
#include "vector_loops.hpp"
#include "vector_rounding.hpp"

namespace sim {

namespace {

using CastLoop = void (*)(void* dst, const void* src, int64_t count);

template <typename To, typename From, typename F>
inline void convert(void* dst, const void* src, int64_t count, F f) {
    auto* to = static_cast<To*>(dst);
    const auto* from = static_cast<const From*>(src);
    if (sizeof(To) <= sizeof(From)) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) to[i] = f(from[i]);
    } else {
        for (int64_t i = 0; i < count; ++i) to[i] = f(from[i]);
    }
}

// Calls f(piece of the source as floats, index of its first element, elements).
template <typename F>
void from_half(const void* src, int64_t count, F f) {
    float wide[piece];
    const auto* from = static_cast<const uint16_t*>(src);
    for (int64_t start = 0; start < count; start += piece) {
        const int64_t n = std::min(count - start, piece);
        widen_half(wide, from + start, n);
        f(wide, start, n);
    }
}

template <Round mode>
void single_to_single(void* dst, const void* src, int64_t count) {
    convert<float, float>(dst, src, count, [](float x) { return round_integer<mode>(x); });
}
template <Round mode, typename T>
void single_to_integer(void* dst, const void* src, int64_t count) {
    convert<T, float>(dst, src, count, [](float x) { return saturate<T>(round_integer<mode>(x)); });
}
template <Round mode>
void single_to_half(void* dst, const void* src, int64_t count) {
    if (mode == Round::None || mode == Round::Rint)
        narrow_half(static_cast<uint16_t*>(dst), static_cast<const float*>(src), count);
    else
        convert<uint16_t, float>(dst, src, count, [](float x) { return round_half<mode>(x); });
}
template <Round mode>
void single_to_bfloat16(void* dst, const void* src, int64_t count) {
    convert<uint16_t, float>(dst, src, count, [](float x) { return round_bfloat16<mode>(x); });
}
template <Round mode, typename T>
void half_to_integer(void* dst, const void* src, int64_t count) {
    from_half(src, count, [dst](const float* wide, int64_t start, int64_t n) {
        single_to_integer<mode, T>(static_cast<T*>(dst) + start, wide, n);
    });
}
template <Round mode>
void half_to_int4(void* dst, const void* src, int64_t count) {
    auto* to = static_cast<uint8_t*>(dst);
    from_half(src, count, [to](const float* wide, int64_t start, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            const float whole = round_integer<mode>(wide[i]);
            const int value = whole >= 7 ? 7 : whole <= -8 ? -8 : saturate<int8_t>(whole);
            uint8_t& byte = to[(start + i) / 2];
            byte = static_cast<uint8_t>((start + i) % 2 == 0 ? (byte & 0xf0) | (value & 0xf)
                                                             : (byte & 0x0f) | (value & 0xf) << 4);
        }
    });
}
void half_to_single(void* dst, const void* src, int64_t count) {
    widen_half(static_cast<float*>(dst), static_cast<const uint16_t*>(src), count);
}
void bfloat16_to_single(void* dst, const void* src, int64_t count) {
    convert<float, uint16_t>(dst, src, count, [](uint16_t x) { return bits_as<float>(uint32_t{x} << 16); });
}
template <Round mode>
void bfloat16_to_i32(void* dst, const void* src, int64_t count) {
    convert<int32_t, uint16_t>(dst, src, count, [](uint16_t x) {
        return saturate<int32_t>(round_integer<mode>(bits_as<float>(uint32_t{x} << 16)));
    });
}
template <Round mode>
void i16_to_half(void* dst, const void* src, int64_t count) {
    convert<uint16_t, int16_t>(dst, src, count, [](int16_t x) { return round_half<mode>(x); });
}
template <typename From, typename To>
void integer_to_single(void* dst, const void* src, int64_t count) {
    convert<To, From>(dst, src, count, [](From x) { return static_cast<To>(x); });
}
template <typename From>
void byte_to_half(void* dst, const void* src, int64_t count) {
    convert<uint16_t, From>(dst, src, count, [](From x) { return float_to_half(x); });
}
void int4_to_half(void* dst, const void* src, int64_t count) {
    const auto* from = static_cast<const uint8_t*>(src);
    auto* to = static_cast<uint16_t*>(dst);
    for (int64_t i = 0; i < count; ++i) {
        const int nibble = from[i / 2] >> (i % 2 == 0 ? 0 : 4) & 0xf;
        to[i] = float_to_half(static_cast<float>(nibble >= 8 ? nibble - 16 : nibble));
    }
}
template <Round mode, typename From>
void integer_to_rounded_single(void* dst, const void* src, int64_t count) {
    convert<float, From>(dst, src, count, [](From x) { return round_single<mode>(x); });
}
template <typename To, typename From>
void integer_to_integer(void* dst, const void* src, int64_t count) {
    convert<To, From>(dst, src, count, [](From x) { return saturate_integer<To>(x); });
}
void dequantise(void* dst, const void* src, int64_t count) {
    const double scale = half_to_float(static_cast<uint16_t>(registers().quantisation));
    convert<uint16_t, int32_t>(dst, src, count,
                               [scale](int32_t x) { return float_to_half(to_odd(x * scale)); });
}

constexpr uint32_t set_of_modes(std::initializer_list<Round> modes) {
    uint32_t set = 0;
    for (Round mode : modes) set |= 1U << static_cast<int>(mode);
    return set;
}
constexpr uint32_t to_nearest_or_directed =
    set_of_modes({Round::Rint, Round::Floor, Round::Ceil, Round::Round, Round::Trunc});
constexpr uint32_t none = set_of_modes({Round::None});
constexpr uint32_t any_mode = 0x7fU;

// The modes that Cast takes from one dtype to another, none if it does not take the pair.
uint32_t cast_modes(Dtype dst, Dtype src) {
    switch (src) {
        case Dtype::I4:
        case Dtype::I8:
        case Dtype::U8:
            return dst == Dtype::F16 ? none : 0;
        case Dtype::I16:
            return dst == Dtype::F16 ? to_nearest_or_directed | none : dst == Dtype::F32 ? none : 0;
        case Dtype::F16:
            if (dst == Dtype::I4 || dst == Dtype::I8 || dst == Dtype::U8)
                return to_nearest_or_directed | none;
            if (dst == Dtype::I16 || dst == Dtype::I32) return to_nearest_or_directed;
            return dst == Dtype::F32 ? none : 0;
        case Dtype::BF16:
            return dst == Dtype::I32 ? to_nearest_or_directed : dst == Dtype::F32 ? none : 0;
        case Dtype::I32:
            if (dst == Dtype::I16 || dst == Dtype::I64) return none;
            if (dst == Dtype::F16) return any_mode;  // without effect: SetDeqScale says how
            return dst == Dtype::F32 ? to_nearest_or_directed | none : 0;
        case Dtype::F32:
            if (dst == Dtype::F16) return to_nearest_or_directed | none | set_of_modes({Round::Odd});
            return holds(set_of({Dtype::I16, Dtype::I32, Dtype::I64, Dtype::F32, Dtype::BF16}), dst)
                       ? to_nearest_or_directed
                       : 0;
        case Dtype::I64:
            return dst == Dtype::I32 ? none : dst == Dtype::F32 ? to_nearest_or_directed : 0;
        default:
            return 0;
    }
}

template <Round mode>
CastLoop cast_loop_in(Dtype dst, Dtype src) {
    switch (src) {
        case Dtype::I4:
            return int4_to_half;
        case Dtype::I8:
            return byte_to_half<int8_t>;
        case Dtype::U8:
            return byte_to_half<uint8_t>;
        case Dtype::I16:
            return dst == Dtype::F16 ? i16_to_half<mode> : integer_to_single<int16_t, float>;
        case Dtype::F16:
            switch (dst) {
                case Dtype::I4:
                    return half_to_int4<mode>;
                case Dtype::I8:
                    return half_to_integer<mode, int8_t>;
                case Dtype::U8:
                    return half_to_integer<mode, uint8_t>;
                case Dtype::I16:
                    return half_to_integer<mode, int16_t>;
                case Dtype::I32:
                    return half_to_integer<mode, int32_t>;
                default:
                    return half_to_single;
            }
        case Dtype::BF16:
            return dst == Dtype::I32 ? bfloat16_to_i32<mode> : bfloat16_to_single;
        case Dtype::I32:
            switch (dst) {
                case Dtype::I16:
                    return integer_to_integer<int16_t, int32_t>;
                case Dtype::I64:
                    return integer_to_single<int32_t, int64_t>;
                case Dtype::F16:
                    return dequantise;
                default:
                    if (mode == Round::Rint || mode == Round::None) return integer_to_single<int32_t, float>;
                    return integer_to_rounded_single<mode, int32_t>;
            }
        case Dtype::F32:
            switch (dst) {
                case Dtype::I16:
                    return single_to_integer<mode, int16_t>;
                case Dtype::I32:
                    return single_to_integer<mode, int32_t>;
                case Dtype::I64:
                    return single_to_integer<mode, int64_t>;
                case Dtype::F16:
                    return single_to_half<mode>;
                case Dtype::BF16:
                    return single_to_bfloat16<mode>;
                default:
                    return single_to_single<mode>;
            }
        default:
            return dst == Dtype::I32 ? integer_to_integer<int32_t, int64_t>
                                     : integer_to_rounded_single<mode, int64_t>;
    }
}

CastLoop cast_loop(Dtype dst, Dtype src, Round mode) {
    switch (mode) {
        case Round::None:
            return cast_loop_in<Round::None>(dst, src);
        case Round::Rint:
            return cast_loop_in<Round::Rint>(dst, src);
        case Round::Floor:
            return cast_loop_in<Round::Floor>(dst, src);
        case Round::Ceil:
            return cast_loop_in<Round::Ceil>(dst, src);
        case Round::Round:
            return cast_loop_in<Round::Round>(dst, src);
        case Round::Trunc:
            return cast_loop_in<Round::Trunc>(dst, src);
        case Round::Odd:
            return cast_loop_in<Round::Odd>(dst, src);
    }
    return nullptr;
}

const char* name_of_mode(Round mode) {
    constexpr const char* names[] = {"CAST_NONE",  "CAST_RINT",  "CAST_FLOOR", "CAST_CEIL",
                                     "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};
    return static_cast<size_t>(mode) < 7 ? names[static_cast<size_t>(mode)] : "CAST_HYBRID";
}

constexpr uint32_t any_dtype = ~uint32_t{0};

// int4 elements come in pairs.
void check_pairs(Instruction& instruction, const Extent& extent, Dtype dst, Dtype src) {
    if (dst != Dtype::I4 && src != Dtype::I4) return;
    if (extent.counted)
        return instruction.require(extent.count % 2 == 0, "Expected an even count for int4, given %" PRId64,
                                   extent.count);
    constexpr uint64_t even = 0x5555555555555555U;
    for (uint64_t word : {extent.mask[0], extent.mask[1], extent.last[0], extent.last[1]})
        instruction.require(
            (word & even) == (word >> 1 & even),
            "Expected a mask that takes both elements of a byte of int4 or none, given 0x%" PRIx64, word);
}

}  // namespace

void cast(const Call& call, const Local& dst, const Local& src, Round mode, Stride dst_stride,
          Stride src_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const uint32_t widest = std::max({size_of(dst.dtype), size_of(src.dtype), 2U});
    const Extent extent = extent_of(instruction, call, lanes_of(widest));
    const Access all[2] = {{dst, "dst", dst_stride}, {src, "src", src_stride}};
    if (!cost_only()) {
        const uint32_t modes = cast_modes(dst.dtype, src.dtype);
        instruction.takes(modes != 0, src.dtype, "src");
        instruction.require(modes >> static_cast<int>(mode) & 1U,
                            "Expected a roundMode that this pair of dtypes has (see Cast's table), given %s",
                            name_of_mode(mode));
        check(instruction, dst, "dst", any_dtype);
        check(instruction, src, "src", any_dtype);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        check_pairs(instruction, extent, dst.dtype, src.dtype);
        check_overlap(instruction, all[0], all[1], extent);
        declare(instruction, all[1], extent, Touch::Read);
        declare(instruction, all[0], extent, Touch::Write);
    }
    if (extent.nothing() || !launch(instruction, extent, widest, src.dtype)) return;
    const CastLoop loop = cast_loop(dst.dtype, src.dtype, mode);
    walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
        loop(data(dst) + offset[0], data(src) + offset[1], count);
        saturate_results(dst.dtype, data(dst) + offset[0], count);
    });
}

void binary_cast(const Call& call, Binary operation, const Local& dst, const Local& src0, const Local& src1,
                 Stride dst_stride, Stride src0_stride, Stride src1_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const bool product = operation == Binary::MulCast;
    const Binary first = product                            ? Binary::Mul
                         : operation == Binary::AddReluCast ? Binary::AddRelu
                                                            : Binary::SubRelu;
    const uint32_t size = size_of(src0.dtype);
    const Extent extent = extent_of(instruction, call, lanes_of(size));
    const Access all[3] = {
        {dst, "dst", dst_stride}, {src0, "src0", src0_stride}, {src1, "src1", src1_stride}};
    if (!cost_only()) {
        const bool taken =
            src0.dtype == src1.dtype &&
            (product ? src0.dtype == Dtype::F16 && (dst.dtype == Dtype::I8 || dst.dtype == Dtype::U8)
                     : (src0.dtype == Dtype::F16 && dst.dtype == Dtype::I8) ||
                           (src0.dtype == Dtype::I16 && dst.dtype == Dtype::I8) ||
                           (src0.dtype == Dtype::F32 && dst.dtype == Dtype::F16));
        instruction.takes(taken, src0.dtype, "src0");
        check(instruction, dst, "dst", any_dtype);
        check(instruction, src0, "src0", any_dtype);
        check(instruction, src1, "src1", any_dtype);
        if (!extent.counted) check_block_stride(instruction, dst_stride);
        check_overlap(instruction, all[0], all[1], extent);
        check_overlap(instruction, all[0], all[2], extent);
        declare(instruction, all[1], extent, Touch::Read);
        declare(instruction, all[2], extent, Touch::Read);
        declare(instruction, all[0], extent, Touch::Write);
    }
    if (extent.nothing() || !launch(instruction, extent, size, src0.dtype)) return;
    const Loop loop = binary_loop(first, src0.dtype, src0.dtype);
    const CastLoop narrowing = src0.dtype == Dtype::I16 ? integer_to_integer<int8_t, int16_t>
                                                        : cast_loop(dst.dtype, src0.dtype, Round::Rint);
    alignas(8) uint8_t result[piece * 4];
    walk(extent, all, [&](int64_t, uint32_t, int64_t count, const int64_t* offset) {
        for (int64_t start = 0; start < count; start += piece) {
            const int64_t n = std::min(count - start, piece);
            loop({result, data(src0) + offset[1] + start * size, data(src1) + offset[2] + start * size, 0},
                 n);
            uint8_t* narrow = data(dst) + offset[0] + start * size_of(dst.dtype);
            narrowing(narrow, result, n);
            saturate_results(dst.dtype, narrow, n);
        }
    });
}

void set_quantisation(const Local& table, const float scale[16], const int16_t offset[16],
                      const bool sign[16], Where where) {
    for (uint32_t lane = 0; lane < 16; ++lane) {
        const uint64_t bits = quantisation_bits(scale[lane], offset[lane], sign[lane]);
        store(table, lane * 8, &bits, 8, where);
    }
    registers().quantisation = table.offset;
}

uint64_t quantisation_bits(float scale, int16_t offset, bool sign) {
    return bits_as<uint32_t>(scale) | (static_cast<uint64_t>(offset) & 0x1ffU) << 37 | uint64_t{sign} << 46;
}

void cast_quantised(const Call& call, const Local& dst, const Local& src, bool per_lane, bool upper,
                    Stride dst_stride, Stride src_stride) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const Extent extent = extent_of(instruction, call, 128);
    // Sixteen elements of int16 become sixteen bytes: half of a block of the destination.
    Local half_blocks = dst;
    half_blocks.dtype = Dtype::I16;
    const Access to(half_blocks, "dst", dst_stride), from(src, "src", src_stride);
    const Local table{Space::UB,  dst.position,
                      Dtype::U64, static_cast<uint32_t>(registers().quantisation) & 0x3ffffU,
                      128,        -1};
    Extent whole = extent;
    if (whole.counted) {  // as repeats: the blocks of the two differ
        whole.counted = false;
        whole.repeats = (extent.count + 127) / 128;
        const auto last = extent.count == 0 ? 0 : (extent.count - 1) % 128 + 1;
        whole.mask[0] = whole.mask[1] = ~uint64_t{0};
        whole.last[0] = last >= 64 ? ~uint64_t{0} : (uint64_t{1} << last) - 1;
        whole.last[1] = last >= 128 ? ~uint64_t{0} : last > 64 ? (uint64_t{1} << (last - 64)) - 1 : 0;
    }
    if (!cost_only()) {
        instruction.takes(src.dtype == Dtype::I16 && (dst.dtype == Dtype::I8 || dst.dtype == Dtype::U8),
                          src.dtype, "src");
        check(instruction, dst, "dst", any_dtype);
        check(instruction, src, "src", any_dtype);
        declare(instruction, from, whole, Touch::Read);
        if (per_lane) instruction.reads(table, 0, 128, 1, 0, "the table of SetDeqScale");
        // Exactly the half blocks, one repeat after another.
        for (int64_t repeat = 0; repeat < whole.repeats; ++repeat)
            for_each_run(
                repeat + 1 == whole.repeats ? whole.last : whole.mask, 128, [&](uint32_t first, uint32_t n) {
                    for (uint32_t lane = first; lane < first + n;) {
                        const uint32_t part = std::min(first + n - lane, 16 - lane % 16);
                        instruction.writes(dst, to.at(repeat, lane / 16 * 16) + (upper ? 16 : 0) + lane % 16,
                                           part, 1, 0, "dst");
                        lane += part;
                    }
                });
    }
    if (extent.nothing() || !launch(instruction, extent, 2, src.dtype)) return;
    for (int64_t repeat = 0; repeat < whole.repeats; ++repeat)
        for_each_run(
            repeat + 1 == whole.repeats ? whole.last : whole.mask, 128, [&](uint32_t first, uint32_t n) {
                for (uint32_t lane = first; lane < first + n; ++lane) {
                    uint64_t parameters = registers().quantisation;
                    if (per_lane) std::memcpy(&parameters, data(table) + lane % 16 * 8, 8);
                    // The unit looks at ten bits of the scale's fraction.
                    const auto scale = bits_as<float>(static_cast<uint32_t>(parameters) & 0xffffe000U);
                    const int field = static_cast<int>(parameters >> 37 & 0x1ffU);
                    const int offset = field >= 256 ? field - 512 : field;
                    int16_t x;
                    std::memcpy(&x, data(src) + from.at(repeat, lane), 2);
                    const float y = round_integer<Round::Rint>(static_cast<float>(x) * scale +
                                                               static_cast<float>(offset));
                    const uint8_t byte = parameters >> 46 & 1U ? static_cast<uint8_t>(saturate<int8_t>(y))
                                                               : saturate<uint8_t>(y);
                    data(dst)[to.at(repeat, lane / 16 * 16) + (upper ? 16 : 0) + lane % 16] = byte;
                }
            });
}

}  // namespace sim
