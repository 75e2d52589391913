"""Device functions that copy elements one by one, and bring them into order in UB."""

from __future__ import annotations

from .device_functions import register

register(
    "CopyElementsIn",
    """
// Single elements from GM to blocks of 32 bytes: `lanes` of them `laneStride` apart in each of `rows` rows.
template <typename T>
__aicore__ inline void CopyElementsIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t rows,
                                      uint32_t lanes, uint32_t pitch, int64_t rowStride, int64_t laneStride)
{
    constexpr uint32_t size = sizeof(T), block = 32 / size;
    const bool down = rows > lanes && rowStride > 0;  // the longer of the two is one instruction
    const uint32_t outer = down ? lanes : rows, inner = down ? rows : lanes;
    const uint32_t outerBlocks = down ? 1 : pitch, innerBlocks = down ? pitch : 1;
    const int64_t outerStride = down ? laneStride : rowStride, stride = down ? rowStride : laneStride;
    const int64_t gap = (stride - 1) * static_cast<int64_t>(sizeof(T));
    const bool together = gap >= 0 && gap < 0xffffffffLL;
    const uint32_t step = together ? 4095 : 1, gmGap = together ? static_cast<uint32_t>(gap) : 0u;
    const DataCopyPadExtParams<T> pad{false, 0, 0, static_cast<T>(0)};
    for (uint32_t i = 0; i < outer; ++i) {
        for (uint32_t j = 0; j < inner; j += step) {
            const uint16_t pieces = static_cast<uint16_t>(Least(step, inner - j));
            const DataCopyExtParams copy{pieces, size, gmGap, innerBlocks - 1, 0u};
            const int64_t from = static_cast<int64_t>(i) * outerStride + static_cast<int64_t>(j) * stride;
            DataCopyPad(dst[(i * outerBlocks + j * innerBlocks) * block], src[from], copy, pad);
        }
    }
}
""",
    ("Least",),
)
register(
    "CopyElementsOut",
    """
// The way back of CopyElementsIn.
template <typename T>
__aicore__ inline void CopyElementsOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t rows,
                                       uint32_t lanes, uint32_t pitch, int64_t rowStride, int64_t laneStride)
{
    constexpr uint32_t size = sizeof(T), block = 32 / size;
    const bool down = rows > lanes && rowStride > 0;
    const uint32_t outer = down ? lanes : rows, inner = down ? rows : lanes;
    const uint32_t outerBlocks = down ? 1 : pitch, innerBlocks = down ? pitch : 1;
    const int64_t outerStride = down ? laneStride : rowStride, stride = down ? rowStride : laneStride;
    const int64_t gap = (stride - 1) * static_cast<int64_t>(sizeof(T));
    const bool together = gap >= 0 && gap < 0xffffffffLL;
    const uint32_t step = together ? 4095 : 1, gmGap = together ? static_cast<uint32_t>(gap) : 0u;
    for (uint32_t i = 0; i < outer; ++i) {
        for (uint32_t j = 0; j < inner; j += step) {
            const uint16_t pieces = static_cast<uint16_t>(Least(step, inner - j));
            const DataCopyExtParams copy{pieces, size, innerBlocks - 1, gmGap, 0u};
            const int64_t to = static_cast<int64_t>(i) * outerStride + static_cast<int64_t>(j) * stride;
            DataCopyPad(dst[to], src[(i * outerBlocks + j * innerBlocks) * block], copy);
        }
    }
}
""",
    ("Least",),
)
register(
    "TakeEvery",
    """
// One of every two or four elements, from `first` on.
template <uint32_t step, typename T>
__aicore__ inline void TakeEvery(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t first,
                                 uint32_t count)
{
    // Patterns 1 and 2 take one of two elements, 3 to 6 one of four.
    const uint8_t pattern = static_cast<uint8_t>((step == 2 ? 1 : 3) + first);
    uint64_t taken = 0;
    GatherMask(dst, src, pattern, true, count * step, GatherMaskParams{1, 1, 0, 0}, taken);
}
""",
)
register(
    "BackwardOffsets",
    """
// Where the elements of a tile are whose rows lie backwards, `step` bytes from one to the next.
__aicore__ inline void BackwardOffsets(const LocalTensor<int32_t>& offsets, uint32_t rows, uint32_t lanes,
                                       uint32_t pitch, int32_t step)
{
    const int32_t count = static_cast<int32_t>(pitch);
    CreateVecIndex(offsets, 0, pitch);
    Muls(offsets, offsets, -step, count);
    Adds(offsets, offsets, static_cast<int32_t>(lanes - 1) * step, count);
    Maxs(offsets, offsets, 0, count);
    // Rows follow from those above them, twice as many each time.
    for (uint32_t done = 1; done < rows; done *= 2) {
        Adds(offsets[done * pitch], offsets, static_cast<int32_t>(done * pitch) * step,
             static_cast<int32_t>(Least(done, rows - done) * pitch));
    }
}
""",
    ("Least",),
)
register(
    "Turn",
    """
// Strips of blocks, transposed: `repeats` of them from (row, lane) of src on.
template <typename T>
__aicore__ inline void TurnBlocks(const LocalTensor<T>& dst, uint32_t dstPitch, const LocalTensor<T>& src,
                                  uint32_t srcPitch, const LocalTensor<T>& spare, uint32_t rows,
                                  uint32_t lanes, uint32_t row, uint32_t lane, uint32_t repeats, bool down)
{
    constexpr uint32_t block = 32 / sizeof(T);
    constexpr uint32_t halves = 16 / block;  // blocks that sixteen elements of a column fill
    const uint32_t dstStep = (down ? 16 : block * dstPitch) / block;
    const uint32_t srcStep = (down ? 16 * srcPitch : block) / block;
    const uint32_t rowStep = down ? 16 : 0, laneStep = down ? 0 : block;
    for (uint32_t done = 0; done < repeats; done += 255) {
        const uint32_t some = Least<uint32_t>(255, repeats - done);
        const uint32_t row0 = row + done * rowStep, lane0 = lane + done * laneStep;
        LocalTensor<T> to[16];
        LocalTensor<T> from[16];
        for (uint32_t i = 0; i < 16; ++i) {
            from[i] = src[Least(row0 + i, rows - 1) * srcPitch + lane0];
            const uint32_t column = lane0 + i / halves;
            const uint32_t at = row0 + i % halves * block;
            to[i] = column < lanes ? dst[column * dstPitch + at] : spare[at];
        }
        // The strides of a single repeat count too.
        const TransDataTo5HDParams params{false, false, static_cast<uint8_t>(some),
                                          static_cast<uint16_t>(some > 1 ? dstStep : 0),
                                          static_cast<uint16_t>(some > 1 ? srcStep : 0)};
        TransDataTo5HD<T>(to, from, params);
    }
}

// dst[lane][row] = src[row][lane], with all of the `count` elements of dst written. `spare` takes what a
// strip has beyond the last lane.
template <typename T>
__aicore__ inline void Turn(const LocalTensor<T>& dst, uint32_t dstPitch, const LocalTensor<T>& src,
                            uint32_t srcPitch, const LocalTensor<T>& spare, uint32_t rows, uint32_t lanes,
                            uint32_t count)
{
    constexpr uint32_t block = 32 / sizeof(T);
    const uint32_t strips = lanes / block, groups = rows / 16;
    Duplicate(dst[count - 128], static_cast<T>(0), 128);
    if (groups >= strips) {  // fewer instructions of more repeats
        for (uint32_t lane = 0; lane < lanes; lane += block) {
            TurnBlocks(dst, dstPitch, src, srcPitch, spare, rows, lanes, 0, lane, groups, true);
            for (uint32_t row = groups * 16; row < dstPitch; row += 16) {
                TurnBlocks(dst, dstPitch, src, srcPitch, spare, rows, lanes, row, lane, 1, true);
            }
        }
        return;
    }
    for (uint32_t row = 0; row < dstPitch; row += 16) {
        TurnBlocks(dst, dstPitch, src, srcPitch, spare, rows, lanes, row, 0, strips, false);
        const uint32_t rest = lanes % block ? 1 : 0;
        TurnBlocks(dst, dstPitch, src, srcPitch, spare, rows, lanes, row, strips * block, rest, false);
    }
}
""",
    ("Least",),
)
register(
    "SignSlots",
    """
// The upper halves of 64-bit integers in blocks that hold a 32-bit one eight times.
__aicore__ inline void SignSlots(const LocalTensor<int32_t>& slots, uint32_t count)
{
    uint64_t upper[2] = {0xaaaaaaaaaaaaaaaaULL, 0};
    for (uint32_t slot = 0; slot < count; slot += 255 * 8) {
        const uint32_t repeats = (Least<uint32_t>(255 * 8, count - slot) + 7) / 8;
        const LocalTensor<int32_t> at = slots[slot * 8];
        ShiftRight(at, at, 31, upper, static_cast<uint8_t>(repeats), UnaryRepeatParams{1, 1, 8, 8});
    }
}
""",
    ("Least",),
)
