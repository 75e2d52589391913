// Instructions of the cube core without their types: what the shells in cube.hpp call.
//
// Layouts. A fractal is 512 bytes: 16 rows of one 32-byte block (C0 elements). L1 holds a matrix in NZ:
// blocks of C0 columns, one after another, each with all rows. L0A holds A in Zz (fractals row by row of the
// matrix), L0B holds B in Zn (fractals of 16 columns × C0 rows, one k-block after another), L0C holds C in NZ
// with blocks of 16 columns of 4 bytes.
#pragma once

#include <cstdint>

#include "../sim/core.hpp"

namespace sim {

struct NdToNz {
    uint32_t matrices, rows, columns;  // columns and the source's pitches in elements
    uint32_t matrix_stride, pitch;
    uint32_t block_stride, row_stride, nz_matrix_stride;  // 32 bytes, 32 bytes, elements
};

struct Load2d {
    uint32_t start, repeats, src_stride, dst_gap;  // fractals
    bool transpose, descending;
};

struct Load2dTranspose {
    uint32_t start, repeats, src_stride;  // squares
    uint32_t dst_gap, dst_fractal_gap;    // fractals
    bool descending;
};

struct FeatureMap {
    uint32_t height = 0, width = 0;
    uint8_t pad[4] = {0, 0, 0, 0};  // left, right, top, bottom
};

struct Load3d {
    uint32_t channels, k_extension, m_extension, k_start, m_start;
    uint32_t stride_w, stride_h, filter_w, filter_h, dilation_w, dilation_h;
    bool transpose, right_map;
};

struct Filling {
    uint32_t repeats, blocks, gap;
    uint32_t bits;  // of one element
};

struct Multiply {
    uint32_t m, n, k;
    uint8_t unit_flag;
    bool k_aligned, from_bias_table, zeroed;
};

// What Fixpipe does to a value on its way.
enum class Quantization : uint8_t {
    None,
    ToHalf,
    ToBfloat,
    IntToHalf,
    IntToHalfByColumn,
    FloatToByte,
    FloatToByteByColumn,
    IntToByte,
    IntToByteByColumn
};

struct Out {
    uint32_t n, m, src_stride, dst_stride;
    Quantization quantization;
    uint64_t scalar;
    uint32_t matrices, src_matrix_stride, dst_matrix_stride;
    bool relu, row_major, split_channels;
    uint8_t unit_flag;
};

void nd_to_nz(const Local& dst, const Global& src, const NdToNz& how, Where where);

void load_2d(const Local& dst, const Local& src, const Load2d& how, Where where);
void load_2d(const Local& dst, const Global& src, const Load2d& how, Where where);
void load_2d_transposed(const Local& dst, const Local& src, const Load2dTranspose& how, Where where);

// `map` and `padding` where the call sets them itself; otherwise what set_feature_map and set_padding said.
void load_3d(const Local& dst, const Local& src, const Load3d& how, const FeatureMap* map,
             const uint32_t* padding, Where where);
void set_feature_map(const FeatureMap& map, bool right);
void set_padding(uint32_t bits);
void set_load_3d_repeat(uint32_t stride, uint32_t times, uint32_t mode);

void fill(const Local& dst, const Filling& how, Where where);

void mmad(const Local& c, const Local& a, const Local& b, const Local* bias, const Multiply& how,
          Where where);
void set_hf32(bool on);
void set_hf32_rounding(bool to_even);

// `scales`: one for each column, in L1 or in the fixpipe buffer.
void fixpipe(const Global& dst, const Local& src, const Local* scales, const Out& how, Where where);
void fixpipe(const Local& dst, const Local& src, const Local* scales, const Out& how, Where where);
// What the copies from L0C (DataCopy) take from registers.
void set_fixpipe_scales(const Local& scales, bool clear_unit_flags, Where where);
void set_fixpipe_scalar(uint64_t scalar);
void set_fixpipe_matrices(uint32_t count, uint32_t src_stride, uint32_t dst_stride);
void copy_from_l0c(const Global& dst, const Local& src, Out how, Where where);
void copy_from_l0c(const Local& dst, const Local& src, Out how, Where where);

// Copies that only the cube core has: `count` pieces of `length`, gaps between them, in the units of the way.
void copy_l1_to_bias_table(const Local& dst, const Local& src, uint32_t count, uint32_t length,
                           uint32_t src_gap, uint32_t dst_gap, Where where);
void copy_l1_to_fixpipe_buffer(const Local& dst, const Local& src, uint32_t count, uint32_t length,
                               uint32_t src_gap, uint32_t dst_gap, Where where);

}  // namespace sim
