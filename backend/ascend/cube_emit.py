"""Writes the Ascend C source of a matrix product.

The kernel's shape: every core works through tiles of C. The operands of a tile come into L1 in packets of
several steps along k, one ahead of the packet in use; from there each step goes into one half of L0A and L0B,
is multiplied, and the other half is filled meanwhile. A packet ahead may belong to the next tile, so that no
tile starts with empty buffers. Where one operand's packets are longer, they come in parts between those of
the other.
"""

from __future__ import annotations

import keyword
import re
import textwrap

from .cube_problem import CTYPES, FIELDS, RESULTS, SIZES, Contraction, CubeOptions
from .cube_tiling import BIAS_ROW, CubeTiling
from .generated import free_names
from .text import IEEE_MODE, Writer

SECOND_LINE = " " * 12  # of the parameters of a method


def source(
    contraction: Contraction, options: CubeOptions, tiling: CubeTiling, name: str, summary: list[str]
) -> str:
    """The kernel's complete text."""
    return _Kernel(contraction, options, tiling, name).text(summary)


def identifiers(names: tuple[str, ...]) -> tuple[str, ...]:
    """C++ identifiers that are like the names, all different, none that the text has already."""
    plain = []
    for name in names:
        text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "operand"
        plain.append(f"operand_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text)
    return free_names(plain, {"product", "tiling", "MatrixProduct", "Tiling"})


class _Kernel:
    def __init__(self, contraction: Contraction, options: CubeOptions, tiling: CubeTiling, name: str) -> None:
        self.c = contraction
        self.o = options
        self.t = tiling
        self.name = name
        self.write = Writer()
        self.element = CTYPES[contraction.dtype]
        self.sums = CTYPES[contraction.accumulator]
        self.result = CTYPES[contraction.out]
        self.splits = options.split_k and contraction.adds_up

    # --- the file ---------------------------------------------------------------------------------------

    def text(self, summary: list[str]) -> str:
        w = self.write
        for line in summary:
            w(*textwrap.wrap(line, 108, initial_indent="// ", subsequent_indent="//     "))
        w('#include "kernel_operator.h"', "", "using namespace AscendC;", "")
        with self._class("struct Tiling"):
            for ctype, field, note in FIELDS:
                w(f"{ctype} {field};" + (f"  // {note}" if note else ""))
        w("")
        self._constants()
        w("", "__aicore__ inline int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }")
        w("__aicore__ inline int32_t CeilTo(int32_t a, int32_t unit) { return CeilDiv(a, unit) * unit; }")
        w("__aicore__ inline int32_t Min(int32_t a, int32_t b) { return a < b ? a : b; }", "")
        with self._class("class MatrixProduct"):
            self._public()
            w("")
            w.depth -= 1
            w("private:")
            w.depth += 1
            self._types()
            self._tiles()
            self._packets()
            self._copies()
            self._loads()
            self._steps()
            self._members()
        w("")
        a, b, c, bias = identifiers(self.c.names)
        pointers = [f"GM_ADDR {x}" for x in ((a, b, bias, c) if self.c.bias else (a, b, c))]
        start = f'extern "C" __global__ __aicore__ void {self.name}('
        parameters = ", ".join([*pointers, "Tiling tiling"]) + ")"
        head = start + parameters if len(start + parameters) < 105 else f"{start}\n    {parameters}"
        with w.block(head):
            # One whose cores wait for each other is none for cube cores only, though it runs on no others.
            kind = "MIX_AIC_1_0" if self.splits else "AIC_ONLY"
            w(f"KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});")
            if self.c.dtype != "int8":
                w(f"set_ctrl(sbitset1(get_ctrl(), {IEEE_MODE}));  // infinity and NaN as they are")
            w("MatrixProduct product;")
            w(f"product.Init({', '.join((a, b, bias, c) if self.c.bias else (a, b, c))}, tiling);")
            w("product.Run();")
        return w.text()

    def _class(self, head: str) -> _Braces:
        return _Braces(self.write, head)

    def _constants(self) -> None:
        t, w = self.t, self.write
        w(
            f"constexpr int32_t buffersL1 = {t.l1_buffers}, buffersL0 = {t.l0_buffers}, "
            f"buffersL0C = {t.l0c_buffers};"
        )
        w(f"constexpr int32_t block = {self.c.block};  // elements of 32 bytes")
        w(
            f"constexpr int32_t unitM = {self.c.row_unit}, unitN = {self.c.column_unit}, "
            f"unitK = {self.c.depth_unit};"
        )
        if self.c.bias:
            w(f"constexpr int32_t biasRow = {BIAS_ROW};  // elements that the bias table holds")

    # --- the class --------------------------------------------------------------------------------------

    def _public(self) -> None:
        w, c, t = self.write, self.c, self.t
        w.depth -= 1
        w("public:")
        w.depth += 1
        bias = "GM_ADDR biasAddress, " if c.bias else ""
        with w.block(
            f"    __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, {bias}GM_ADDR c, const Tiling& tiling)"
        ):
            w("t = tiling;", "sizeA = t.baseM * t.packetA;", "sizeB = t.baseN * t.packetB;")
            first = ("", "")
            if self.splits:
                w(
                    "// This core's part of k.",
                    "kCore = GetBlockIdx() / (t.nCores * t.mCores * t.batchCores);",
                    "const int64_t units = CeilDiv(t.k, unitK);",
                    "const int32_t kFirst = static_cast<int32_t>(kCore * units / t.kCores) * unitK;",
                    "t.k = Min(static_cast<int32_t>((kCore + 1) * units / t.kCores) * unitK, t.k) - kFirst;",
                )
                first = (
                    " + static_cast<int64_t>(kFirst) * t.aPitch" if c.transpose_a else " + kFirst",
                    " + kFirst" if c.transpose_b else " + static_cast<int64_t>(kFirst) * t.bPitch",
                )
            w(f"aGlobal.SetGlobalBuffer(reinterpret_cast<__gm__ {self.element}*>(a){first[0]});")
            w(f"bGlobal.SetGlobalBuffer(reinterpret_cast<__gm__ {self.element}*>(b){first[1]});")
            w(f"cGlobal.SetGlobalBuffer(reinterpret_cast<__gm__ {self.result}*>(c));")
            if c.bias:
                w(f"biasGlobal.SetGlobalBuffer(reinterpret_cast<__gm__ {CTYPES[c.bias]}*>(biasAddress));")
            if self.o.cache_hint:
                w(
                    "// What is read once goes past L2, which is kept for what is read again.",
                    "if (t.onceA) aGlobal.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);",
                    "if (t.onceB) bGlobal.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);",
                )
            size = c.size
            w(f"pipe.InitBuffer(aPackets, buffersL1 * sizeA * {size});")
            w(f"pipe.InitBuffer(bPackets, buffersL1 * sizeB * {size});")
            w(f"pipe.InitBuffer(aSteps, buffersL0 * t.baseM * t.baseK * {size});")
            w(f"pipe.InitBuffer(bSteps, buffersL0 * t.baseN * t.baseK * {size});")
            w("pipe.InitBuffer(results, buffersL0C * t.baseM * t.baseN * 4);")
            if c.bias:
                w(f"pipe.InitBuffer(biasRows, buffersL1 * biasRow * {SIZES[c.bias]});")
                w("pipe.InitBuffer(biasTable, biasRow * 4);")
        w("")
        with w.block("__aicore__ inline void Run()"):
            w(
                "const int32_t core = GetBlockIdx();",
                "nCore = core % t.nCores;",
                "mCore = core / t.nCores % t.mCores;",
                "const int32_t batchCore = core / (t.nCores * t.mCores) % t.batchCores;",
                "firstMatrix = static_cast<int64_t>(batchCore) * t.batch / t.batchCores;",
                "const int32_t matrices =",
                "    static_cast<int64_t>(batchCore + 1) * t.batch / t.batchCores - firstMatrix;",
                "tiles = matrices * t.rounds * t.mTiles * t.nTiles;",
                "if (tiles == 0) return;",
            )
            if self.o.unit_flag:
                w("SetMMLayoutTransform(true);  // along n first, as Fixpipe takes the fractals away")
            w("Open();")
            if t.l1_buffers == 2:
                w("FinishA();", "FinishB();")
                if c.bias:
                    w("CopyBias(0);")
            with w.block("for (int32_t i = 0; i < tiles; ++i)"):
                w("const Tile tile = At(i);")
                if c.bias:
                    w("if (i + 1 < tiles) CopyBias(i + 1);" if t.l1_buffers == 2 else "CopyBias(i);")
                    w("LoadBias(i, tile);")
                if not self.o.unit_flag:
                    w("WaitFlag<HardEvent::FIX_M>(i % buffersL0C);")
                w("for (int32_t k = 0; k < t.k; k += t.baseK) Step(i, tile, k);")
                w("Store(i, tile);")
            w("Close();")

    def _types(self) -> None:
        w = self.write
        with self._class("struct Tile"):
            w("int64_t matrix;", "int32_t m0, m, n0, n;")
        w("// The packets of an operand on their way into L1, and the one that is multiplied.")
        with self._class("struct Packets"):
            w("int32_t tile, k, part;  // of the next copy", "int32_t copied, used;")
        w("")

    def _tiles(self) -> None:
        w = self.write
        w(
            "// Tile number i of this core. Rows and columns are shared out in units, as evenly as they go:",
            "// tile j of J covers the units from j * units / J to (j + 1) * units / J.",
        )
        with w.block("__aicore__ inline Tile At(int32_t i) const"):
            w(
                "Tile tile;",
                "const int32_t round = i / (t.nTiles * t.mTiles) % t.rounds;",
                "const int32_t column = (round * t.nCores + nCore) * t.nTiles + i % t.nTiles;",
                "const int32_t row = mCore * t.mTiles + i / t.nTiles % t.mTiles;",
                "tile.matrix = firstMatrix + i / (t.nTiles * t.mTiles * t.rounds);",
                "Share(t.m, t.shareM, row, t.mCores * t.mTiles, tile.m0, tile.m);",
                "Share(t.n, t.shareN, column, t.rounds * t.nCores * t.nTiles, tile.n0, tile.n);",
                "return tile;",
            )
        with w.block(
            "__aicore__ inline void Share(int32_t extent, int32_t unit, int32_t j, int32_t parts,\n"
            f"{SECOND_LINE}int32_t& start, int32_t& size) const"
        ):
            w(
                "const int64_t units = CeilDiv(extent, unit);",
                "start = static_cast<int32_t>(j * units / parts) * unit;",
                "size = Min(static_cast<int32_t>((j + 1) * units / parts) * unit, extent) - start;",
            )
        w(
            "",
            "// Whether the packet of tile i - 1 in L1 is what tile i needs: all of k, of the same rows.",
        )
        for which, start in (("A", "m0"), ("B", "n0")):
            with w.block(f"__aicore__ inline bool Stays{which}(int32_t i) const"):
                w(f"if (t.k > t.packet{which} || i == 0 || i >= tiles) return false;")
                w("const Tile before = At(i - 1), tile = At(i);")
                batch = f"t.{which.lower()}Batch"
                w(
                    f"return before.matrix * {batch} == tile.matrix * {batch} &&",
                    f"       before.{start} == tile.{start};",
                )
        w("")

    def _packets(self) -> None:
        w = self.write
        w("// The reverse events: every buffer is free at first.")
        ids = self._events()
        with w.block("__aicore__ inline void Open()"):
            for event, numbers in ids:
                for number in numbers:
                    w(f"SetFlag<HardEvent::{event}>({number});")
        with w.block("__aicore__ inline void Close()"):
            for event, numbers in ids:
                for number in numbers:
                    w(f"WaitFlag<HardEvent::{event}>({number});")
        w("")
        for which in "AB":
            lower = which.lower()
            offset = 0 if which == "A" else self.t.l1_buffers
            copied = f"{lower}.copied % buffersL1" + (f" + {offset}" if offset else "")
            used = f"({lower}.used - 1) % buffersL1" + (f" + {offset}" if offset else "")
            parts = 2 if self.t.l1_buffers == 2 else 1  # one buffer is filled at once
            what = "A part of the next packet: some of its rows." if parts > 1 else "The next packet."
            w(f"// {what}")
            with w.block(f"__aicore__ inline void Copy{which}()"):
                w(f"if ({lower}.tile >= tiles) return;")
                w(f"const Tile tile = At({lower}.tile);")
                w(f"const int32_t k = Min(t.packet{which}, t.k - {lower}.k);")
                wait = f"WaitFlag<HardEvent::MTE1_MTE2>({copied});"
                w(f"if ({lower}.part == 0) {wait}" if parts > 1 else wait)
                self._copy_call(which, parts)
                if parts > 1:
                    w(f"if (++{lower}.part < t.parts{which}) return;", f"{lower}.part = 0;")
                w(f"SetFlag<HardEvent::MTE2_MTE1>({copied});")
                w(f"++{lower}.copied;", f"{lower}.k += t.packet{which};")
                w(f"if ({lower}.k < t.k) return;")
                w(f"{lower}.k = 0;", f"do ++{lower}.tile; while (Stays{which}({lower}.tile));")
            with w.block(f"__aicore__ inline void Finish{which}()"):
                if parts > 1:
                    w(f"do Copy{which}(); while ({lower}.part != 0);")
                else:
                    w(f"Copy{which}();")
            w("// Where a step begins a packet, the packet is waited for and the next one sent for.")
            with w.block(f"__aicore__ inline void Enter{which}(int32_t i, int32_t k)"):
                stays = f"k == 0 && Stays{which}(i)"
                if self.t.l1_buffers == 1:
                    w(f"if (k % t.packet{which} != 0 || ({stays})) return;", f"Finish{which}();")
                    w(f"++{lower}.used;", f"WaitFlag<HardEvent::MTE2_MTE1>({used});")
                elif parts == 1:
                    w(f"if (k % t.packet{which} != 0 || ({stays})) return;", f"Copy{which}();")
                    w(f"++{lower}.used;", f"WaitFlag<HardEvent::MTE2_MTE1>({used});")
                else:
                    w(f"if (k % (t.packet{which} / t.parts{which}) != 0) return;")
                    with w.block(f"if (k % t.packet{which} == 0 && !({stays}))"):
                        w(
                            f"if ({lower}.part != 0) Finish{which}();",
                            f"++{lower}.used;",
                            f"WaitFlag<HardEvent::MTE2_MTE1>({used});",
                            f"Copy{which}();",
                            "return;",
                        )
                    w(f"if ({lower}.part != 0) Copy{which}();")
            with w.block(f"__aicore__ inline void Leave{which}(int32_t i, int32_t k)"):
                w("const bool last = k + t.baseK >= t.k;")
                w(f"if ((last && !Stays{which}(i + 1)) || (!last && (k + t.baseK) % t.packet{which} == 0))")
                w(f"    SetFlag<HardEvent::MTE1_MTE2>({used});")
        w("")

    def _events(self) -> list[tuple[str, list[int]]]:
        """Events that say that a buffer is free, with their ids. M_MTE1 0 to 2 belong to the pipe object."""
        count = self.t.l1_buffers
        events = [("MTE1_MTE2", list(range(2 * count + (count if self.c.bias else 0))))]
        steps = [4 + i for i in range(self.t.l0_buffers)]
        events.append(("M_MTE1", [*steps, 6] if self.c.bias else steps))
        if not self.o.unit_flag:
            events.append(("FIX_M", list(range(self.t.l0c_buffers))))
        return events

    def _copy_call(self, which: str, parts: int) -> None:
        w, c = self.write, self.c
        start, extent = ("m0", "m") if which == "A" else ("n0", "n")
        lower, upper = which.lower(), extent.upper()
        transposed = c.transpose_a if which == "A" else not c.transpose_b
        rows, columns = ("k", f"tile.{extent}") if transposed else (f"tile.{extent}", "k")
        height = f"CeilTo({rows}, unit{'K' if transposed else upper})"
        at = f"tile.matrix * t.{lower}Batch"
        first, count = "0", rows
        if parts > 1:
            first, count = "first", f"({lower}.part + 1) * {rows} / t.parts{which} - first"
            w(f"const int32_t first = {lower}.part * {rows} / t.parts{which};")
        if transposed:
            row = f"{lower}.k + {first}" if parts > 1 else f"{lower}.k"
            column = f"tile.{start}"
        else:
            row = f"tile.{start} + {first}" if parts > 1 else f"tile.{start}"
            column = f"{lower}.k"
        shift = f" + {first} * block" if parts > 1 else ""
        twice = "tile.m == 1" if which == "A" and not transposed else "false"
        w(
            f"CopyIn({lower}Packets.Get<{self.element}>()[{lower}.copied % buffersL1 * size{which}{shift}],",
            f"       {lower}Global[{at} + static_cast<int64_t>({row}) * t.{lower}Pitch + {column}],",
            f"       {count}, {columns}, {height}, t.{lower}Pitch, {twice});",
        )

    def _copies(self) -> None:
        w, c = self.write, self.c
        w("// Rows and columns of GM into L1 as NZ with `height` rows to a block of columns.")
        element = self.element
        with w.block(
            f"__aicore__ inline void CopyIn(const LocalTensor<{element}>& to, "
            f"const GlobalTensor<{element}>& from,\n{SECOND_LINE}"
            "int32_t rows, int32_t columns, int32_t height, int32_t pitch, bool twice)"
        ):
            w("if (rows == 0) return;")
            w(
                "Nd2NzParams nz;",
                "nz.ndNum = 1;",
                "nz.nValue = rows;",
                "nz.dValue = columns;",
                "nz.srcNdMatrixStride = 0;",
                "nz.srcDValue = pitch;",
                "nz.dstNzC0Stride = height;",
                "nz.dstNzNStride = 1;",
                "nz.dstNzMatrixStride = 0;",
            )
            w("// Mmad takes a single row of A for a vector in another layout: it gets the row twice.")
            with w.block("if (twice)"):
                w("nz.ndNum = 2;", "nz.dstNzMatrixStride = block;")
            w("// A pitch that the field does not hold: row by row.")
            w("const int32_t copies = pitch > 65535 ? rows : 1;")
            with w.block("if (copies > 1 || rows == 1)"):
                w("nz.nValue = 1;", "nz.srcDValue = 1;")
            w("for (int32_t row = 0; row < copies; ++row)")
            w("    DataCopy(to[row * block], from[static_cast<int64_t>(row) * pitch], nz);")
        if c.bias:
            first = 2 * self.t.l1_buffers
            with w.block("__aicore__ inline void CopyBias(int32_t i)"):
                w(
                    "const Tile tile = At(i);",
                    f"const int32_t buffer = i % buffersL1, id = buffer + {first};",
                    "WaitFlag<HardEvent::MTE1_MTE2>(id);",
                    "Nd2NzParams nz;",
                    "nz.ndNum = 1;",
                    "nz.nValue = 1;",
                    "nz.dValue = tile.n;",
                    "nz.srcNdMatrixStride = 0;",
                    "nz.srcDValue = 1;",
                    "nz.dstNzC0Stride = 1;",
                    "nz.dstNzNStride = 1;",
                    "nz.dstNzMatrixStride = 0;",
                    f"DataCopy(biasRows.Get<{CTYPES[c.bias]}>()[buffer * biasRow],",
                    "         biasGlobal[tile.matrix * t.biasBatch + tile.n0], nz);",
                    "SetFlag<HardEvent::MTE2_MTE1>(id);",
                )
            with w.block("__aicore__ inline void LoadBias(int32_t i, const Tile& tile)"):
                w(
                    f"const int32_t buffer = i % buffersL1, id = buffer + {first};",
                    "WaitFlag<HardEvent::MTE2_MTE1>(id);",
                    "WaitFlag<HardEvent::M_MTE1>(6);",
                    "DataCopyParams line;",
                    "line.blockCount = 1;",
                    "line.blockLen = CeilDiv(tile.n * 4, 64);",
                    f"DataCopy(biasTable.Get<{self.sums}>(),",
                    f"         biasRows.Get<{CTYPES[c.bias]}>()[buffer * biasRow], line);",
                    "SetFlag<HardEvent::MTE1_MTE2>(id);",
                )
        w("")

    # --- one step ---------------------------------------------------------------------------------------

    def _load_3d(self, rows: str, columns: str, m_start: str, m_extension: str, transpose: bool) -> None:
        self.write(
            f"LoadData3DParamsV2<{self.element}> load;",
            "load.l1H = 1;",
            f"load.l1W = {rows};",
            f"load.channelSize = {columns};",
            f"load.kExtension = {columns};",
            f"load.mStartPt = {m_start};",
            f"load.mExtension = {m_extension};",
            f"load.enTranspose = {'true' if transpose else 'false'};",
        )

    def _loads(self) -> None:
        w, c, element = self.write, self.c, self.element
        signature = (
            f"(const LocalTensor<{element}>& to, const LocalTensor<{element}>& from,\n{SECOND_LINE}"
            "int32_t k0, int32_t height, int32_t {extent}, int32_t k)"
        )
        w(
            "// `k` steps of a packet from `k0` on, into L0A as Zz and L0B as Zn; `height` rows to a block",
            "// of columns in L1.",
        )
        with w.block("__aicore__ inline void LoadA" + signature.format(extent="m")):
            if not c.transpose_a:
                self._load_3d("height", "CeilTo(k, block)", "0", "height", False)
                w("LoadData(to, from[k0 * height], load);")
            elif c.dtype != "int8":
                self._load_3d("height", "CeilTo(m, block)", "k0", "CeilTo(k, unitK)", True)
                w("LoadData(to, from, load);")
            else:
                w(
                    "const int32_t blocks = CeilDiv(k, block);",
                    "LoadData2dTransposeParams load;",
                    "load.startIndex = k0 / unitK;",
                    "load.repeatTimes = blocks;",
                    "load.srcStride = 1;",
                    "load.dstGap = 0;",
                    "load.dstFracGap = blocks - 1;",
                    "for (int32_t i = 0; i < CeilDiv(m, unitM); ++i)",
                    "    LoadDataWithTranspose(to[i * blocks * 2 * 512], from[i * height * block], load);",
                )
        with w.block("__aicore__ inline void LoadB" + signature.format(extent="n")):
            if c.transpose_b:
                w(
                    "// As it lies there: fractal by fractal, all at once if the field holds their number.",
                    "const int32_t rows = height / 16, blocks = CeilDiv(k, block);",
                    "const int32_t times = rows * blocks > 255 ? blocks : 1;",
                    "LoadData2DParams load;",
                    "load.srcStride = 1;",
                    "load.ifTranspose = false;",
                    "load.repeatTimes = rows * blocks / times;",
                    "for (int32_t i = 0; i < times; ++i)",
                    "    LoadData(to[i * height * block], from[(k0 + i * block) * height], load);",
                )
            elif c.dtype != "int8":
                self._load_3d("height", "CeilTo(n, block)", "k0", "CeilTo(k, unitK)", True)
                w("LoadData(to, from, load);")
            else:
                w(
                    "LoadData2dTransposeParams load;",
                    "load.repeatTimes = CeilDiv(n, block);",
                    "load.srcStride = height / unitK;",
                    "load.dstGap = 1;",
                    "load.dstFracGap = 0;",
                    "for (int32_t i = 0; i < CeilDiv(k, unitK); ++i)",
                    "    LoadDataWithTranspose(to[i * CeilTo(n, unitN) * block],",
                    "                          from[(k0 + i * unitK) * block], load);",
                )
        w("")

    def _steps(self) -> None:
        w, c, o, element = self.write, self.c, self.o, self.element
        with w.block("__aicore__ inline void Step(int32_t i, const Tile& tile, int32_t k)"):
            w("EnterA(i, k);", "EnterB(i, k);")
            w("const int32_t side = steps++ % buffersL0, size = Min(t.baseK, t.k - k);")
            w(f"const LocalTensor<{element}> aStep = aSteps.Get<{element}>()[side * t.baseM * t.baseK];")
            w(f"const LocalTensor<{element}> bStep = bSteps.Get<{element}>()[side * t.baseN * t.baseK];")
            w("WaitFlag<HardEvent::M_MTE1>(4 + side);")
            for which, extent, transposed in (("A", "m", c.transpose_a), ("B", "n", not c.transpose_b)):
                lower = which.lower()
                left = f"Min(t.packet{which}, t.k - k / t.packet{which} * t.packet{which})"
                height = (
                    f"CeilTo({left}, unitK)" if transposed else f"CeilTo(tile.{extent}, unit{extent.upper()})"
                )
                packet = f"{lower}Packets.Get<{element}>()[({lower}.used - 1) % buffersL1 * size{which}]"
                w(f"Load{which}({lower}Step, {packet}, k % t.packet{which},")
                w(f"      {height}, tile.{extent}, size);")
            w("LeaveA(i, k);", "LeaveB(i, k);")
            w("SetFlag<HardEvent::MTE1_M>(side);", "WaitFlag<HardEvent::MTE1_M>(side);")
            w("MmadParams mmad;")
            w("mmad.m = tile.m == 1 ? 2 : tile.m;")
            w("mmad.n = CeilTo(tile.n, unitN);" if c.column_unit == 32 else "mmad.n = tile.n;")
            w("mmad.k = size;")
            if c.dtype == "float32" and c.transpose_a:
                w("mmad.kDirectionAlign = true;")
            w("mmad.cmatrixInitVal = k == 0;")
            if o.unit_flag:
                w("mmad.unitFlag = k + t.baseK >= t.k ? 3 : 2;")
            w(
                f"const LocalTensor<{self.sums}> sums =",
                f"    results.Get<{self.sums}>()[i % buffersL0C * t.baseM * t.baseN];",
            )
            if c.bias:
                w(
                    "if (k == 0) mmad.cmatrixInitVal = false;",
                    f"if (k == 0) Mmad(sums, aStep, bStep, biasTable.Get<{self.sums}>(), mmad);",
                    "if (k == 0) SetFlag<HardEvent::M_MTE1>(6);",
                    "if (k > 0) Mmad(sums, aStep, bStep, mmad);",
                )
            else:
                w("Mmad(sums, aStep, bStep, mmad);")
            w("// Small results follow each other faster than they are complete.")
            w("if ((mmad.m / 16) * (mmad.n / 16) < 10) PipeBarrier<PIPE_M>();")
            w("SetFlag<HardEvent::M_MTE1>(4 + side);")
        mode = RESULTS[c.accumulator, c.out]
        with w.block("__aicore__ inline void Store(int32_t i, const Tile& tile)"):
            if not o.unit_flag:
                w("SetFlag<HardEvent::M_FIX>(i % buffersL0C);", "WaitFlag<HardEvent::M_FIX>(i % buffersL0C);")
            w(
                "FixpipeParamsV220 out;",
                "out.nSize = tile.n;",
                "out.mSize = tile.m;",
                "out.srcStride = CeilTo(tile.m, 16);",
                "out.dstStride = t.cPitch;",
                f"out.quantPre = QuantMode_t::{mode};",
            )
            if mode == "DEQF16":
                w("out.deqScalar = 0x3f800000;  // 1.0")
            if c.relu:
                w("out.reluEn = true;")
            if o.unit_flag:
                w("out.unitFlag = 3;")
            if self.splits:
                w("// The cores of a tile add their sums in turn, so that the result is always the same.")
                with w.block("for (int32_t turn = 0; turn < t.kCores; ++turn)"):
                    with w.block("if (turn == kCore)"):
                        w(f"if (turn > 0) SetAtomicAdd<{self.result}>();")
                        self._fixpipe()
                        w("if (turn > 0) SetAtomicNone();")
                    w("if (turn + 1 == t.kCores) break;")
                    w("CrossCoreSetFlag<0, PIPE_FIX>(0);", "CrossCoreWaitFlag(0);")
            else:
                self._fixpipe()
            if not o.unit_flag:
                w("SetFlag<HardEvent::FIX_M>(i % buffersL0C);")
        w("")

    def _fixpipe(self) -> None:
        self.write(
            f"Fixpipe<{self.result}, {self.sums}, CFG_ROW_MAJOR>(",
            "    cGlobal[tile.matrix * t.cBatch + static_cast<int64_t>(tile.m0) * t.cPitch + tile.n0],",
            f"    results.Get<{self.sums}>()[i % buffersL0C * t.baseM * t.baseN], out);",
        )

    def _members(self) -> None:
        w, c = self.write, self.c
        w("Tiling t;", "TPipe pipe;", f"GlobalTensor<{self.element}> aGlobal, bGlobal;")
        w(f"GlobalTensor<{self.result}> cGlobal;")
        w("TBuf<TPosition::A1> aPackets;", "TBuf<TPosition::B1> bPackets;")
        w("TBuf<TPosition::A2> aSteps;", "TBuf<TPosition::B2> bSteps;", "TBuf<TPosition::CO1> results;")
        if c.bias:
            w(f"GlobalTensor<{CTYPES[c.bias]}> biasGlobal;")
            w("TBuf<TPosition::C1> biasRows;", "TBuf<TPosition::C2> biasTable;")
        w("int64_t firstMatrix = 0;", "int32_t mCore = 0, nCore = 0, tiles = 0, steps = 0;")
        if self.splits:
            w("int32_t kCore = 0;")
        w("int32_t sizeA = 0, sizeB = 0;  // elements of a packet's buffer")
        w("Packets a{0, 0, 0, 0, 0}, b{0, 0, 0, 0, 0};")


class _Braces:
    """A type's declaration: braces, and a semicolon after them."""

    def __init__(self, write: Writer, head: str) -> None:
        self.write = write
        self.head = head

    def __enter__(self) -> None:
        self.write(f"{self.head} {{")
        self.write.depth += 1

    def __exit__(self, *error: object) -> None:
        self.write.depth -= 1
        self.write("};")
