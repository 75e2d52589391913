// Copies between GM, UB and L1 without types: what ascendc/data_copy.hpp calls.
#pragma once

#include "core.hpp"

namespace sim {

// `count` pieces of `bytes`; the gaps are what lies between the end of one and the start of the next, in
// bytes.
struct Pieces {
    uint32_t count;
    uint64_t bytes;
    int64_t src_gap, dst_gap;
};

// DataCopy, of whole blocks of 32 bytes in local memory.
void copy(const char* name, const Local& dst, const Global& src, const Pieces& pieces, Where where);
void copy(const char* name, const Global& dst, const Local& src, const Pieces& pieces, Where where);
void copy(const char* name, const Local& dst, const Local& src, const Pieces& pieces, Where where);
// DataCopy of a number of elements.
void copy_count(const Local& dst, const Global& src, uint32_t count, Where where);
void copy_count(const Global& dst, const Local& src, uint32_t count, Where where);
void copy_count(const Local& dst, const Local& src, uint32_t count, Where where);
// DataCopyParams: lengths and gaps in the units of the way, 32 bytes but for those of the cube core.
struct Blocks {
    uint32_t count, length, src_gap, dst_gap;
};
void copy_blocks(const Local& dst, const Global& src, const Blocks& blocks, Where where);
void copy_blocks(const Global& dst, const Local& src, const Blocks& blocks, Where where);
void copy_blocks(const Local& dst, const Local& src, const Blocks& blocks, Where where);

// DataCopyPad. `is_pad`, `left` and `right` (elements) and the value's bits as the parameters have them.
struct Padding {
    bool is_pad;
    uint32_t left, right;
    uint64_t value;
};
// Gaps: of GM in bytes, of UB in blocks.
void copy_padded(const Local& dst, const Global& src, const Blocks& blocks, const Padding& padding,
                 Where where);
void copy_padded(const Global& dst, const Local& src, const Blocks& blocks, Where where);
void set_padding_value(uint64_t bits);

// One axis of a slice, in elements but for `burst` (blocks of 32 bytes).
struct Slice {
    uint32_t start, end, stride, burst, shape;
};
void copy_slices(const Local& dst, const Global& src, const Slice* dst_slices, const Slice* src_slices,
                 uint32_t dimensions, Where where);
void copy_slices(const Global& dst, const Local& src, const Slice* dst_slices, const Slice* src_slices,
                 uint32_t dimensions, Where where);

// InitOutput: `count` elements of GM become one value.
void fill_output(const Global& dst, uint64_t count, uint64_t value, Where where);

}  // namespace sim
