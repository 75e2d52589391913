"""Faults seeded one at a time into generated Ascend C, run many to a translation unit.

A mutant is the text of a kernel with one thing wrong. What finds it is a check of the simulator, or, where
every access is still right, the result.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import pyasc
from pyasc.backend.ascend import chip, vector_kernel
from pyasc.backend.ascend.cube import Contraction, CubeOptions, CubeSizes
from pyasc.backend.ascend.cube import generate as generate_product
from pyasc.backend.ascend.vector_kernel import ALL, Options, VectorTuning
from pyasc.backend.sim.simulator import Finding, Module, Simulator

Array = npt.NDArray[Any]
CHIP = chip.load("910B1")
SENTINEL = 77
FOUND_BY_ORDER = frozenset({"race", "deadlock", "queue"})


@dataclass(frozen=True)
class Subject:
    """A kernel that is run with and without faults.

    Attributes
    ----------
    name : str
    function : str
        Of the kernel.
    source : str
    cores : str
    blocks : int
    tiling : bytes
    buffers : tuple of array
        Arguments in GM, as they are before a run.
    outputs : tuple of int
        Which of them are results.
    """

    name: str
    function: str
    source: str
    cores: str
    blocks: int
    tiling: bytes
    buffers: tuple[Array, ...]
    outputs: tuple[int, ...]

    def with_short_buffer(self, number: int) -> Subject:
        """An argument that ends one block of 32 bytes earlier."""
        buffers = list(self.buffers)
        buffers[number] = buffers[number][: -max(1, 32 // buffers[number].itemsize)]
        return replace(self, buffers=tuple(buffers))


@dataclass(frozen=True)
class Edit:
    """A part of a line that becomes another expression; with `end` -1 the line is left out."""

    line: int
    start: int = 0
    end: int = -1
    text: str = ""


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes
    ----------
    what : str
        For messages.
    edits : tuple of Edit
        What makes it.
    kinds : frozenset of str
        Of the findings any of which is right.
    or_result : bool
        Whether another result without a finding is right too.
    """

    what: str
    edits: tuple[Edit, ...]
    kinds: frozenset[str]
    or_result: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of a run: a finding's kind and message, or whether the result was the right one."""

    kind: str
    message: str
    same: bool

    def __str__(self) -> str:
        return self.message or ("nothing found, the same result" if self.same else "another result")


# --- kernels ---------------------------------------------------------------------------------------------


def numbers(dtype: np.dtype[Any], count: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if dtype.kind in "iub":
        return random.integers(0, 2 if dtype.kind == "b" else 100, count).astype(dtype)
    return (random.standard_normal(count) + 2).astype(dtype)


def vector(
    name: str,
    function: Callable[..., Any],
    shapes: Sequence[tuple[int, ...]],
    dtype: str = "float32",
    blocks: int = 0,
    options: Options = ALL,
    smaller: Callable[[VectorTuning], VectorTuning] = lambda tuning: tuning,
    prepare: Callable[[Array], None] = lambda first: None,
) -> Subject:
    """A generated vector kernel, in tiles of a chosen size, on so many cores as asked for.

    `prepare` changes the first argument in place.
    """
    examples = [pyasc.empty(shape, getattr(pyasc, dtype)) for shape in shapes]
    info = pyasc.jit(function).explanation(f"sim:{CHIP.name}", *examples).kernels[0]
    assert info.work is not None and info.work.lowered is not None
    kernel, binding = info.work.lowered.kernel, info.work.lowered.binding
    tuning = smaller(vector_kernel.tune(kernel, binding, CHIP, options))
    made = vector_kernel.generate(kernel, tuning, CHIP)
    bound = made.bind(binding)
    buffers, outputs = [], []
    for number, parameter in enumerate(made.parameters):
        if parameter.kind == "workspace":
            buffers.append(np.zeros(bound.workspace, np.uint8))
        elif parameter.kind == "status":
            buffers.append(np.zeros((bound.blocks, 8), np.int64))
        else:
            assert parameter.dtype is not None
            count = info.work.sizes[parameter.operand] // parameter.dtype.itemsize
            if parameter.kind == "output":
                outputs.append(number)
                buffers.append(np.full(count, SENTINEL).astype(parameter.dtype))
            else:
                buffers.append(numbers(parameter.dtype, count, number))
    prepare(buffers[0][: int(np.prod(shapes[0]))].reshape(shapes[0]))
    scalars = [int(np.array([2.0]).astype(d).view(f"u{d.itemsize}")[0]) for d in kernel.scalars]
    return Subject(
        name, made.name, made.source, made.cores, blocks or bound.blocks, bound.tiling(scalars),
        tuple(buffers), tuple(outputs),
    )  # fmt: skip


def product(name: str, m: int, n: int, k: int, dtype: str, options: CubeOptions | None = None) -> Subject:
    """A generated matrix product on one core."""
    types = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
    made = generate_product(Contraction(m, n, k, dtype=dtype, out=dtype), CHIP, options)
    blocks, tiling, _ = made.bind(CubeSizes(m, n, k))
    kind = np.dtype(types[dtype])
    buffers = (
        numbers(kind, m * k, 0),
        numbers(kind, k * n, 1),
        np.full(m * n, SENTINEL).astype(kind),
    )
    return Subject(name, made.name, made.source, "cube", blocks, tiling, buffers, (2,))


# --- running ---------------------------------------------------------------------------------------------


def with_faults(source: str, mutants: Sequence[Mutant]) -> str:
    """A source in which a variable says which of its faults is there; 0 is none."""
    lines = source.split("\n")
    left_out: dict[int, list[int]] = {}
    changed: dict[int, dict[tuple[int, int], list[tuple[int, str]]]] = {}
    for number, mutant in enumerate(mutants, 1):
        for edit in mutant.edits:
            if edit.end < 0:
                left_out.setdefault(edit.line, []).append(number)
            else:
                spans = changed.setdefault(edit.line, {})
                spans.setdefault((edit.start, edit.end), []).append((number, edit.text))
    for line, spans in changed.items():
        text = lines[line]
        for (start, end), choices in sorted(spans.items(), reverse=True):
            chosen = "".join(f"fault == {number} ? ({other}) : " for number, other in choices)
            text = f"{text[:start]}({chosen}({text[start:end]})){text[end:]}"
        lines[line] = text
    for line, numbers in left_out.items():
        condition = " && ".join(f"fault != {number}" for number in numbers)
        lines[line] = f"if ({condition}) {{ {lines[line].strip()} }}"
    mark = next(n for n, text in enumerate(lines) if "using namespace AscendC;" in text)
    lines[mark] += ' extern "C" { int fault = 0; }'
    return "\n".join(lines)


def run(subject: Subject, module: Module) -> tuple[Outcome, list[Array]]:
    """One run of a kernel, and what it leaves."""
    buffers = [b.copy() for b in subject.buffers]
    kind = message = ""
    try:
        module.run(subject.blocks, [*buffers, subject.tiling], cores=subject.cores, kernel=subject.function)
    except Finding as error:
        kind, message = error.kind, str(error)
    return Outcome(kind, message, False), [buffers[n] for n in subject.outputs]


class Seeded:
    """A kernel with all its faults, compiled once.

    Parameters
    ----------
    subject : Subject
    mutants : sequence of Mutant
    """

    def __init__(self, subject: Subject, mutants: Sequence[Mutant]) -> None:
        self.subject, self.mutants = subject, mutants
        self._module = Simulator(CHIP, None).compile(with_faults(subject.source, mutants), "mutants")
        self._fault = ctypes.c_int.in_dll(self._module._library, "fault")
        outcome, self._expected = run(subject, self._module)
        assert not outcome.kind, outcome.message

    def unseen(self, chosen: Sequence[Mutant]) -> list[str]:
        """Which of some faults were not found, or not by a check meant for them."""
        missed = []
        for number, mutant in enumerate(self.mutants, 1):
            if mutant not in chosen:
                continue
            self._fault.value = number
            outcome, given = run(self.subject, self._module)
            same = all(a.tobytes() == b.tobytes() for a, b in zip(given, self._expected, strict=True))
            outcome = replace(outcome, same=same)
            if outcome.kind not in mutant.kinds and not (mutant.or_result and not outcome.kind and not same):
                missed.append(f"{mutant.what}: {outcome}")
        return missed


# --- faults ----------------------------------------------------------------------------------------------


WRONG_PLACE = frozenset({"bounds", "race", "uninitialised", "alignment"})


class Faults:
    """The faults that a source can have.

    Parameters
    ----------
    source : str
    harmless : str
        A pattern of descriptions of what is no fault in this kernel.
    """

    def __init__(self, source: str, harmless: str = "$^") -> None:
        self.lines = source.split("\n")
        self.harmless = harmless
        head = 'extern "C" __global__' if "class " not in source else "using namespace AscendC;"
        self.start = next(n for n, line in enumerate(self.lines) if head in line)

    def matching(self, pattern: str) -> Iterator[tuple[int, re.Match[str]]]:
        for number, line in enumerate(self.lines):
            if number > self.start and not line.lstrip().startswith("//"):
                for match in re.finditer(pattern, line):
                    yield number, match

    def __call__(self, *names: str) -> list[Mutant]:
        """All faults of some sorts."""
        found = [mutant for name in names for mutant in getattr(self, name)()]
        return [m for m in found if not re.search(self.harmless, m.what)]

    def _at(self, number: int) -> str:
        return f"line {number + 1}, {self.lines[number].strip()}"

    def without(self, pattern: str, kinds: frozenset[str], or_result: bool = False) -> Iterator[Mutant]:
        """Each line that matches left out."""
        for number in sorted({n for n, _ in self.matching(pattern)}):
            yield Mutant(f"left out {self._at(number)}", (Edit(number),), kinds, or_result)

    def replaced(
        self,
        pattern: str,
        by: Callable[[re.Match[str]], str | None],
        kinds: frozenset[str],
        or_result: bool = False,
    ) -> Iterator[Mutant]:
        """The group "it" of each match, an expression, replaced."""
        for number, match in self.matching(pattern):
            text = by(match)
            if text is not None:
                start, end = match.span("it")
                what = f"{match['it']} became {text} at {start} in {self._at(number)}"
                yield Mutant(what, (Edit(number, start, end, text),), kinds, or_result)

    # Order.

    def events(self) -> Iterator[Mutant]:
        """Each event left out, each id changed, each pair of calls left out, all of one kind left out."""
        yield from self.without(r"\b(?:Set|Wait)Flag<", FOUND_BY_ORDER)
        yield from self.replaced(
            r"(?:Set|Wait)Flag<HardEvent::\w+>\((?P<it>.+)\);",
            lambda m: f"({m['it']} + 1) % 8",
            FOUND_BY_ORDER,
        )
        calls = [(n, *m.groups()) for n, m in self.matching(r"(Set|Wait)Flag<HardEvent::(\w+)>\((.+)\);")]
        for (n, first, kind, id_), (m, second, other, other_id) in itertools.pairwise(calls):
            if m == n + 1 and (first, second) == ("Set", "Wait") and (kind, id_) == (other, other_id):
                what = f"left out {self._at(n)} and the wait for it"
                yield Mutant(what, (Edit(n), Edit(m)), frozenset({"race"}))
        for kind in sorted({kind for _, _, kind, _ in calls}):
            edits = tuple(Edit(n) for n, _, k, _ in calls if k == kind)
            yield Mutant(f"left out all events {kind}", edits, frozenset({"race"}))

    def barriers(self) -> Iterator[Mutant]:
        yield from self.without(r"\b(?:SyncAll\(|PipeBarrier<)", frozenset({"race"}))

    # Buffers.

    def short_buffers(self) -> Iterator[Mutant]:
        """Tensors of one block."""
        sizes = {"float": 4, "int32_t": 4, "uint32_t": 4, "uint8_t": 1, "int8_t": 1}

        def shorter(match: re.Match[str]) -> str | None:
            one = 32 // sizes.get(match[1], 2)
            return str(one) if int(match["it"]) > one else None

        yield from self.replaced(r"GetWithOffset<(\w+)>\((?P<it>\d+), ", shorter, frozenset({"bounds"}))

    def places(self) -> Iterator[Mutant]:
        """Tensors off their block; less of UB than there are tensors, and more than there is."""
        yield from self.replaced(
            r"GetWithOffset<\w+>\(\d+, (?P<it>\d+)\)",
            lambda m: str(int(m["it"]) + 16),
            frozenset({"alignment", "bounds"}),
        )
        pattern = r"\.InitBuffer\(ub, (?P<it>\d+)\)"
        yield from self.replaced(pattern, lambda m: str(int(m["it"]) - 32), frozenset({"bounds"}))
        yield from self.replaced(pattern, lambda _: "196640", frozenset({"capacity"}))

    def moved_buffers(self) -> Iterator[Mutant]:
        """Both tensors of a pair in one place; what is copied where another operand's tensor is."""
        pattern = r"LocalTensor<\w+> (\w+)\[2\] = .*?, (\d+)\), .*?, (\d+)\)"
        pairs = [(n, m[1], m.span(2), m[2], m.span(3)) for n, m in self.matching(pattern)]
        pairs = [pair for pair in pairs if re.match(r"[xy]\d", pair[1])]
        for line, name, span, offset, second in pairs:
            edit = Edit(line, *second, offset)
            yield Mutant(f"both of {name} at {offset}", (edit,), frozenset({"race"}), or_result=True)
            for _, other, _, place, _ in pairs:
                if other != name:
                    edit = Edit(line, *span, place)
                    yield Mutant(f"{name}[0] moved onto {other}[0]", (edit,), WRONG_PLACE, or_result=True)

    def clears(self) -> Iterator[Mutant]:
        yield from self.without(r"^\s*Clear\(", frozenset({"uninitialised"}))

    # Counts, strides and conversions.

    def counts(self) -> Iterator[Mutant]:
        """Copies of one lane or row more or less; rows of another pitch; fewer elements in instructions."""
        for change in (" + 1", " - 1"):
            yield from self.replaced(
                r"\bCopy(?:Rows)?(?:In|Out)\(.*, (?P<it>lanes)\b",
                lambda m, by=change: m["it"] + by,
                WRONG_PLACE,
                or_result=True,
            )
            yield from self.replaced(
                r"\bCopy(?:Rows)?(?:In|Out)\(.*\], .*(?P<it>\brows)[,)]",
                lambda m, by=change: m["it"] + by,
                WRONG_PLACE,
                or_result=True,
            )
        yield from self.replaced(
            r", (?P<it>pitch), static_cast<int64_t>", lambda _: "pitch + 16", WRONG_PLACE, or_result=True
        )
        yield from self.replaced(r"^(?!.*Across).*\((?P<it>n)\)\);", lambda _: "n - 64", WRONG_PLACE, True)
        yield from self.replaced(r"^(?!.*Across).*, (?P<it>n)\);", lambda _: "n - 64", WRONG_PLACE, True)

    def strides(self) -> Iterator[Mutant]:
        """Rows in GM that are further apart, and tiles that begin one row or lane further on."""
        wrong = frozenset({"bounds", "race", "uninitialised"})
        for pattern in (
            r"static_cast<int64_t>\((?P<it>t\.s\d+_\d+)\)",
            r"(?P<it>row0) \* t\.s\d+_\d+",
            r"\[(?P<it>t\.o\d+)\b",
        ):
            yield from self.replaced(pattern, lambda m: f"{m['it']} + 1", wrong, or_result=True)

    def modes(self) -> Iterator[Mutant]:
        """A rounding mode that the pair of dtypes does not have, or another one that it has."""
        pattern = r"(?P<it>RoundMode::CAST_{})"
        no_such = frozenset({"argument"})
        yield from self.replaced(pattern.format("NONE"), lambda _: "RoundMode::CAST_RINT", no_such)
        yield from self.replaced(pattern.format("RINT"), lambda _: "RoundMode::CAST_NONE", no_such)
        yield from self.replaced(
            pattern.format("RINT"), lambda _: "RoundMode::CAST_TRUNC", frozenset(), or_result=True
        )

    # The cube.

    def cube_buffers(self) -> Iterator[Mutant]:
        """Half of each buffer, and more than its memory holds."""
        pattern = r"pipe\.InitBuffer\(\w+, (?P<it>.+)\);"
        yield from self.replaced(pattern, lambda m: f"{m['it']} / 2", frozenset({"bounds"}))
        yield from self.replaced(pattern, lambda _: "1 << 20", frozenset({"capacity"}))

    def cube_sizes(self) -> Iterator[Mutant]:
        """Sizes, strides and starts that are off by one unit."""
        pattern = (
            r"(?:nz\.(?:nValue|dValue|srcDValue|dstNzC0Stride)|load\.\w+|mmad\.[mnk]|"
            r"out\.(?:nSize|mSize|srcStride|dstStride)) = (?P<it>(?!true|false).+);"
        )
        found = WRONG_PLACE | {"argument", "deadlock"}
        for change in ("+ 16", "- 1"):
            yield from self.replaced(pattern, lambda m, by=change: f"({m['it']}) {by}", found, or_result=True)
        yield from self.replaced(
            r"mmad\.cmatrixInitVal = (?P<it>.+);", lambda _: "true", frozenset(), or_result=True
        )
        yield from self.replaced(
            r"mmad\.cmatrixInitVal = (?P<it>.+);", lambda _: "false", frozenset({"uninitialised"})
        )
        yield from self.replaced(
            r"unitFlag = (?P<it>.+);", lambda _: "0", frozenset({"race", "deadlock", "argument"})
        )
