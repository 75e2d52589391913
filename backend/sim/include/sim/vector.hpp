// The vector unit's instructions without types: what ascendc/vector_*.hpp call, compiled once.
//
// Numerics, in one place. Each result is the exact one rounded once, to nearest with ties to even, in the
// dtype of the destination. Where that is float16 or bfloat16, infinite results become the largest number and
// NaN becomes 0, sums in a reduction after each addition, unless bit 48 of the control register is set
// (SetCtrlSpr<48, 48>(1), SetSaturationFlag<SaturationMode::FLOAT>(false)): then they stay. Exp and Ln are
// computed in float64 to within a few units of its last place and then rounded: as good as correctly rounded.
// Sqrt, Rsqrt, Reciprocal, Div are correctly rounded. Multiply-add instructions (MulAddDst, Axpy,
// FusedMulAdd) round once. Integer arithmetic wraps. What public documents leave open is chosen so: Max, Min,
// Relu, LeakyRelu and the reductions give NaN where an operand is NaN (of two zeros Max takes +0, Min -0); a
// comparison with NaN is false but for NE; a float cast to an integer saturates and NaN gives 0; shifting by
// the width of the type or more gives 0, or the sign.
#pragma once

#include "core.hpp"

namespace sim {

// Which elements an instruction works on.
struct Lanes {
    enum class Form : uint8_t {
        Count,     // the first `low` elements, without repeats
        Prefix,    // the first `low` elements of each repeat; in counter mode the first `low` of all
        Bits,      // of each repeat those whose bit is set; in counter mode the first `low` of all
        Register,  // as SetVectorMask said
    };
    Form form = Form::Count;
    uint64_t low = 0;
    uint64_t high = 0;

    static Lanes count(int64_t elements) { return {Form::Count, static_cast<uint64_t>(elements), 0}; }
    static Lanes prefix(uint64_t elements) { return {Form::Prefix, elements, 0}; }
    static Lanes bits(const uint64_t mask[2]) { return {Form::Bits, mask[0], mask[1]}; }
    static Lanes from_register() { return {Form::Register, 0, 0}; }
};

// Between blocks of a repeat and between repeats, in blocks of 32 bytes.
struct Stride {
    uint32_t block = 1;
    uint32_t repeat = 8;
};

// Slots of Registers::vector.
enum VectorRegister : uint8_t {
    sum_register,
    extreme_register,
    index_register,
    merged_register,
    padding_register,
    padding_set_register,
    reserved_register
};

enum class Binary : uint8_t {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    And,
    Or,
    AddRelu,
    SubRelu,
    MulAddDst,
    FusedMulAdd,
    FusedMulAddRelu,
    AddDeqRelu,
    AddReluCast,
    SubReluCast,
    MulCast
};
enum class Unary : uint8_t { Exp, Ln, Abs, Reciprocal, Rsqrt, Sqrt, Relu, Not };
enum class Scalar : uint8_t {
    Adds,
    Muls,
    Maxs,
    Mins,
    LeakyRelu,
    ShiftLeft,
    ShiftRight,
    ShiftRightRound,
    Axpy
};
enum class Round : uint8_t { None, Rint, Floor, Ceil, Round, Trunc, Odd };
enum class Comparison : uint8_t { Less, Greater, Equal, LessEqual, GreaterEqual, NotEqual };
enum class Selection : uint8_t { CompareMask, TensorScalar, TensorTensor };
enum class Reduction : uint8_t { Sum, Max, Min };
enum class Order : uint8_t { ValueIndex, IndexValue, Value, Index };

// The bits of a scalar operand.
template <typename T>
uint64_t scalar_bits(const T& value) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

struct Call {
    const char* name;
    Lanes lanes;
    int64_t repeats;
    Where where;
};

void binary(const Call& call, Binary operation, const Local& dst, const Local& src0, const Local& src1,
            Stride dst_stride, Stride src0_stride, Stride src1_stride);
void unary(const Call& call, Unary operation, const Local& dst, const Local& src, Stride dst_stride,
           Stride src_stride);
void scalar(const Call& call, Scalar operation, const Local& dst, const Local& src, uint64_t value,
            Stride dst_stride, Stride src_stride);

// AddReluCast, SubReluCast, MulCast.
void binary_cast(const Call& call, Binary operation, const Local& dst, const Local& src0, const Local& src1,
                 Stride dst_stride, Stride src0_stride, Stride src1_stride);

void cast(const Call& call, const Local& dst, const Local& src, Round mode, Stride dst_stride,
          Stride src_stride);
// CastDeq of int16: `upper` half of each block of the destination; with parameters per lane or one for all.
void cast_quantised(const Call& call, const Local& dst, const Local& src, bool per_lane, bool upper,
                    Stride dst_stride, Stride src_stride);
uint64_t quantisation_bits(float scale, int16_t offset, bool sign);
void set_quantisation(const Local& table, const float scale[16], const int16_t offset[16],
                      const bool sign[16], Where where);

// The results of a repeat follow those of the one before, bit by bit.
void compare(const Call& call, Comparison mode, const Local& dst, const Local& src0, const Local& src1,
             Stride src0_stride, Stride src1_stride);
void compare_scalar(const Call& call, Comparison mode, const Local& dst, const Local& src0, uint64_t value,
                    Stride src0_stride);
// Into the compare mask.
void compare_to_mask(const Call& call, Comparison mode, const Local& src0, const Local& src1,
                     Stride src0_stride, Stride src1_stride);
void get_compare_mask(const Local& dst, Where where);
void set_compare_mask(const Local& src, Where where);
void select(const Call& call, Selection mode, const Local& dst, const Local& mask, const Local& src0,
            const Local& src1, Stride dst_stride, Stride src0_stride, Stride src1_stride);
void select_scalar(const Call& call, const Local& dst, const Local& mask, const Local& src0, uint64_t value,
                   Stride dst_stride, Stride src0_stride);
// Forms without a mask: the compare mask holds the bits (CompareMask), the scalar (TensorScalar: src1 are the
// bits) or the address of the bits (TensorTensor).
void select_register(const Call& call, Selection mode, const Local& dst, const Local& src0, const Local& src1,
                     Stride dst_stride, Stride src0_stride, Stride src1_stride);

void reduce_repeat(const Call& call, Reduction reduction, Order order, const Local& dst, const Local& src,
                   int32_t dst_repeat, int32_t src_block, int32_t src_repeat);
void reduce_block(const Call& call, Reduction reduction, const Local& dst, const Local& src,
                  int32_t dst_repeat, int32_t src_block, int32_t src_repeat);
void reduce_pair(const Call& call, const Local& dst, const Local& src, int32_t dst_repeat, int32_t src_block,
                 int32_t src_repeat);
void reduce_all(const Call& call, Reduction reduction, bool index, const Local& dst, const Local& src,
                const Local& scratch, int32_t src_repeat);

void duplicate(const Call& call, const Local& dst, uint64_t value, Stride dst_stride);
void vector_index(const Call& call, const Local& dst, uint64_t first, Stride dst_stride);
void broadcast_block(const Call& call, const Local& dst, const Local& src, Stride dst_stride);
void copy_lanes(const Call& call, const Local& dst, const Local& src, Stride dst_stride, Stride src_stride);
void gather(const Call& call, const Local& dst, const Local& src, const Local& offsets, uint32_t base,
            uint32_t dst_repeat);
void gather_blocks(const Call& call, const Local& dst, const Local& src, const Local& offsets,
                   Stride dst_stride);
struct GatherMaskShape {
    uint32_t src_block, src_repeat, pattern_repeat;
    bool counter;
    uint32_t mask;
};
uint64_t gather_mask(const Call& call, const Local& dst, const Local& src, const Local* pattern,
                     uint8_t fixed, const GatherMaskShape& shape);

void transpose_tile(const Call& call, const Local& dst, const Local& src);
struct ImageShape {
    uint32_t n, c, h, w;
    bool channels_last;  // whether the source is NHWC
};
void transpose_image(const Call& call, const Local& dst, const Local& src, const Local& scratch,
                     const ImageShape& shape);
struct FractalConversion {
    bool dst_high, src_high;
    uint32_t dst_repeat, src_repeat;
};
// The sixteen blocks' addresses as offsets in UB.
void transpose_blocks(const Call& call, Dtype dtype, const Local dst[16], const Local src[16],
                      const FractalConversion& conversion);
// A tensor that names the address in UB that the kernel took from GetPhyAddr.
Local block_at(uint64_t address, Dtype dtype, Where where);

// What an instruction left in a register, once the vector unit is done.
uint64_t vector_register(VectorRegister number, Where where);

void sort32(const Call& call, const Local& dst, const Local& scores, const Local& indices);
struct Merge {
    const uint16_t* lengths;
    bool stop_when_exhausted;
    uint32_t valid;
};
void merge_sorted(const Call& call, const Local& dst, const Local src[4], const Merge& merge);

}  // namespace sim
