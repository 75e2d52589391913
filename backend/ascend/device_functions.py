"""Device functions that generated kernels begin with, as far as they use them.

Each is a few lines of Ascend C that loops where one instruction does not reach: more than 255 repeats, rows
further apart than a repeat stride holds, folding.
"""

from __future__ import annotations

_PARTS: dict[str, tuple[tuple[str, ...], str]] = {}


def _part(name: str, text: str, needs: tuple[str, ...] = ()) -> None:
    _PARTS[name] = (needs, text.strip("\n"))


_part(
    "Align",
    """
__aicore__ inline uint32_t Align(uint32_t value, uint32_t step) { return (value + step - 1) / step * step; }
""",
)
_part(
    "Least",
    """
template <typename T>
__aicore__ inline T Least(T a, T b) { return a < b ? a : b; }
""",
)
_part(
    "FromBits",
    """
__aicore__ inline float FromBits(uint32_t bits) { return *reinterpret_cast<float*>(&bits); }
""",
)
_part(
    "CopyIn",
    """
// `count` elements side by side from GM.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count)
{
    const uint32_t bytes = count * sizeof(T);
    const DataCopyExtParams copy{static_cast<uint16_t>(1), bytes, 0u, 0u, 0u};
    const DataCopyPadExtParams<T> pad{false, 0, 0, static_cast<T>(0)};
    DataCopyPad(dst, src, copy, pad);
}
""",
)
_part(
    "CopyOut",
    """
// `count` elements side by side to GM.
template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count)
{
    const uint32_t bytes = count * sizeof(T);
    const DataCopyExtParams copy{static_cast<uint16_t>(1), bytes, 0u, 0u, 0u};
    DataCopyPad(dst, src, copy);
}
""",
)


def _row_copy(way: str, comment: str, types: tuple[str, str], pad: str, call: str) -> None:
    """The copy of rows between GM and UB, one way."""
    head = f"__aicore__ inline void CopyRows{way}("
    together = "together ? static_cast<uint32_t>(gap) : 0u"
    indent = "\n" + " " * 37
    bytes_and_gaps = {
        "In": f", bytes,{indent}{together}, ubGap, 0u",
        "Out": f", bytes, ubGap,{indent}{together}, 0u",
    }[way]
    _part(
        f"CopyRows{way}",
        f"""
// {comment}
template <typename T>
{head}const {types[0]}<T>& dst, const {types[1]}<T>& src, uint32_t rows,
{" " * len(head)}uint32_t lanes, uint32_t pitch, int64_t stride)
{{
    if (stride == lanes && pitch == lanes) {{
        Copy{way}(dst, src, rows * lanes);
        return;
    }}
    const uint32_t bytes = lanes * sizeof(T);
    const uint32_t ubGap = (pitch * sizeof(T) - Align(bytes, 32)) / 32;
    const int64_t gap = (stride - static_cast<int64_t>(lanes)) * static_cast<int64_t>(sizeof(T));
    const bool together = gap >= 0 && gap < 0xffffffffLL;
    const uint32_t step = together ? 4095 : 1;
{pad}    for (uint32_t row = 0; row < rows; row += step) {{
        const DataCopyExtParams copy{{static_cast<uint16_t>(Least(step, rows - row)){bytes_and_gaps}}};
        {call}
    }}
}}
""",
        ("Align", "Least", f"Copy{way}"),
    )


_row_copy(
    "In",
    "rows x lanes elements from GM, rows `stride` elements apart there and `pitch` apart in UB.",
    ("LocalTensor", "GlobalTensor"),
    "    const DataCopyPadExtParams<T> pad{false, 0, 0, static_cast<T>(0)};\n",
    "DataCopyPad(dst[row * pitch], src[static_cast<int64_t>(row) * stride], copy, pad);",
)
_row_copy(
    "Out",
    "The way back of CopyRowsIn.",
    ("GlobalTensor", "LocalTensor"),
    "",
    "DataCopyPad(dst[static_cast<int64_t>(row) * stride], src[row * pitch], copy);",
)
_part(
    "Clear",
    """
// Zeros in a buffer that copies of shorter rows do not fill.
template <typename T>
__aicore__ inline void Clear(const LocalTensor<T>& buffer)
{
    Duplicate(buffer.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
              static_cast<int32_t>(buffer.GetSize() * sizeof(T) / 2));
}
""",
)
_part(
    "Spread",
    """
// A row in every row of a tile (across = false), or the blocks of a column, which hold one element many times
// each, along the rows (across = true).
template <bool across, typename T>
__aicore__ inline void Spread(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t rows,
                              uint32_t pitch, uint32_t n)
{
    constexpr uint32_t block = 32 / sizeof(T);
    constexpr uint32_t lanes = 8 * block;
    const bool repeatRows = pitch / block <= 4095;
    const uint32_t step = repeatRows ? 255 : 1;
    for (uint32_t row = 0; row < rows; row += step) {
        const uint8_t repeats = static_cast<uint8_t>(Least(step, rows - row));
        for (uint32_t lane = 0; lane < pitch; lane += lanes) {
            const uint64_t mask = Least(lanes, pitch - lane);
            const CopyRepeatParams params{1, static_cast<uint16_t>(across ? 0 : 1),
                                          static_cast<uint16_t>(repeatRows ? pitch / block : 0),
                                          static_cast<uint16_t>(across ? 1 : 0)};
            Copy(dst[row * pitch + lane], src[across ? row * block : lane], mask, repeats, params);
        }
    }
    if (n > rows * pitch) {
        Duplicate(dst[rows * pitch], static_cast<T>(0), static_cast<int32_t>(n - rows * pitch));
    }
}
""",
    ("Least",),
)
_part(
    "ToBlocks",
    """
// Each element of a column over a block of 32 bytes.
template <typename T>
__aicore__ inline void ToBlocks(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t rows)
{
    for (uint32_t row = 0; row < rows; row += 248 * 8) {
        const uint32_t repeats = (Least<uint32_t>(248 * 8, rows - row) + 7) / 8;
        Brcb(dst[row * (32 / sizeof(T))], src[row], static_cast<uint8_t>(repeats), BrcbRepeatParams{1, 8});
    }
}
""",
    ("Least",),
)


def _across(op: str) -> None:
    _part(
        f"{op}Across",
        f"""
// {op} of a tile and a row (the same for every row) or a column's blocks (the same along each row).
// `swapped`: the tile is the second operand.
template <bool column, bool swapped, typename T>
__aicore__ inline void {op}Across(const LocalTensor<T>& dst, const LocalTensor<T>& tile,
                                  const LocalTensor<T>& other, uint32_t rows, uint32_t pitch, uint32_t n)
{{
    constexpr uint32_t block = 32 / sizeof(T);
    constexpr uint32_t lanes = 8 * block;
    const uint32_t stride = pitch / block;
    // Up to a whole repeat behind the last row, whatever it is.
    if (n > rows * pitch) {{
        const LocalTensor<T> behind = tile[rows * pitch];
        {op}(dst[rows * pitch], behind, behind, static_cast<int32_t>(n - rows * pitch));
    }}
    // One instruction for a strip of many rows, or for a stretch of one long row.
    if (stride <= 255 && rows * lanes >= pitch) {{
        for (uint32_t row = 0; row < rows; row += 255) {{
            const uint8_t repeats = static_cast<uint8_t>(Least<uint32_t>(255, rows - row));
            for (uint32_t lane = 0; lane < pitch; lane += lanes) {{
                const uint64_t mask = Least(lanes, pitch - lane);
                const uint8_t step = static_cast<uint8_t>(stride);
                const uint8_t otherStep = column ? 1 : 0;
                const uint8_t otherBlock = column ? 0 : 1;
                const LocalTensor<T> at = tile[row * pitch + lane];
                const LocalTensor<T> by = other[column ? row * block : lane];
                if (swapped) {{
                    {op}(dst[row * pitch + lane], by, at, mask, repeats,
                        BinaryRepeatParams{{1, otherBlock, 1, step, otherStep, step}});
                }} else {{
                    {op}(dst[row * pitch + lane], at, by, mask, repeats,
                        BinaryRepeatParams{{1, 1, otherBlock, step, step, otherStep}});
                }}
            }}
        }}
        return;
    }}
    for (uint32_t row = 0; row < rows; ++row) {{
        for (uint32_t lane = 0; lane < pitch; lane += 255 * lanes) {{
            const uint32_t count = Least<uint32_t>(255 * lanes, pitch - lane);
            const LocalTensor<T> to = dst[row * pitch + lane];
            const LocalTensor<T> at = tile[row * pitch + lane];
            if (!column) {{
                const LocalTensor<T> by = other[lane];
                if (swapped) {{
                    {op}(to, by, at, static_cast<int32_t>(count));
                }} else {{
                    {op}(to, at, by, static_cast<int32_t>(count));
                }}
                continue;
            }}
            const LocalTensor<T> by = other[row * block];
            const uint32_t whole = count / lanes;
            const uint32_t rest = count - whole * lanes;
            const BinaryRepeatParams params = swapped ? BinaryRepeatParams{{1, 0, 1, 8, 0, 8}}
                                                      : BinaryRepeatParams{{1, 1, 0, 8, 8, 0}};
            if (whole > 0) {{
                {op}(to, swapped ? by : at, swapped ? at : by, static_cast<uint64_t>(lanes),
                    static_cast<uint8_t>(whole), params);
            }}
            if (rest > 0) {{
                const LocalTensor<T> end = at[whole * lanes];
                {op}(to[whole * lanes], swapped ? by : end, swapped ? end : by, static_cast<uint64_t>(rest),
                    static_cast<uint8_t>(1), params);
            }}
        }}
    }}
}}
""",
        ("Least",),
    )


for _op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    _across(_op)


def register(name: str, text: str, needs: tuple[str, ...] = ()) -> None:
    """Add a device function that another file of the generator writes calls of."""
    _part(name, text, needs)


def functions(used: set[str]) -> str:
    """The text of the functions, each after those it calls."""
    done: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        needs, text = _PARTS[name]
        for need in needs:
            visit(need)
        done[name] = text

    for name in _PARTS:
        if name in used:
            visit(name)
    return "\n\n".join(done.values())
