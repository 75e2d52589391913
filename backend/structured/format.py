"""Structured kernels as text."""

from __future__ import annotations

from .. import structured as s
from ..ir import Stride

_AXES = "ijklmn"


def format_structured(kernel: s.StructuredKernel, binding: s.StructuredBinding | None = None) -> str:
    """The kernel as text, one statement a line; with the sizes of a launch where they are given."""
    return _Formatter(kernel, binding).text()


class _Formatter:
    def __init__(self, kernel: s.StructuredKernel, binding: s.StructuredBinding | None) -> None:
        self.kernel = kernel
        self.binding = binding
        self.lines: list[tuple[str, str]] = []

    def axis(self, axis: int) -> str:
        return _AXES[axis] if axis < len(_AXES) else f"i{axis}"

    def text(self) -> str:
        kernel = self.kernel
        params = [
            f"{self.way(a)}{a.name}: {a.dtype.name}[{self.layout(n)}]" for n, a in enumerate(kernel.arrays)
        ]
        params += [f"#{n}: {dtype.name}" for n, dtype in enumerate(kernel.scalars)]
        self.put(0, f"kernel {kernel.name}({', '.join(params)})")
        for n, buffer in enumerate(kernel.buffers):
            shape = ", ".join(map(str, buffer.shape))
            name = self.name(len(kernel.arrays) + n)
            self.put(2, f"buffer {name} in {buffer.position}: {buffer.dtype.name}[{shape}]")
        for n, function in enumerate(kernel.functions):
            types = ", ".join(p.name for p in function.parameters)
            self.put(2, f"function {n} is {function.name}({types}) -> {function.result.name}")
        for n, dtype in enumerate(kernel.variables):
            self.put(2, f"variable v{n}", dtype.name)
        names = [self.axis(k) for k in range(kernel.axes)]
        sizes = map(str, self.binding.grid) if self.binding else (f"g{name}" for name in names)
        grid = ", ".join(f"{name} < {size}" for name, size in zip(names, sizes, strict=False))
        blocks = f" in blocks of {' × '.join(map(str, kernel.block))}" if kernel.block else ""
        self.put(2, f"parallel {grid}{blocks}:")
        self.block(kernel.body, 4)
        width = max((len(left) for left, right in self.lines if right), default=0)
        return "\n".join(f"{left:<{width}} : {right}" if right else left for left, right in self.lines)

    def put(self, indent: int, text: str, dtype: str = "") -> None:
        self.lines.append((" " * indent + text, dtype))

    @staticmethod
    def way(array: s.Array) -> str:
        if array.writes:
            return "in out " if array.reads else "out "
        return ""

    def layout(self, array: int) -> str:
        classes = self.kernel.arrays[array].layout
        if self.binding is not None and array < len(self.binding.shapes):
            shape, strides = self.binding.shapes[array], self.binding.strides[array]
            return ", ".join(f"{e}:{st}" for e, st in zip(shape, strides, strict=False))
        named = {Stride.ZERO: "0", Stride.UNIT: "1"}
        return ", ".join(f"n{k}:{named.get(c, f's{k}')}" for k, c in enumerate(classes))

    def name(self, array: int) -> str:
        """The array's name; with its number where another one has the same."""
        kernel = self.kernel
        if not 0 <= array < len(kernel.arrays) + len(kernel.buffers):
            return f"?{array}"
        name = kernel.storage(array).name
        names = [a.name for a in kernel.arrays] + [b.name for b in kernel.buffers]
        return name if names.count(name) == 1 else f"{name}.{array}"

    def element(self, array: int, indices: tuple[int, ...]) -> str:
        return f"{self.name(array)}[{', '.join(f'%{i}' for i in indices)}]"

    def region(self, region: s.Region) -> str:
        borders = ", ".join(f"%{a}:%{b}" for a, b in zip(region.starts, region.stops, strict=False))
        return f"{self.name(region.array)}[{borders}]"

    def block(self, body: s.Block, indent: int) -> None:
        for statement in body:
            self.statement(statement, indent)
        if not body:
            self.put(indent, "pass")

    def statement(self, statement: s.Statement, indent: int) -> None:
        match statement:
            case s.Let(value, _, dtype):
                self.put(indent, f"%{value} = {self.computed(statement)}", dtype.name)
            case s.Set(variable, value):
                self.put(indent, f"v{variable} = %{value}")
            case s.Store(array, indices, value, _):
                self.put(indent, f"{self.element(array, indices)} = %{value}")
            case s.Atomic(how, array, indices, value, _, result):
                given = f"%{result} = " if result >= 0 else ""
                self.put(indent, f"{given}atomic {how} {self.element(array, indices)}, %{value}")
            case s.If(condition, then, orelse):
                self.put(indent, f"if %{condition}:")
                self.block(then, indent + 2)
                if orelse:
                    self.put(indent, "else:")
                    self.block(orelse, indent + 2)
            case s.For(value, start, stop, step, body):
                by = "" if step == 1 else f" by {step}"
                self.put(indent, f"for %{value} from %{start} to %{stop}{by}:")
                self.block(body, indent + 2)
            case s.While(head, condition, body):
                self.put(indent, "while:")
                self.block(head, indent + 2)
                self.put(indent, f"holds %{condition}:")
                self.block(body, indent + 2)
            case s.Span(values, extents, body):
                box = ", ".join(f"%{v} < %{e}" for v, e in zip(values, extents, strict=False))
                self.put(indent, f"span {box}:")
                self.block(body, indent + 2)
            case s.TileCopy(target, source, _):
                self.put(indent, f"copy {self.region(target)} = {self.region(source)}")
            case s.TileApply(op, out, args, count, attrs):
                extra = f" {list(attrs)}" if attrs else ""
                of = ", ".join(self.name(n) if kind == "buffer" else f"%{n}" for kind, n in args)
                self.put(indent, f"apply {self.name(out)} = {op}{extra} {of} for %{count}")
            case s.TileReduce(how, out, source, rows, columns, accumulate):
                self.put(
                    indent,
                    f"reduce {self.name(out)} {'with' if accumulate else '='} {how} "
                    f"{self.name(source)}[:%{rows}, :%{columns}]",
                )
            case s.TileProduct(c, a, b, m, n, k, accumulate):
                self.put(
                    indent,
                    f"product {self.name(c)}[:%{m}, :%{n}] = {self.name(a)}[:, :%{k}] @ {self.name(b)}, "
                    f"added where %{accumulate}",
                )
            case _:
                self.put(indent, type(statement).__name__.lower())

    def computed(self, let: s.Let) -> str:
        args, attrs = ", ".join(f"%{a}" for a in let.args), let.attrs
        match let.op:
            case "load":
                return f"load {self.element(attrs[0], let.args)}"
            case "extent":
                return f"extent {self.name(attrs[0])}, {attrs[1]}"
            case "scalar":
                return f"scalar #{attrs[0]}"
            case "const":
                return f"const {attrs[0]!r}"
            case "get":
                return f"v{attrs[0]}"
            case "call":
                return f"call {self.kernel.functions[attrs[0]].name} {args}".rstrip()
            case "global_id" | "local_id" | "group_id" | "global_size" | "block_size":
                return f"{let.op} {self.axis(attrs[0])}"
        extra = f" {list(attrs)}" if attrs else ""
        return f"{let.op}{extra} {args}"
