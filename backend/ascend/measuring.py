"""Choices around the model's optimum, run one after another: the fastest goes into the chip's table."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import LaunchError
from ..ir import Binding, Kernel
from .cube import CubeSizes
from .cube_problem import CubeOptions
from .generated import Bound, Generated
from .product import Product
from .product import generated as bound_kernel
from .tuning_table import Choice, Entry, Table, key_of
from .vector_kernel import MODEL, Options, Variant, variants

if TYPE_CHECKING:
    from .backend import Ascend

FEW = 6  # candidates, the model's choice among them
WORTH = 0.02  # what another choice must gain to be taken: less may be chance
_lock = threading.RLock()


class Candidate(NamedTuple):
    """A choice, with what makes its kernel."""

    choice: Choice
    generate: Callable[[], Generated]


def kernel_key(kernel: Kernel, options: Options) -> str:
    """The key of a vector kernel in the table."""
    return key_of("vector", kernel.key, tuple(options))


def product_key(product: Product) -> str:
    """The key of a product of matrices in the table."""
    return key_of("cube", product.dtype, product.out, product.transpose_a, product.transpose_b)


def variant_of(choice: Choice) -> Variant:
    """The variant that a table says; the model's where it says none that there is."""
    try:
        found = Variant(**choice)
    except TypeError:
        return MODEL
    kinds = all(type(given) is type(usual) for given, usual in zip(found, MODEL, strict=True))
    fits = kinds and 0 < found.room <= 1 and 0 < found.grain < math.inf and found.strategy >= 0
    return found if fits and found.copies in (0, 1, 2) else MODEL


def options_of(choice: Choice) -> CubeOptions:
    """The options that a table says for a product; the usual ones where it says none that there are."""
    usual = CubeOptions()
    changed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in choice.items()}
    try:
        found = replace(usual, **changed)
    except TypeError:
        return usual
    tile = isinstance(found.tile, tuple) and all(type(n) is int and n > 0 for n in found.tile)
    switches = all(type(getattr(found, name)) is bool for name in choice if name != "tile")
    return found if tile and switches and len(found.tile) in (0, 3) else usual


def measure_kernel(backend: Ascend, table: Table, kernel: Kernel, binding: Binding) -> Entry:
    """Measure a vector kernel at these sizes, and keep what is the fastest.

    Raises
    ------
    Refused
        Where it cannot be written.
    LaunchError
        Where it cannot be compiled or run.
    """
    with _lock:
        found = variants(kernel, binding, backend.chip, backend.options)[:FEW]
        candidates = [
            Candidate(
                {k: v for k, v in variant._asdict().items() if v != getattr(MODEL, k)},
                lambda tuning=tuning: backend.written(kernel, tuning),  # type: ignore[misc]
            )
            for variant, tuning, _ in found
        ]
        nbytes = tuple(n * o.dtype.itemsize for n, o in zip(binding.sizes, kernel.operands, strict=True))
        entry = _fastest(backend, kernel.name, binding.extents, candidates, lambda g: g.bind(binding), nbytes)
        _keep(table, kernel_key(kernel, backend.options), entry)
        return entry


def measure_product(backend: Ascend, table: Table, product: Product) -> Entry:
    """Measure a product of matrices, and keep what is the fastest.

    Raises
    ------
    LaunchError
        Where it cannot be compiled or run.
    """
    with _lock:
        s = product.sizes
        choices = _cube_choices(product, backend)
        made = [(choice, backend.products.kernel(product, options_of(choice))) for choice in choices]
        times = {id(kernel): kernel.tiling_of(s).times["total"] for _, kernel in made}
        usual, others = made[0], sorted(made[1:], key=lambda m: times[id(m[1])])
        candidates = []
        known: set[tuple[str, bytes]] = set()
        for choice, kernel in (usual, *others):
            alike = (kernel.name, kernel.bind(s)[1])
            if alike not in known and kernel.fits(s):
                known.add(alike)
                candidates.append(
                    Candidate(choice, lambda kernel=kernel: bound_kernel(kernel, product))  # type: ignore[misc]
                )
        name = f"{s.m} x {s.k} @ {s.k} x {s.n} {product.dtype}"
        bind = lambda generated: generated.bind(Binding((), (), ()))  # noqa: E731
        entry = _fastest(backend, name, sizes_of(s), candidates[:FEW], bind, product.nbytes)
        _keep(table, product_key(product), entry)
        return entry


def sizes_of(sizes: CubeSizes) -> tuple[int, ...]:
    """The sizes of a product by which the table knows its bucket."""
    return sizes.m, sizes.n, sizes.k, sizes.batch


def _cube_choices(product: Product, backend: Ascend) -> list[Choice]:
    """The usual options; each of them switched; and tiles of half the size."""
    usual = CubeOptions()
    switches = ("double_buffer_l0c", "l2_blocking", "large_packets", "unit_flag", "cache_hint", "split_k")
    tiling = backend.products.kernel(product, usual).tiling_of(product.sizes)
    m, n, k = tiling.base_m, tiling.base_n, tiling.base_k
    tiles = ([m // 2, n, k], [m, n // 2, k], [m, n, k // 2])
    return [
        {},
        *({name: not getattr(usual, name)} for name in switches),
        *({"tile": tile} for tile in tiles if min(tile) >= 16),
    ]


def _fastest(
    backend: Ascend,
    name: str,
    sizes: tuple[int, ...],
    candidates: list[Candidate],
    bind: Callable[[Generated], Bound],
    nbytes: tuple[int, ...],
) -> Entry:
    made = [candidate.generate() for candidate in candidates]
    failed = _compiled(backend, made)
    if failed[0] is not None:
        raise failed[0]
    model = best = backend.time_us(made[0], bind(made[0]), nbytes)
    choice = candidates[0].choice
    for candidate, generated, error in zip(candidates[1:], made[1:], failed[1:], strict=True):
        if error is not None:
            continue  # the compiler does not take it: the model's choice runs
        time = backend.time_us(generated, bind(generated), nbytes)
        if time < best and time < model * (1 - WORTH):
            best, choice = time, candidate.choice
    return Entry(name, sizes, choice, best, model, backend.measured_by)


def _compiled(backend: Ascend, made: list[Generated]) -> list[LaunchError | None]:
    """Compile kernels, some at a time; for each why it does not compile, or None."""
    from concurrent.futures import ThreadPoolExecutor

    def compiled(generated: Generated) -> LaunchError | None:
        try:
            backend.executable(None, generated)
        except LaunchError as error:
            return error
        return None

    with ThreadPoolExecutor(backend.parallel_compiles) as pool:
        return list(pool.map(compiled, made))


def _keep(table: Table, key: str, entry: Entry) -> None:
    with contextlib.suppress(OSError):  # of a folder that cannot be written the kernel cache warns
        table.add({key: [entry]})
