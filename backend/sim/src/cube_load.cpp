// Ways into L1, L0A, L0B, the bias table and the fixpipe buffer.
#include <algorithm>
#include <cstring>

#include "ascendc/cube_instructions.hpp"
#include "ascendc/types.hpp"
#include "cube_state.hpp"
#include "engine.hpp"

namespace sim {

CubeState& cube_state() { return current->cube; }

Local overhanging(const Local& tensor) {
    Local result = tensor;
    const uint32_t capacity = current->launch->capacities.bytes[static_cast<int>(tensor.space)];
    if (tensor.buffer < 0 && tensor.offset < capacity) result.bytes = capacity - tensor.offset;
    return result;
}

namespace {

constexpr uint32_t kBlock = 32;
constexpr uint32_t kFractal = 512;

// Elements of a 32-byte block.
uint32_t c0_of(Dtype dtype) { return dtype == Dtype::I4 ? 64 : kBlock / size_of(dtype); }

Path path_to(Space space) { return space == Space::L0A ? Path::L1ToL0a : Path::L1ToL0b; }

bool is_l0(const Local& tensor) { return tensor.space == Space::L0A || tensor.space == Space::L0B; }

// An L0 operand as the destination of a load from L1.
void check_load(Instruction& load, const Local& dst, const Local& src) {
    load.require(is_l0(dst), "dst must be in A2 or B2");
    load.lives_in(src, Space::L1, "src");
    load.aligned(dst, kFractal, "dst");
    load.aligned(src, kBlock, "src");
}

template <typename T>
void transpose_square(uint8_t* to, const uint8_t* from, uint32_t side) {
    auto* out = reinterpret_cast<T*>(to);
    auto* in = reinterpret_cast<const T*>(from);
    for (uint32_t i = 0; i < side; ++i)
        for (uint32_t j = 0; j < side; ++j) out[j * side + i] = in[i * side + j];
}

// A block of 32 bytes down a column of a fractal.
template <typename T>
void scatter(uint8_t* to, const uint8_t* line) {
    for (uint32_t e = 0; e < kBlock / sizeof(T); ++e)
        std::memcpy(to + e * kBlock, line + e * sizeof(T), sizeof(T));
}

}  // namespace

void nd_to_nz(const Local& dst, const Global& src, const NdToNz& how, Where where) {
    Instruction copy(Pipe::MTE2, "DataCopy", where);
    copy.lives_in(dst, Space::L1, "dst");
    copy.aligned(dst, kBlock, "dst");
    // int4 goes in pairs: the parameters count bytes.
    uint32_t size = size_of(src.dtype), block_stride = how.block_stride * kBlock;
    copy.require(size <= 4, "DataCopy with Nd2NzParams takes types of 8, 16 and 32 bits");
    copy.require(how.matrices <= 4095, "ndNum must be at most 4095, not %u", how.matrices);
    copy.require(how.rows <= 16384, "nValue must be at most 16384, not %u", how.rows);
    copy.require(how.block_stride <= 16384, "dstNzC0Stride must be at most 16384, not %u", how.block_stride);
    copy.require(how.row_stride <= 16384, "dstNzNStride must be at most 16384, not %u", how.row_stride);
    if (how.matrices == 0 || how.rows == 0 || how.columns == 0) return;
    copy.require(how.pitch >= 1, "srcDValue must be at least 1");
    copy.require(how.block_stride >= 1 && how.row_stride >= 1,
                 "dstNzC0Stride and dstNzNStride must be at least 1");
    uint32_t c0 = kBlock / size, blocks = (how.columns + c0 - 1) / c0, row_bytes = how.columns * size;
    for (uint32_t i = 0; i < how.matrices; ++i) {
        int64_t from = int64_t(i) * how.matrix_stride * size, to = int64_t(i) * how.nz_matrix_stride * size;
        copy.reads(src, from, row_bytes, how.rows, int64_t(how.pitch) * size);
        if (how.row_stride == 1) {
            copy.writes(dst, to, uint64_t(how.rows) * kBlock, blocks, block_stride);
        } else {
            for (uint32_t j = 0; j < blocks; ++j)
                copy.writes(dst, to + int64_t(j) * block_stride, kBlock, how.rows, how.row_stride * kBlock);
        }
    }
    Work work = Work::transfer(Path::GmToL1, how.rows * how.matrices, row_bytes);
    work.dtype = uint8_t(src.dtype);
    work.l2 = src.l2;
    work.address = reinterpret_cast<uint64_t>(src.address);
    work.stride = int64_t(how.pitch) * size;
    copy.work(work);
    if (!copy.issue()) return;
    for (uint32_t i = 0; i < how.matrices; ++i) {
        const uint8_t* from = src.address + size_t(i) * how.matrix_stride * size;
        uint8_t* to = data(dst) + size_t(i) * how.nz_matrix_stride * size;
        for (uint32_t row = 0; row < how.rows; ++row) {
            const uint8_t* line = from + size_t(row) * how.pitch * size;
            uint8_t* place = to + size_t(row) * how.row_stride * kBlock;
            uint32_t whole = row_bytes / kBlock, rest = row_bytes % kBlock;
            for (uint32_t j = 0; j < whole; ++j)
                std::memcpy(place + size_t(j) * block_stride, line + size_t(j) * kBlock, kBlock);
            if (rest) {
                uint8_t* last = place + size_t(whole) * block_stride;
                std::memcpy(last, line + size_t(whole) * kBlock, rest);
                std::memset(last + rest, 0, kBlock - rest);
            }
        }
    }
}

void load_2d(const Local& dst, const Local& src, const Load2d& how, Where where) {
    Instruction load(Pipe::MTE1, "LoadData", where);
    check_load(load, dst, src);
    load.takes(size_of(src.dtype) <= 4, src.dtype, "src");
    load.require(!how.transpose || size_of(src.dtype) == 2, "ifTranspose takes types of 16 bits only");
    if (how.repeats == 0) return;
    int64_t step = int64_t(how.src_stride) * kFractal * (how.descending ? -1 : 1);
    int64_t start = int64_t(how.start) * kFractal, dst_step = int64_t(how.dst_gap + 1) * kFractal;
    if (how.transpose) {
        load.reads_any(src, start, kFractal, how.repeats, step);
        load.writes(dst, 0, kFractal, how.repeats, dst_step);
    } else {
        load.copies(dst, 0, dst_step, src, start, step, kFractal, how.repeats);
    }
    Work work = Work::transfer(path_to(dst.space), how.repeats, kFractal);
    work.dtype = uint8_t(src.dtype);
    load.work(work);
    if (!load.issue()) return;
    for (uint32_t i = 0; i < how.repeats; ++i) {
        const uint8_t* from = data(src) + int64_t(how.start) * kFractal + i * step;
        uint8_t* to = data(dst) + size_t(i) * (how.dst_gap + 1) * kFractal;
        if (how.transpose) {
            transpose_square<uint16_t>(to, from, 16);
        } else {
            std::memcpy(to, from, kFractal);
        }
    }
}

void load_2d(const Local& dst, const Global& src, const Load2d& how, Where where) {
    Instruction load(Pipe::MTE2, "LoadData", where);
    load.require(is_l0(dst) || dst.space == Space::L1, "dst must be in A1, B1, A2 or B2");
    load.aligned(dst, dst.space == Space::L1 ? kBlock : kFractal, "dst");
    load.takes(size_of(src.dtype) <= 4 && src.dtype != Dtype::I4, src.dtype, "src");
    load.require(!how.transpose, "ifTranspose is for loads from L1");
    if (how.repeats == 0) return;
    int64_t step = int64_t(how.src_stride) * kFractal * (how.descending ? -1 : 1);
    load.reads(src, int64_t(how.start) * kFractal, kFractal, how.repeats, step);
    load.writes(dst, 0, kFractal, how.repeats, int64_t(how.dst_gap + 1) * kFractal);
    Path path = dst.space == Space::L1    ? Path::GmToL1
                : dst.space == Space::L0A ? Path::GmToL0a
                                          : Path::GmToL0b;
    Work work = Work::transfer(path, how.repeats, kFractal);
    work.dtype = uint8_t(src.dtype);
    work.l2 = src.l2;
    work.address = reinterpret_cast<uint64_t>(src.address) + size_t(how.start) * kFractal;
    work.stride = step;
    load.work(work);
    if (!load.issue()) return;
    for (uint32_t i = 0; i < how.repeats; ++i)
        std::memcpy(data(dst) + size_t(i) * (how.dst_gap + 1) * kFractal,
                    src.address + int64_t(how.start) * kFractal + i * step, kFractal);
}

void load_2d_transposed(const Local& dst, const Local& src, const Load2dTranspose& how, Where where) {
    Instruction load(Pipe::MTE1, "LoadDataWithTranspose", where);
    check_load(load, dst, src);
    load.takes(size_of(src.dtype) <= 4, src.dtype, "src");
    load.require(src.dtype != Dtype::I4 || dst.space == Space::L0B, "int4 goes to B2 only");
    if (how.repeats == 0) return;
    // A square: fractals that follow each other, below each other for 4 and 8 bits, beside each other for 32.
    uint32_t fractals = src.dtype == Dtype::I4 ? 4 : size_of(src.dtype) == 2 ? 1 : 2;
    int64_t step = int64_t(how.src_stride) * fractals * kFractal * (how.descending ? -1 : 1);
    int64_t start = int64_t(how.start) * fractals * kFractal;
    int64_t dst_step = int64_t(how.dst_gap + 1) * kFractal,
            within = int64_t(how.dst_fractal_gap + 1) * kFractal;
    load.reads_any(src, start, uint64_t(fractals) * kFractal, how.repeats, step);
    for (uint32_t j = 0; j < fractals; ++j) load.writes(dst, j * within, kFractal, how.repeats, dst_step);
    Work work = Work::transfer(path_to(dst.space), how.repeats * fractals, kFractal);
    work.dtype = uint8_t(src.dtype);
    load.work(work);
    if (!load.issue()) return;
    for (uint32_t i = 0; i < how.repeats; ++i) {
        const uint8_t* from = data(src) + start + i * step;
        uint8_t* to = data(dst) + i * dst_step;
        alignas(32) uint8_t square[4 * kFractal] = {};
        if (src.dtype == Dtype::I4) {
            for (uint32_t r = 0; r < 64; ++r)
                for (uint32_t c = 0; c < 64; ++c) {
                    uint8_t value = from[(r * 64 + c) / 2] >> (c % 2 * 4) & 15;
                    square[(c * 64 + r) / 2] |= uint8_t(value << (r % 2 * 4));
                }
        } else if (size_of(src.dtype) == 1) {
            transpose_square<uint8_t>(square, from, 32);
        } else if (size_of(src.dtype) == 2) {
            transpose_square<uint16_t>(square, from, 16);
        } else {
            auto* in = reinterpret_cast<const uint32_t*>(from);
            auto* out = reinterpret_cast<uint32_t*>(square);
            for (uint32_t r = 0; r < 16; ++r)      // of the source square: two fractals of 8 columns
                for (uint32_t c = 0; c < 16; ++c)  // of the result: row c, column r
                    out[r / 8 * 128 + c * 8 + r % 8] = in[c / 8 * 128 + r * 8 + c % 8];
        }
        for (uint32_t j = 0; j < fractals; ++j) std::memcpy(to + j * within, square + j * kFractal, kFractal);
    }
}

void set_feature_map(const FeatureMap& map, bool right) { cube_state().maps[right] = map; }
void set_padding(uint32_t bits) { cube_state().padding = bits; }
void set_load_3d_repeat(uint32_t stride, uint32_t times, uint32_t mode) {
    cube_state().repeat_stride = stride;
    cube_state().repeat_times = times;
    cube_state().repeat_mode = mode;
}

namespace {

// The matrix that LoadData 3D unfolds: a row for each position of the filter, a column for each channel of
// each of the filter's points, channels in blocks of C0.
class Unfolded {
  public:
    Unfolded(const Load3d& how, const FeatureMap& map, Dtype dtype)
        : how_(how), map_(map), size_(size_of(dtype)) {
        c0_ = kBlock / size_;
        points_ = how.filter_w * how.filter_h;
        int64_t inner_w =
            int64_t(map.width) + map.pad[0] + map.pad[1] - int64_t(how.filter_w - 1) * how.dilation_w - 1;
        int64_t inner_h =
            int64_t(map.height) + map.pad[2] + map.pad[3] - int64_t(how.filter_h - 1) * how.dilation_h - 1;
        out_w_ = inner_w < 0 ? 0 : inner_w / how.stride_w + 1;
        out_h_ = inner_h < 0 ? 0 : inner_h / how.stride_h + 1;
    }

    int64_t rows() const { return out_w_ * out_h_; }
    bool plain() const {  // the matrix is the feature map itself
        return points_ == 1 && how_.stride_w == 1 && how_.stride_h == 1 && !map_.pad[0] && !map_.pad[1] &&
               !map_.pad[2] && !map_.pad[3];
    }
    // Byte offset in L1 of 32 bytes of the matrix: `row`, columns block·C0 …; -1 where the filter hangs over
    // the border.
    int64_t offset(int64_t row, uint32_t block) const {
        uint32_t point = block % points_, channel_block = block / points_;
        int64_t h =
            row / out_w_ * how_.stride_h + int64_t(point / how_.filter_w) * how_.dilation_h - map_.pad[2];
        int64_t w =
            row % out_w_ * how_.stride_w + int64_t(point % how_.filter_w) * how_.dilation_w - map_.pad[0];
        if (h < 0 || w < 0 || h >= map_.height || w >= map_.width) return -1;
        return ((int64_t(channel_block) * map_.height + h) * map_.width + w) * kBlock;
    }

  private:
    const Load3d& how_;
    const FeatureMap& map_;
    uint32_t size_, c0_, points_;
    int64_t out_w_, out_h_;
};

}  // namespace

void load_3d(const Local& target, const Local& src, const Load3d& how, const FeatureMap* given,
             const uint32_t* given_padding, Where where) {
    const Local dst = overhanging(target);
    CubeState& state = cube_state();
    if (given) state.maps[how.right_map] = *given;
    if (given_padding) state.padding = *given_padding;
    const FeatureMap& map = state.maps[how.right_map];
    Instruction load(Pipe::MTE1, "LoadData", where);
    check_load(load, dst, src);
    uint32_t size = size_of(src.dtype), c0 = c0_of(src.dtype);
    bool right = dst.space == Space::L0B, transposed = right || how.transpose;
    load.takes(size <= 4, src.dtype, "src");
    load.takes(!right || size == 2 || size == 4, src.dtype, "dst in B2");
    load.require(!how.transpose || right || size >= 2, "enTranspose takes types of 16 and 32 bits");
    load.require(map.height <= 32767 && map.width <= 32767,
                 "l1H and l1W must be at most 32767, not %u and %u", map.height, map.width);
    load.require(how.stride_w <= 63 && how.stride_h <= 63, "strideW and strideH must be at most 63");
    if (!map.height || !map.width || !how.channels || !how.k_extension || !how.m_extension || !how.filter_w ||
        !how.filter_h)
        return;
    load.require(
        how.channels % c0 == 0,
        "channelSize must be a multiple of %u here (smaller groups of channels are not simulated), not %u",
        c0, how.channels);
    load.require(how.k_start % c0 == 0, "kStartPt must be a multiple of %u, not %u", c0, how.k_start);
    load.require(state.repeat_times == 1, "SetLoadDataRepeat with repeatTime %u is not simulated",
                 state.repeat_times);
    Unfolded matrix(how, map, src.dtype);
    uint32_t columns = how.filter_w * how.filter_h * how.channels;
    load.require(
        how.k_start + how.k_extension <= (columns + c0 - 1) / c0 * c0,
        "columns %u … %u of %u are asked for: kStartPt + kExtension must not pass channelSize · filter",
        how.k_start, how.k_start + how.k_extension, columns);
    int64_t last = int64_t(how.m_start) + how.m_extension;
    load.require(last <= (matrix.rows() + 15) / 16 * 16,
                 "rows %u … %lld of %lld are asked for: mStartPt + mExtension must not pass the positions of "
                 "the filter",
                 how.m_start, static_cast<long long>(last), static_cast<long long>(matrix.rows()));
    uint32_t k_blocks = (how.k_extension + c0 - 1) / c0, first_block = how.k_start / c0;
    uint32_t m_blocks = (how.m_extension + 15) / 16;
    // Where 32 bytes of the matrix (row, block of columns) land: untransposed in a row of a fractal.
    bool contiguous = matrix.plain();
    uint64_t rows = uint64_t(std::min<int64_t>(last, matrix.rows())) - how.m_start;
    int64_t block_bytes = int64_t(map.height) * map.width * kBlock;
    uint32_t out_columns = transposed ? m_blocks * 16 / c0 : k_blocks;
    uint32_t out_rows = transposed ? (how.k_extension + 15) / 16 : m_blocks;
    if (contiguous && !transposed) {
        for (uint32_t i = 0; i < m_blocks; ++i) {
            uint64_t bytes = std::min<uint64_t>(16, rows - i * 16) * kBlock;
            load.copies(dst, int64_t(i) * k_blocks * kFractal, kFractal, src,
                        int64_t(first_block) * block_bytes + int64_t(how.m_start + i * 16) * kBlock,
                        block_bytes, bytes, k_blocks);
        }
    } else {
        if (contiguous) {
            load.reads_any(src, int64_t(first_block) * block_bytes + int64_t(how.m_start) * kBlock,
                           rows * kBlock, k_blocks, block_bytes);
        } else {
            for (uint32_t j = 0; j < k_blocks; ++j)
                for (int64_t row = how.m_start; row < int64_t(how.m_start + rows); ++row) {
                    int64_t from = matrix.offset(row, first_block + j);
                    if (from >= 0) load.reads(src, from, kBlock);
                }
        }
        load.writes(dst, 0, uint64_t(out_rows) * out_columns * kFractal);
    }
    Work work = Work::transfer(path_to(dst.space), m_blocks * k_blocks, kFractal);
    work.dtype = uint8_t(src.dtype);
    load.work(work);
    if (!load.issue()) return;
    uint8_t padding[kBlock];
    for (uint32_t i = 0; i < kBlock; ++i) padding[i] = uint8_t(state.padding >> (i % size * 8));
    for (uint32_t j = 0; j < k_blocks; ++j) {
        for (uint64_t i = 0; i < rows; ++i) {
            int64_t from = contiguous ? (first_block + j) * block_bytes + int64_t(how.m_start + i) * kBlock
                                      : matrix.offset(int64_t(how.m_start + i), first_block + j);
            const uint8_t* line = from < 0 ? padding : data(src) + from;
            if (!transposed) {
                std::memcpy(data(dst) + ((i / 16) * k_blocks + j) * kFractal + i % 16 * kBlock, line, kBlock);
                continue;
            }
            // Row i of the matrix is column i of what is written; its element e is row j·C0 + e there.
            uint32_t column_block = uint32_t(i) / c0, first = j * c0;
            uint64_t fractal = right ? uint64_t(column_block) * out_rows + first / 16
                                     : uint64_t(first / 16) * out_columns + column_block;
            uint8_t* to = data(dst) + fractal * kFractal + first % 16 * kBlock + uint32_t(i) % c0 * size;
            if (size == 2) {
                scatter<uint16_t>(to, line);
            } else {
                scatter<uint32_t>(to, line);
            }
        }
    }
}

void fill(const Local& dst, const Filling& how, Where where) {
    bool l1 = dst.space == Space::L1;
    Instruction fill(l1 ? Pipe::MTE2 : Pipe::MTE1, "Fill", where);
    fill.require(l1 || is_l0(dst), "dst must be in A1, B1, A2 or B2");
    fill.takes(size_of(dst.dtype) == 2 || size_of(dst.dtype) == 4, dst.dtype, "dst");
    uint32_t block = l1 ? kBlock : kFractal, size = size_of(dst.dtype);
    fill.aligned(dst, block, "dst");
    fill.require(how.repeats <= 32767 && how.blocks <= 32767 && how.gap <= 32767,
                 "repeatTimes, blockNum and dstGap must be at most 32767, not %u, %u and %u", how.repeats,
                 how.blocks, how.gap);
    if (how.repeats == 0 || how.blocks == 0) return;
    fill.writes(dst, 0, uint64_t(how.blocks) * block, how.repeats, int64_t(how.blocks + how.gap) * block);
    fill.work(Work::transfer(l1 ? Path::GmToL1 : path_to(dst.space), how.repeats, how.blocks * block));
    if (!fill.issue()) return;
    for (uint32_t i = 0; i < how.repeats; ++i) {
        uint8_t* to = data(dst) + size_t(i) * (how.blocks + how.gap) * block;
        for (uint32_t j = 0; j < how.blocks * block; j += size) std::memcpy(to + j, &how.bits, size);
    }
}

void copy_l1_to_bias_table(const Local& dst, const Local& src, uint32_t count, uint32_t length,
                           uint32_t src_gap, uint32_t dst_gap, Where where) {
    Instruction copy(Pipe::MTE1, "DataCopy", where);
    copy.lives_in(dst, Space::BT, "dst");
    copy.lives_in(src, Space::L1, "src");
    copy.aligned(dst, 64, "dst");
    copy.aligned(src, kBlock, "src");
    bool widens = src.dtype == Dtype::F16 && dst.dtype == Dtype::F32;
    copy.require(widens || (src.dtype == dst.dtype && (src.dtype == Dtype::F32 || src.dtype == Dtype::I32)),
                 "the bias table takes float or int32 as they are and half as float");
    if (count == 0 || length == 0) return;
    // Lengths count what is written, 64 bytes each.
    uint32_t bytes = length * 64, from_bytes = widens ? bytes / 2 : bytes;
    int64_t from_step = from_bytes + int64_t(src_gap) * kBlock, to_step = bytes + int64_t(dst_gap) * 64;
    copy.reads_any(src, 0, from_bytes, count, from_step);
    copy.writes(dst, 0, bytes, count, to_step);
    copy.work(Work::transfer(Path::L1ToBt, count, bytes));
    if (!copy.issue()) return;
    for (uint32_t i = 0; i < count; ++i) {
        const uint8_t* from = data(src) + i * from_step;
        uint8_t* to = data(dst) + i * to_step;
        if (!widens) {
            std::memcpy(to, from, bytes);
        } else {
            for (uint32_t j = 0; j < bytes / 4; ++j) {
                uint16_t half;
                std::memcpy(&half, from + j * 2, 2);
                float value = half_to_float(half);
                std::memcpy(to + j * 4, &value, 4);
            }
        }
    }
}

void copy_l1_to_fixpipe_buffer(const Local& dst, const Local& src, uint32_t count, uint32_t length,
                               uint32_t src_gap, uint32_t dst_gap, Where where) {
    Instruction copy(Pipe::FIX, "DataCopy", where);
    copy.lives_in(dst, Space::FB, "dst");
    copy.lives_in(src, Space::L1, "src");
    copy.aligned(dst, 128, "dst");
    copy.aligned(src, kBlock, "src");
    copy.takes(src.dtype == Dtype::U64, src.dtype, "src");
    if (count == 0 || length == 0) return;
    uint32_t bytes = length * 128;
    int64_t from_step = count == 1 ? bytes : int64_t(src_gap) * kBlock;  // from start to start
    int64_t to_step = count == 1 ? bytes : int64_t(dst_gap) * 128;
    copy.reads_any(src, 0, bytes, count, from_step);
    copy.writes(dst, 0, bytes, count, to_step);
    copy.work(Work::transfer(Path::L1ToFb, count, bytes));
    if (!copy.issue()) return;
    for (uint32_t i = 0; i < count; ++i)
        std::memcpy(data(dst) + i * to_step, data(src) + i * from_step, bytes);
}

}  // namespace sim
