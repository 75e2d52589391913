"""Device functions that reduce a tile along its lanes or its rows."""

from __future__ import annotations

from .device_functions import register

# Rows folded together, and the bytes they need: a repeat for each, then the columns of what is left.
STRIP = 32
SCRATCH = STRIP * 256 + 16 * STRIP * 4 + STRIP * 4

_WHOLE = {"Add": "WholeReduceSum", "Max": "WholeReduceMax", "Min": "WholeReduceMin"}
_BLOCK = {"Add": "BlockReduceSum", "Max": "BlockReduceMax", "Min": "BlockReduceMin"}

# How the lanes of a row are folded, by how many there are. From LONG on, rows begin where the blocks that are
# left of them after one folding do; from LONGEST on, strides of repeats do not reach from row to row: of its
# bucket's lengths, up to 1.2 times as long, rows of 32-bit elements must be no more than 255 blocks apart.
STRIPS, BLOCKS, ROWS = "strips", "blocks", "rows"
LONG = 512
LONGEST = 1493
PITCH = {STRIPS: 16, BLOCKS: 256, ROWS: 512}


def native(op: str, dtype: str) -> bool:
    """Whether one instruction reduces a repeat."""
    return op in _WHOLE and dtype in ("f16", "f32")


def function(op: str, dtype: str, fold: str) -> str:
    """The device function that folds the lanes of rows."""
    if fold != STRIPS and native(op, dtype):
        return f"{op}Blocks"
    if fold == ROWS:
        return f"{op}LongLanes"
    return f"{op}Lanes{'' if native(op, dtype) else 'Any'}"


def _whole(op: str, count: str, repeats: str, dst: str, src: str) -> str:
    order = ", ReduceOrder::ORDER_ONLY_VALUE" if op != "Add" else ""
    return (
        f"{_WHOLE[op]}({dst}, {src}, static_cast<int32_t>({count}), static_cast<int32_t>({repeats}), "
        f"1, 1, 8{order});"
    )


register(
    "BlockColumns",
    f"""
// Where the first element of each of {STRIP} repeats lies, in bytes.
__aicore__ inline LocalTensor<uint32_t> RepeatOffsets(const LocalTensor<uint8_t>& scratch)
{{
    const LocalTensor<int32_t> offsets = scratch[{STRIP * 256 + 16 * STRIP * 4}].ReinterpretCast<int32_t>();
    CreateVecIndex(offsets, 0, {STRIP});
    Muls(offsets, offsets, 256, {STRIP});
    return offsets.ReinterpretCast<uint32_t>();
}}
""",
)


def _register(op: str) -> None:
    def fold(native_end: bool) -> str:
        """From `part`, one repeat for each of `strip` rows, to `strip` elements at `dst[row]`."""
        if native_end:
            return _whole(op, "width", "strip", "dst[row]", "part")
        return f"""for (uint32_t half = width / 2; half >= block; half /= 2) {{
                {op}(part, part, part[half], static_cast<uint64_t>(half), static_cast<uint8_t>(strip),
                    BinaryRepeatParams{{1, 1, 1, 8, 8, 8}});
            }}
            const LocalTensor<uint32_t> offsets = RepeatOffsets(scratch);
            const LocalTensor<T> columns = scratch[{STRIP * 256}].ReinterpretCast<T>();
            for (uint32_t lane = 0; lane < block; ++lane) {{
                const uint32_t from = lane * sizeof(T);
                Gather(columns[lane * {STRIP}], part, offsets, from, {STRIP}u);
            }}
            for (uint32_t half = block / 2; half > 0; half /= 2) {{
                {op}(columns, columns, columns[half * {STRIP}], static_cast<int32_t>(half * {STRIP}));
            }}
            DataCopy(dst[row], columns, {STRIP}u);"""

    for native_end in (True, False) if op in _WHOLE else (False,):
        suffix = "" if native_end else "Any"
        register(
            f"{op}Lanes{suffix}",
            f"""
// The {op} of the lanes of each row, short rows, {STRIP} of them together.
template <typename T>
__aicore__ inline void {op}Lanes{suffix}(const LocalTensor<T>& dst, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& scratch, T identity, uint32_t rows, uint32_t lanes, uint32_t pitch)
{{
    constexpr uint32_t block = 32 / sizeof(T);
    constexpr uint32_t width = 8 * block;
    const LocalTensor<T> part = scratch.ReinterpretCast<T>();
    Duplicate(dst, identity, static_cast<int32_t>(Align(rows, 128)));
    for (uint32_t row = 0; row < rows; row += {STRIP}) {{
        const uint32_t strip = Least<uint32_t>({STRIP}, rows - row);
        Duplicate(part, identity, static_cast<int32_t>({STRIP if not native_end else "strip"} * width));
        for (uint32_t lane = 0; lane < lanes; lane += width) {{
            {op}(part, part, src[row * pitch + lane], static_cast<uint64_t>(Least(width, lanes - lane)),
                static_cast<uint8_t>(strip),
                BinaryRepeatParams{{1, 1, 1, 8, 8, static_cast<uint8_t>(pitch / block)}});
        }}
        {{
            {fold(native_end)}
        }}
    }}
}}
""",
            ("Align", "Least", *(() if native_end else ("BlockColumns",))),
        )
    register(
        f"{op}LongLanes",
        f"""
// The {op} of the lanes of each row, long rows, folded in halves one after another.
template <typename T>
__aicore__ inline void {op}LongLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& folded, const LocalTensor<uint8_t>& scratch, T identity,
    uint32_t rows, uint32_t lanes, uint32_t pitch)
{{
    constexpr uint32_t block = 32 / sizeof(T);
    constexpr uint32_t width = 8 * block;
    const LocalTensor<T> half = folded.ReinterpretCast<T>();
    Duplicate(dst, identity, static_cast<int32_t>(Align(rows, 128)));
    for (uint32_t row = 0; row < rows; {"++row" if native_end else f"row += {STRIP}"}) {{
        {_long(op, fold(False))}
    }}
}}
""",
        ("Align", "Least", f"{op}Halves", "BlockColumns"),
    )
    register(
        f"{op}Halves",
        f"""
// The {op} of `count` elements, down to one repeat of them in `half`; how many are left.
template <typename T>
__aicore__ inline uint32_t {op}Halves(const LocalTensor<T>& half, const LocalTensor<T>& src, T identity,
                                    uint32_t count)
{{
    constexpr uint32_t width = 256 / sizeof(T);
    uint32_t left = width;
    uint32_t done = 0;
    if (count >= 2 * width) {{
        left = count / 2 / width * width;
        {op}(half, src, src[left], static_cast<int32_t>(left));
        done = 2 * left;
    }} else {{
        Duplicate(half, identity, static_cast<int32_t>(width));
    }}
    for (; done < count; done += width) {{
        {op}(half, half, src[done], static_cast<int32_t>(Least(width, count - done)));
    }}
    while (left > width) {{
        const uint32_t next = Align((left + 1) / 2, width);
        {op}(half, half, half[next], static_cast<int32_t>(left - next));
        left = next;
    }}
    return left;
}}
""",
        ("Align", "Least"),
    )
    register(
        f"{op}Rows",
        f"""
// The {op} of the rows of a tile, folded in halves; overwrites `src`.
template <typename T>
__aicore__ inline void {op}Rows(const LocalTensor<T>& dst, const LocalTensor<T>& src, T identity,
                              uint32_t rows, uint32_t pitch)
{{
    Duplicate(dst, identity, static_cast<int32_t>(Align(pitch, 128)));
    uint32_t count = rows;
    while (count > 2) {{
        const uint32_t half = (count + 1) / 2;
        {op}(src, src, src[half * pitch], static_cast<int32_t>((count - half) * pitch));
        count = half;
    }}
    if (count == 2) {{
        {op}(dst, src, src[pitch], static_cast<int32_t>(pitch));
    }} else {{
        DataCopy(dst, src, pitch);
    }}
}}
""",
        ("Align",),
    )


def _long(op: str, fold: str) -> str:
    return f"""const uint32_t strip = Least<uint32_t>({STRIP}, rows - row);
        const LocalTensor<T> part = scratch.ReinterpretCast<T>();
        Duplicate(part, identity, static_cast<int32_t>({STRIP} * width));
        for (uint32_t r = 0; r < strip; ++r) {{
            const uint32_t left = {op}Halves(half, src[(row + r) * pitch], identity, lanes);
            {op}(part[r * width], part[r * width], half, static_cast<int32_t>(left));
        }}
        {{
            {fold}
        }}"""


def _register_blocks(op: str) -> None:
    order = ", ReduceOrder::ORDER_ONLY_VALUE" if op != "Add" else ""
    register(
        f"{op}Blocks",
        f"""
// The {op} of the lanes of each row, block after block over the whole tile; lanes behind the last become
// `identity`.
template <typename T>
__aicore__ inline void {op}Blocks(const LocalTensor<T>& dst, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& folded, T identity, uint32_t rows, uint32_t lanes, uint32_t pitch)
{{
    constexpr uint32_t block = 32 / sizeof(T);
    constexpr uint32_t width = 8 * block;
    PadLanes(src, identity, rows, lanes, pitch);
    Duplicate(dst, identity, static_cast<int32_t>(Align(rows, 128)));
    LocalTensor<T> from = src;
    LocalTensor<T> to = folded.ReinterpretCast<T>();
    uint32_t left = pitch;  // of a row
    do {{
        const uint32_t repeats = CeilDiv(rows * left, width);
        left /= block;
        for (uint32_t done = 0; done < repeats; done += 255) {{
            const int32_t some = static_cast<int32_t>(Least<uint32_t>(255, repeats - done));
            {_BLOCK[op]}(to[done * 8], from[done * width], some, static_cast<int32_t>(width), 1, 1, 8);
        }}
        from = to;
        to = to[Align(rows * left, width) + width];
    }} while (left > 2 * width && left % (block * block) == 0);
    // Each row is now a few repeats; the first of them go to dst, the others are combined with it.
    const uint32_t stride = left / block;
    for (uint32_t lane = 0; lane < left; lane += width) {{
        const int32_t count = static_cast<int32_t>(Least(width, left - lane));
        const LocalTensor<T> column = lane == 0 ? dst : to;
        for (uint32_t row = 0; row < rows; row += 240) {{
            const int32_t some = static_cast<int32_t>(Least<uint32_t>(240, rows - row));
            {_WHOLE[op]}(column[row], from[row * left + lane], count, some, 1, 1,
                static_cast<int32_t>(stride){order});
        }}
        if (lane > 0) {{
            {op}(dst, dst, to, static_cast<int32_t>(rows));
        }}
    }}
}}
""",
        ("Align", "Least", "CeilDiv", "PadLanes"),
    )


register(
    "CeilDiv",
    """
__aicore__ inline uint32_t CeilDiv(uint32_t value, uint32_t step) { return (value + step - 1) / step; }
""",
)
register(
    "PadLanes",
    """
// A number in the lanes of each row behind the last one.
template <typename T>
__aicore__ inline void PadLanes(const LocalTensor<T>& tile, T number, uint32_t rows, uint32_t lanes,
                                uint32_t pitch)
{
    constexpr uint32_t block = 32 / sizeof(T);
    constexpr uint32_t width = 8 * block;
    const bool together = pitch / block <= 255;
    for (uint32_t lane = lanes / width * width; lane < pitch; lane += width) {
        const uint32_t first = lane < lanes ? lanes - lane : 0;
        const uint32_t last = Least(width, pitch - lane);
        if (first >= last) {
            continue;
        }
        uint64_t mask[2] = {0, 0};
        for (uint32_t bit = first; bit < last; ++bit) {
            mask[bit / 64] |= static_cast<uint64_t>(1) << (bit % 64);
        }
        for (uint32_t row = 0; row < rows; row += together ? 255 : 1) {
            const uint8_t repeats = static_cast<uint8_t>(together ? Least<uint32_t>(255, rows - row) : 1);
            Duplicate(tile[row * pitch + lane], number, mask, repeats, static_cast<uint16_t>(1),
                      static_cast<uint8_t>(together ? pitch / block : 8));
        }
    }
}
""",
    ("Least",),
)
register(
    "NanLanes",
    """
// For each row, more than 0 where a lane is NaN, else 0. Rows are whole blocks of mask bits.
template <typename T>
__aicore__ inline void NanLanes(const LocalTensor<half>& dst, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& folded, uint32_t rows, uint32_t lanes, uint32_t pitch)
{
    PadLanes(src, static_cast<T>(0), rows, lanes, pitch);
    Duplicate(dst, static_cast<half>(0), static_cast<int32_t>(Align(rows, 128)));
    const uint32_t n = Align(rows * pitch, 256);
    const uint32_t words = pitch / 16;  // of a row
    Compare(folded, src, src, CMPMODE::NE, Align(rows * pitch, 128));
    // Sixteen bits at a time: as numbers they are 0 only together.
    const LocalTensor<half> numbers = folded[n / 8].ReinterpretCast<half>();
    Cast(numbers, folded.ReinterpretCast<int16_t>(), RoundMode::CAST_RINT, rows * words);
    Abs(numbers, numbers, static_cast<int32_t>(rows * words));
    const LocalTensor<half> more = folded[n / 4 + 256].ReinterpretCast<half>();
    for (uint32_t word = 0; word < words; word += 128) {
        const int32_t count = static_cast<int32_t>(Least<uint32_t>(128, words - word));
        for (uint32_t row = 0; row < rows; row += 240) {
            WholeReduceMax(word == 0 ? dst[row] : more[row], numbers[row * words + word], count,
                           static_cast<int32_t>(Least<uint32_t>(240, rows - row)), 1, 1,
                           static_cast<int32_t>(words / 16), ReduceOrder::ORDER_ONLY_VALUE);
        }
        if (word > 0) {
            Max(dst, dst, more, static_cast<int32_t>(rows));
        }
    }
}
""",
    ("Align", "Least", "PadLanes"),
)
for _op in ("Add", "Mul", "Max", "Min"):
    _register(_op)
for _op in _BLOCK:
    _register_blocks(_op)
