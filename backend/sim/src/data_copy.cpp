#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <vector>

#include "ascendc/cube_instructions.hpp"
#include "ascendc/types.hpp"
#include "atomic.hpp"
#include "sim/transfer.hpp"
#include "vector_access.hpp"

namespace sim {

namespace {

constexpr uint32_t any_dtype = ~uint32_t{0};
constexpr uint32_t atomic_types =
    set_of({Dtype::I8, Dtype::I16, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::F32});

Work transfer(Path path, const Pieces& pieces, Dtype dtype) {
    Work work = Work::transfer(path, pieces.count, static_cast<uint32_t>(pieces.bytes));
    work.dtype = static_cast<uint8_t>(dtype);
    return work;
}

Work transfer(Path path, const Pieces& pieces, const Global& memory, int64_t stride) {
    Work work = transfer(path, pieces, memory.dtype);
    work.l2 = memory.l2;
    work.address = reinterpret_cast<uint64_t>(memory.address);
    work.stride = stride;
    return work;
}

void move(uint8_t* dst, const uint8_t* src, const Pieces& pieces) {
    const int64_t dst_step = static_cast<int64_t>(pieces.bytes) + pieces.dst_gap;
    const int64_t src_step = static_cast<int64_t>(pieces.bytes) + pieces.src_gap;
    if (pieces.dst_gap == 0 && pieces.src_gap == 0) {
        std::memmove(dst, src, pieces.bytes * pieces.count);
        return;
    }
    for (int64_t i = 0; i < pieces.count; ++i)
        std::memmove(dst + i * dst_step, src + i * src_step, pieces.bytes);
}

// Atomic addition, maximum or minimum of one element after another.
template <typename T, typename Load, typename Store>
void combine_elements(uint8_t* dst, const uint8_t* src, uint64_t bytes, Registers::Atomic how, Load load,
                      Store store) {
    for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
        T old, next;
        std::memcpy(&old, dst + at, sizeof(T));
        std::memcpy(&next, src + at, sizeof(T));
        const auto a = load(old), b = load(next);
        const auto result = how == Registers::Atomic::Add                ? a + b
                            : (how == Registers::Atomic::Max) == (a > b) ? a
                                                                         : b;
        const T stored = store(result);
        std::memcpy(dst + at, &stored, sizeof(T));
    }
}

// `bytes` within one page.
void combine_part(uint8_t* dst, const uint8_t* src, uint64_t bytes, Dtype dtype, Registers::Atomic how) {
    const std::lock_guard<std::mutex> lock(atomic_lock(dst));
    const auto wide = [](auto x) { return static_cast<int64_t>(x); };
    switch (dtype) {
        case Dtype::F32:
            return combine_elements<float>(
                dst, src, bytes, how, [](float x) { return x; }, [](float x) { return x; });
        case Dtype::F16:
            return combine_elements<uint16_t>(dst, src, bytes, how, half_to_float, float_to_half);
        case Dtype::BF16:
            return combine_elements<uint16_t>(dst, src, bytes, how, bfloat16_to_float, float_to_bfloat16);
        case Dtype::I32:
            return combine_elements<int32_t>(dst, src, bytes, how, wide,
                                             [](int64_t x) { return static_cast<int32_t>(x); });
        case Dtype::I16:
            return combine_elements<int16_t>(dst, src, bytes, how, wide,
                                             [](int64_t x) { return static_cast<int16_t>(x); });
        default:
            return combine_elements<int8_t>(dst, src, bytes, how, wide,
                                            [](int64_t x) { return static_cast<int8_t>(x); });
    }
}

void combine(uint8_t* dst, const uint8_t* src, uint64_t bytes, Dtype dtype, Registers::Atomic how) {
    while (bytes > 0) {
        const uint64_t part = std::min<uint64_t>(bytes, 4096 - (reinterpret_cast<uintptr_t>(dst) & 4095U));
        combine_part(dst, src, part, dtype, how);
        dst += part;
        src += part;
        bytes -= part;
    }
}

// Ends of a copy on local memory.
void check_local(Instruction& instruction, const Local& tensor, const char* role, const Pieces& pieces,
                 int64_t gap) {
    instruction.aligned(tensor, 32, role);
    instruction.require(pieces.bytes % 32 == 0 || pieces.count == 0,
                        "Expected whole blocks of 32 bytes in %s, given %" PRIu64 " bytes", role,
                        pieces.bytes);
    instruction.require(
        gap % 32 == 0, "Expected gaps of whole blocks of 32 bytes in %s, given %" PRId64 " bytes", role, gap);
}

// A write to GM, atomic if the kernel said so.
void write_global(Instruction& instruction, const Global& dst, const Pieces& pieces, int64_t step) {
    if (registers().atomic == Registers::Atomic::None) {
        instruction.writes(dst, 0, pieces.bytes, pieces.count, step, "dst");
        return;
    }
    instruction.takes(holds(atomic_types, registers().atomic_dtype) && registers().atomic_dtype == dst.dtype,
                      dst.dtype, "dst, while SetAtomic… is on for another type");
    instruction.updates(dst, 0, pieces.bytes, pieces.count, step, "dst");
}

void move_out(const Global& dst, const uint8_t* src, const Pieces& pieces, int64_t dst_step,
              int64_t src_step) {
    const Registers::Atomic how = registers().atomic;
    if (how == Registers::Atomic::None) {
        if (dst_step == src_step && dst_step == static_cast<int64_t>(pieces.bytes)) {
            std::memcpy(dst.address, src, pieces.bytes * pieces.count);
            return;
        }
        for (int64_t i = 0; i < pieces.count; ++i)
            std::memcpy(dst.address + i * dst_step, src + i * src_step, pieces.bytes);
        return;
    }
    for (int64_t i = 0; i < pieces.count; ++i)
        combine(dst.address + i * dst_step, src + i * src_step, pieces.bytes, dst.dtype, how);
}

bool nothing(const Pieces& pieces) { return pieces.count == 0 || pieces.bytes == 0; }

void check_position(Instruction& instruction, const Local& tensor, const char* role) {
    if (tensor.space != Space::UB && tensor.space != Space::L1) instruction.lives_in(tensor, Space::UB, role);
}

Pieces elements(const Dtype dtype, uint32_t count) {
    const uint64_t bytes = dtype == Dtype::I4 ? (count + 1) / 2 : uint64_t{count} * size_of(dtype);
    return {1, bytes, 0, 0};
}

Pieces blocks_of_32(const Blocks& blocks) {
    return {blocks.count, uint64_t{blocks.length} * 32, int64_t{blocks.src_gap} * 32,
            int64_t{blocks.dst_gap} * 32};
}

void check_blocks(const Blocks& blocks, const char* name, Where where) {
    if (blocks.count > 4095 && !cost_only())
        fail(where, "[%s] Expected blockCount of 0 to 4095, given %u", name, blocks.count);
}

}  // namespace

void copy(const char* name, const Local& dst, const Global& src, const Pieces& pieces, Where where) {
    Instruction instruction(Pipe::MTE2, name, where);
    if (instruction.skipped() || nothing(pieces)) return;
    const int64_t src_step = static_cast<int64_t>(pieces.bytes) + pieces.src_gap;
    if (!cost_only()) {
        check_position(instruction, dst, "dst");
        check_local(instruction, dst, "dst", pieces, pieces.dst_gap);
        instruction.reads(src, 0, pieces.bytes, pieces.count, src_step, "src");
        instruction.writes(dst, 0, pieces.bytes, pieces.count,
                           static_cast<int64_t>(pieces.bytes) + pieces.dst_gap, "dst");
    }
    instruction.work(transfer(dst.space == Space::L1 ? Path::GmToL1 : Path::GmToUb, pieces, src, src_step));
    if (instruction.issue()) move(data(dst), src.address, pieces);
}

void copy(const char* name, const Global& dst, const Local& src, const Pieces& pieces, Where where) {
    Instruction instruction(Pipe::MTE3, name, where);
    if (instruction.skipped() || nothing(pieces)) return;
    const int64_t src_step = static_cast<int64_t>(pieces.bytes) + pieces.src_gap;
    const int64_t dst_step = static_cast<int64_t>(pieces.bytes) + pieces.dst_gap;
    if (!cost_only()) {
        check_position(instruction, src, "src");
        check_local(instruction, src, "src", pieces, pieces.src_gap);
        instruction.reads_blocks(src, 0, pieces.bytes, pieces.count, src_step, "src");
        write_global(instruction, dst, pieces, dst_step);
    }
    instruction.work(transfer(src.space == Space::L1 ? Path::L1ToGm : Path::UbToGm, pieces, dst, dst_step));
    if (instruction.issue()) move_out(dst, data(src), pieces, dst_step, src_step);
}

void copy(const char* name, const Local& dst, const Local& src, const Pieces& pieces, Where where) {
    const bool in_ub = dst.space == Space::UB && src.space == Space::UB;
    Instruction instruction(in_ub ? Pipe::V : Pipe::MTE3, name, where);
    if (instruction.skipped() || nothing(pieces)) return;
    const auto src_step = static_cast<int64_t>(pieces.bytes) + pieces.src_gap;
    const auto dst_step = static_cast<int64_t>(pieces.bytes) + pieces.dst_gap;
    if (!cost_only()) {
        instruction.lives_in(src, Space::UB, "src");
        check_position(instruction, dst, "dst");
        check_local(instruction, dst, "dst", pieces, pieces.dst_gap);
        check_local(instruction, src, "src", pieces, pieces.src_gap);
        if (in_ub && dst.offset != src.offset)
            check_apart(instruction, dst, static_cast<uint64_t>((pieces.count - 1) * dst_step) + pieces.bytes,
                        src, static_cast<uint64_t>((pieces.count - 1) * src_step) + pieces.bytes, "src");
        instruction.copies(dst, 0, dst_step, src, 0, src_step, pieces.bytes, pieces.count);
    }
    instruction.work(transfer(in_ub ? Path::UbToUb : Path::UbToL1, pieces, src.dtype));
    if (instruction.issue()) move(data(dst), data(src), pieces);
}

void copy_count(const Local& dst, const Global& src, uint32_t count, Where where) {
    copy("DataCopy", dst, src, elements(src.dtype, count), where);
}
void copy_count(const Global& dst, const Local& src, uint32_t count, Where where) {
    copy("DataCopy", dst, src, elements(src.dtype, count), where);
}
void copy_count(const Local& dst, const Local& src, uint32_t count, Where where) {
    copy("DataCopy", dst, src, elements(src.dtype, count), where);
}

void copy_blocks(const Local& dst, const Global& src, const Blocks& blocks, Where where) {
    check_blocks(blocks, "DataCopy", where);
    copy("DataCopy", dst, src, blocks_of_32(blocks), where);
}
void copy_blocks(const Global& dst, const Local& src, const Blocks& blocks, Where where) {
    check_blocks(blocks, "DataCopy", where);
    copy("DataCopy", dst, src, blocks_of_32(blocks), where);
}
void copy_blocks(const Local& dst, const Local& src, const Blocks& blocks, Where where) {
    check_blocks(blocks, "DataCopy", where);
    if (src.space == Space::L1 && dst.space == Space::BT)
        return copy_l1_to_bias_table(dst, src, blocks.count, blocks.length, blocks.src_gap, blocks.dst_gap,
                                     where);
    if (src.space == Space::L1 && dst.space == Space::FB)
        return copy_l1_to_fixpipe_buffer(dst, src, blocks.count, blocks.length, blocks.src_gap,
                                         blocks.dst_gap, where);
    copy("DataCopy", dst, src, blocks_of_32(blocks), where);
}

void set_padding_value(uint64_t bits) {
    registers().vector[padding_register] = bits;
    registers().vector[padding_set_register] = 1;
}

namespace {

uint64_t round_up(uint64_t bytes) { return (bytes + 31) / 32 * 32; }

void check_padded(Instruction& instruction, const Blocks& blocks, uint32_t size) {
    instruction.require(blocks.count <= 4095, "Expected blockCount of 0 to 4095, given %u", blocks.count);
    instruction.require(blocks.length <= 2097151, "Expected blockLen of 0 to 2097151 bytes, given %u",
                        blocks.length);
    instruction.require(blocks.length % size == 0, "Expected blockLen to be a multiple of %u bytes, given %u",
                        size, blocks.length);
}

void fill(uint8_t* to, uint64_t bytes, uint64_t value, uint32_t size) {
    for (uint64_t at = 0; at < bytes; at += size)
        std::memcpy(to + at, &value, std::min<uint64_t>(size, bytes - at));
}

}  // namespace

void copy_padded(const Local& dst, const Global& src, const Blocks& blocks, const Padding& padding,
                 Where where) {
    Instruction instruction(Pipe::MTE2, "DataCopyPad", where);
    if (instruction.skipped()) return;
    const uint32_t size = size_of(src.dtype);
    const uint64_t left = uint64_t{padding.left} * size, right = uint64_t{padding.right} * size;
    const uint64_t whole = round_up(left + blocks.length + right);
    const int64_t src_step = int64_t{blocks.length} + blocks.src_gap;
    const auto dst_step = static_cast<int64_t>(whole) + int64_t{blocks.dst_gap} * 32;
    const Pieces pieces{blocks.count, blocks.length, blocks.src_gap, 0};
    // What fills up a block: the first element where nothing is padded, else the value. Without a value it is
    // undefined and counts as not written.
    const bool with_first = left == 0 && right == 0;
    const bool with_register = !padding.is_pad && registers().vector[padding_set_register] != 0;
    const bool defined = with_first || padding.is_pad || with_register;
    if (!cost_only()) {
        check_padded(instruction, blocks, size);
        check_position(instruction, dst, "dst");
        instruction.aligned(dst, 32, "dst");
        instruction.require(left <= 32, "Expected leftPadding of at most 32 bytes, given %" PRIu64, left);
        instruction.require(right <= 32, "Expected rightPadding of at most 32 bytes, given %" PRIu64, right);
        instruction.require(size < 8 || !padding.is_pad || padding.value == 0,
                            "Expected paddingValue 0 for types of 64 bits, given another");
        if (!nothing(pieces)) {
            instruction.reads(src, 0, blocks.length, blocks.count, src_step, "src");
            if (defined)
                instruction.writes(dst, 0, whole, blocks.count, dst_step, "dst");
            else
                instruction.writes(dst, static_cast<int64_t>(left), blocks.length, blocks.count, dst_step,
                                   "dst");
        }
    }
    if (nothing(pieces)) return;
    instruction.work(transfer(dst.space == Space::L1 ? Path::GmToL1 : Path::GmToUb, pieces, src, src_step));
    if (!instruction.issue()) return;
    for (int64_t i = 0; i < blocks.count; ++i) {
        uint8_t* to = data(dst) + i * dst_step;
        const uint8_t* from = src.address + i * src_step;
        std::memcpy(to + left, from, blocks.length);
        if (!defined || whole == blocks.length) continue;
        uint64_t value = with_register ? registers().vector[padding_register] : padding.value;
        if (with_first) std::memcpy(&value, from, size);
        fill(to, left, value, size);
        fill(to + left + blocks.length, whole - left - blocks.length, value, size);
    }
}

void copy_padded(const Global& dst, const Local& src, const Blocks& blocks, Where where) {
    Instruction instruction(Pipe::MTE3, "DataCopyPad", where);
    if (instruction.skipped()) return;
    const int64_t src_step = static_cast<int64_t>(round_up(blocks.length)) + int64_t{blocks.src_gap} * 32;
    const int64_t dst_step = int64_t{blocks.length} + blocks.dst_gap;
    const Pieces pieces{blocks.count, blocks.length, 0, blocks.dst_gap};
    if (!cost_only()) {
        check_padded(instruction, blocks, size_of(src.dtype));
        check_position(instruction, src, "src");
        instruction.aligned(src, 32, "src");
        if (!nothing(pieces)) {
            instruction.reads(src, 0, blocks.length, blocks.count, src_step, "src");
            write_global(instruction, dst, pieces, dst_step);
        }
    }
    if (nothing(pieces)) return;
    instruction.work(transfer(src.space == Space::L1 ? Path::L1ToGm : Path::UbToGm, pieces, dst, dst_step));
    if (instruction.issue()) move_out(dst, data(src), pieces, dst_step, src_step);
}

namespace {

// Where the rows of a slice start, in elements, and the pieces of a row.
struct SliceRows {
    std::vector<uint64_t> rows;
    uint32_t bursts = 0;
    uint64_t burst = 0;  // elements
    uint64_t gap = 0;    // elements
};

SliceRows rows_of(const Slice* slices, uint32_t dimensions, uint32_t size, const char* role, Where where) {
    SliceRows result;
    const Slice& row = slices[0];
    result.burst = uint64_t{row.burst} * 32 / size;
    result.gap = row.stride;
    const uint64_t length = uint64_t{row.end} - row.start + 1;
    if (row.end < row.start || result.burst == 0 || (length + row.stride) % (result.burst + row.stride) != 0)
        fail(where,
             "[DataCopy] Expected endIndex - startIndex + 1 of %s to be whole bursts and the strides between "
             "them, given startIndex %u, endIndex %u, stride %u, burstLen %u",
             role, row.start, row.end, row.stride, row.burst);
    result.bursts = static_cast<uint32_t>((length + row.stride) / (result.burst + row.stride));
    result.rows = {row.start};
    uint64_t pitch = 1;
    for (uint32_t axis = 1; axis < dimensions; ++axis) {
        const Slice& slice = slices[axis];
        if (slice.burst != 1)
            fail(where, "[DataCopy] Expected burstLen 1 in the outer axes of %s, given %u", role,
                 slice.burst);
        pitch *= slices[axis - 1].shape;
        std::vector<uint64_t> next;
        for (uint64_t index = slice.start; index <= slice.end; index += uint64_t{slice.stride} + 1)
            for (uint64_t start : result.rows) next.push_back(start + index * pitch);
        result.rows = next;
    }
    return result;
}

template <typename To, typename From, typename Move>
void copy_rows(const To& dst, const From& src, const Slice* dst_slices, const Slice* src_slices,
               uint32_t dimensions, Where where, Move part) {
    const uint32_t size = size_of(src.dtype);
    if (dimensions == 0) return;
    const SliceRows to = rows_of(dst_slices, dimensions, size, "dst", where);
    const SliceRows from = rows_of(src_slices, dimensions, size, "src", where);
    if (to.rows.size() != from.rows.size() || to.bursts != from.bursts || to.burst != from.burst)
        fail(
            where,
            "[DataCopy] Expected slices of the same number and size, given %zu rows of %u bursts for dst and "
            "%zu of %u for src",
            to.rows.size(), to.bursts, from.rows.size(), from.bursts);
    const Pieces pieces{to.bursts, to.burst * size, static_cast<int64_t>(from.gap * size),
                        static_cast<int64_t>(to.gap * size)};
    for (size_t row = 0; row < to.rows.size(); ++row)
        part(dst, to.rows[row] * size, src, from.rows[row] * size, pieces);
}

Local moved(Local tensor, uint64_t bytes) {
    tensor.offset += static_cast<uint32_t>(bytes);
    tensor.bytes = tensor.bytes > bytes ? tensor.bytes - static_cast<uint32_t>(bytes) : 0;
    return tensor;
}

Global moved(Global memory, uint64_t bytes) {
    memory.address += bytes;
    if (memory.bytes) memory.bytes = memory.bytes > bytes ? memory.bytes - bytes : 1;
    return memory;
}

}  // namespace

void copy_slices(const Local& dst, const Global& src, const Slice* dst_slices, const Slice* src_slices,
                 uint32_t dimensions, Where where) {
    copy_rows(
        dst, src, dst_slices, src_slices, dimensions, where,
        [where](const Local& to, uint64_t to_at, const Global& from, uint64_t from_at, const Pieces& pieces) {
            copy("DataCopy", moved(to, to_at), moved(from, from_at), pieces, where);
        });
}

void copy_slices(const Global& dst, const Local& src, const Slice* dst_slices, const Slice* src_slices,
                 uint32_t dimensions, Where where) {
    copy_rows(
        dst, src, dst_slices, src_slices, dimensions, where,
        [where](const Global& to, uint64_t to_at, const Local& from, uint64_t from_at, const Pieces& pieces) {
            copy("DataCopy", moved(to, to_at), moved(from, from_at), pieces, where);
        });
}

void fill_output(const Global& dst, uint64_t count, uint64_t value, Where where) {
    Instruction instruction(Pipe::MTE3, "InitOutput", where);
    if (instruction.skipped() || count == 0) return;
    const uint32_t size = size_of(dst.dtype);
    const Pieces pieces{1, count * size, 0, 0};
    if (!cost_only()) instruction.writes(dst, 0, pieces.bytes, 1, 0, "gmWorkspaceAddr");
    instruction.work(transfer(Path::UbToGm, pieces, dst, static_cast<int64_t>(pieces.bytes)));
    if (instruction.issue()) fill(dst.address, pieces.bytes, value, size);
}

}  // namespace sim
