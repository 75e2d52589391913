"""Random numbers from a counter: Philox4x32-10, keyed by (seed, stream, element).

A generator is a seed, a stream and a position. Recording an operation takes as many positions as the result
has elements; element k then depends on seed, stream and position + k alone, so that values do not depend on
what is fused, on threads or on the backend. Each position is one block of four 32-bit words.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
import secrets
import threading
from typing import Any

import numpy as np

from . import _graph, dtypes, host
from .arguments import Shape, as_axis, as_int, as_shape, as_tensor, broadcast_shapes, cast
from .errors import ArgumentError, DtypeError, ShapeError
from .gathering import take
from .indexing import getitem, write
from .philox import Block, as_bits, op
from .primitives import ADD, COS, LOG, LT, MUL, NEG, SHIFT_RIGHT, SQRT, SUB
from .registry import operation as declared
from .sorting import argsort, searchsorted
from .traced import is_number
from .view import reshape_to

UINT32, UINT64, INT64 = dtypes.uint32, dtypes.uint64, dtypes.int64
FLOAT32, FLOAT64 = dtypes.float32, dtypes.float64
Size = int | tuple[int, ...] | None


def draws() -> int:
    """How often numbers were drawn from any generator: a function that draws must not be replayed."""
    return Generator._draws


class Generator:
    """A stream of random numbers.

    Parameters
    ----------
    seed : int, optional
        Equal seeds give equal numbers. None takes one from the operating system.
    stream : int
        Streams of one seed are independent of each other.

    Examples
    --------
    >>> rng = Generator(7)
    >>> rng.normal(size=(2, 3))
    """

    _draws = 0

    def __init__(self, seed: int | None = None, stream: int = 0) -> None:
        self.reseed(seed, stream)
        self._lock = threading.Lock()
        self._spawned = 0

    def reseed(self, seed: int | None = None, stream: int = 0) -> None:
        """Begin again at the first number of a seed."""
        chosen = secrets.randbits(64) if seed is None else as_int(seed, "seed", "the seed")
        if not 0 <= chosen < 2**64:
            raise ArgumentError(f"[seed] expected a seed from 0 to 2**64 - 1, given {chosen}")
        self.seed, self.stream, self.position = chosen, as_int(stream, "seed", "the stream") % 2**64, 0

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, stream={self.stream}, position={self.position})"

    def spawn(self, count: int) -> list[Generator]:
        """Generators of further streams of this seed."""
        with self._lock:
            first = self._spawned + 1
            self._spawned += count
        mixed = [(self.stream * 0x9E3779B97F4A7C15 + first + k) % 2**64 for k in range(count)]
        return [Generator(self.seed, stream) for stream in mixed]

    # --- bits -----------------------------------------------------------------------------------------------
    def _block(self, shape: Shape) -> Block:
        """The next block for each element of a shape."""
        count = math.prod(shape)
        with self._lock:
            first = self.position
            self.position = (first + count) % 2**64
            Generator._draws += 1
        return Block(self.seed, self.stream, first, shape, count)

    def bits(self, size: Size = None, dtype: Any = "uint32") -> Any:
        """Uniform random bits.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; None is 0-d.
        dtype : {"uint8", "uint16", "uint32", "uint64"}

        Returns
        -------
        tensor
        """
        kind = dtypes.as_dtype(dtype, "bits")
        if kind.kind != "u":
            raise DtypeError(f"[bits] expected an unsigned integer dtype, given {kind.name}")
        block = self._block(_shape(size, "bits"))
        if kind == UINT64:
            return block.shaped(block.long(0))
        word = block.word(0)
        return block.shaped(
            word if kind == UINT32 else cast(op(SHIFT_RIGHT, word, 32 - 8 * kind.itemsize), kind)
        )

    # --- floats ---------------------------------------------------------------------------------------------
    def random(self, size: Size = None, dtype: Any = None) -> Any:
        """Floats uniform in [0, 1).

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; None is 0-d.
        dtype : float dtype, optional
            float32 by default. Values are multiples of 2**-24; of 2**-53 for float64, 2**-11 for float16 and
            2**-8 for bfloat16.

        Returns
        -------
        tensor
        """
        kind = _float(dtype, "random")
        block = self._block(_shape(size, "random"))
        return block.shaped(block.uniform(kind))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None, dtype: Any = None) -> Any:
        """Floats uniform in [low, high).

        Parameters
        ----------
        low, high : float or array-like
            Broadcast against each other where size is None.
        size : int or tuple of int, optional
        dtype : float dtype, optional

        Returns
        -------
        tensor
        """
        kind = _float(dtype, "uniform")
        low, high = _parameters("uniform", kind, low, high)
        value = self.random(_joint("uniform", size, low, high), kind)
        if type(low) is float and type(high) is float and (low, high) == (0.0, 1.0):
            return value
        numbers = type(low) is float and type(high) is float
        return op(ADD, op(MUL, value, high - low if numbers else op(SUB, high, low)), low)

    def standard_normal(self, size: Size = None, dtype: Any = None) -> Any:
        """Floats of the standard normal distribution.

        Parameters
        ----------
        size : int or tuple of int, optional
        dtype : float dtype, optional

        Returns
        -------
        tensor
            Each value from its own block, by Box and Muller, "A note on the generation of random normal
            deviates", 1958.
        """
        kind = _float(dtype, "standard_normal")
        block = self._block(_shape(size, "standard_normal"))
        wide = FLOAT64 if kind == FLOAT64 else FLOAT32
        radius = op(SQRT, op(MUL, op(LOG, block.positive(wide)), -2.0))
        angle = op(MUL, block.uniform(wide, 2), 2.0 * math.pi)
        return block.shaped(cast(op(MUL, radius, op(COS, angle)), kind))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None, dtype: Any = None) -> Any:
        """Floats of a normal distribution.

        Parameters
        ----------
        loc, scale : float or array-like
            Mean and standard deviation, broadcast against each other where size is None.
        size : int or tuple of int, optional
        dtype : float dtype, optional

        Returns
        -------
        tensor

        Raises
        ------
        ValueError
            For a scale below zero.
        """
        kind = _float(dtype, "normal")
        if is_number(scale) and scale < 0:
            raise ArgumentError(f"[normal] expected a scale from 0 up, given {scale}")
        loc, scale = _parameters("normal", kind, loc, scale)
        value = self.standard_normal(_joint("normal", size, loc, scale), kind)
        if type(loc) is float and type(scale) is float and (loc, scale) == (0.0, 1.0):
            return value
        return op(ADD, op(MUL, value, scale), loc)

    def exponential(self, scale: Any = 1.0, size: Size = None, dtype: Any = None) -> Any:
        """Floats of an exponential distribution.

        Parameters
        ----------
        scale : float or array-like
            The mean.
        size : int or tuple of int, optional
        dtype : float dtype, optional

        Returns
        -------
        tensor
        """
        kind = _float(dtype, "exponential")
        if is_number(scale) and scale < 0:
            raise ArgumentError(f"[exponential] expected a scale from 0 up, given {scale}")
        (scale,) = _parameters("exponential", kind, scale)
        block = self._block(_shape(_joint("exponential", size, scale), "exponential"))
        wide = FLOAT64 if kind == FLOAT64 else FLOAT32
        value = cast(op(NEG, op(LOG, block.positive(wide))), kind)
        return op(MUL, block.shaped(value), scale)

    def bernoulli(self, p: Any = 0.5, size: Size = None) -> Any:
        """Bools that are true with a probability.

        Parameters
        ----------
        p : float or array-like
        size : int or tuple of int, optional

        Returns
        -------
        tensor of bool
        """
        if is_number(p) and not 0 <= p <= 1:
            raise ArgumentError(f"[bernoulli] expected a probability from 0 to 1, given {p}")
        (p,) = _parameters("bernoulli", FLOAT32, p)
        return _graph.binary(LT, self.random(_joint("bernoulli", size, p)), p, dtypes.bool_)

    # --- integers -------------------------------------------------------------------------------------------
    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: Any = None, endpoint: bool = False
    ) -> Any:
        """Integers uniform in [low, high), or [low, high] with `endpoint`.

        Parameters
        ----------
        low, high : int or array-like of integers
            With one bound alone, from 0 up to it.
        size : int or tuple of int, optional
        dtype : integer dtype or bool, optional
            int64 by default.
        endpoint : bool

        Returns
        -------
        tensor
            No integer is likelier than another by more than 2**-32 of its probability; by 2**-64 for ranges
            of 2**32 and more.

        Raises
        ------
        ValueError
            Where there is no integer to draw, or a bound that the dtype does not hold.
        """
        kind = INT64 if dtype is None else dtypes.as_dtype(dtype, "integers")
        if kind.kind not in "biu":
            raise DtypeError(f"[integers] expected an integer dtype, given {kind.name}")
        if high is None:
            low, high = 0, low
        if not (_is_int(low) and _is_int(high)):
            return self._integers_between(low, high, size, kind, endpoint)
        low, last = int(low), int(high) - (not endpoint)
        limits = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        if not limits[0] <= low <= last <= limits[1]:
            raise ArgumentError(
                f"[integers] expected low {'<=' if endpoint else '<'} high within {kind.name}, "
                f"given {low} and {high}"
            )
        block = self._block(_shape(size, "integers"))
        width = last - low + 1
        if width == 2**64:
            drawn = block.shaped(block.long(0))
        elif width < 2**32:
            drawn = block.shaped(block.below(width))
        else:
            drawn = block.long_below(as_tensor(np.uint64(width)))
        # Adding low in unsigned arithmetic wraps to the right bits.
        return as_bits(op(ADD, drawn, low % 2**64), kind)

    def _integers_between(self, low: Any, high: Any, size: Size, kind: dtypes.Dtype, endpoint: bool) -> Any:
        """Integers between bounds that are arrays. A sync point where they are pending."""
        wide = UINT64 if kind == UINT64 else INT64
        low, high = (host.values(as_tensor(b, "integers")).astype(wide) for b in (low, high))
        if np.any(low > high if endpoint else low >= high):
            raise ArgumentError(
                f"[integers] expected low {'<=' if endpoint else '<'} high everywhere, given {low} and {high}"
            )
        width = as_tensor((high - low).astype(np.uint64) + np.uint64(endpoint))
        shape = _joint("integers", size, width)
        return as_bits(op(ADD, self._block(shape).long_below(width), as_tensor(low.astype(np.uint64))), kind)

    # --- order ----------------------------------------------------------------------------------------------
    def permutation(self, x: Any, axis: int = 0) -> Any:
        """A random order of 0 … x-1, or of x's slices along an axis.

        Parameters
        ----------
        x : int or array-like
        axis : int

        Returns
        -------
        tensor
            A copy.
        """
        if _is_int(x):
            return self._order(int(x), "permutation")
        x = as_tensor(x, "permutation")
        axis = as_axis(axis, x.ndim, "permutation")
        return take(x, self._order(x.shape[axis], "permutation"), axis)

    def _order(self, count: int, operation: str) -> Any:
        """A random permutation: the order of random keys of 64 bits."""
        if count < 0:
            raise ArgumentError(f"[{operation}] expected a count from 0 up, given {count}")
        keys = self.bits(count, UINT64)
        return argsort(keys, stable=True)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put x's slices along an axis into a random order, in place.

        Parameters
        ----------
        x : tensor
        axis : int
        """
        if not isinstance(x, _graph.TensorBase):
            raise DtypeError(f"[shuffle] expected a tensor to write to, given {type(x).__name__}")
        write(x, self.permutation(x, axis), "shuffle")

    def choice(
        self,
        a: Any,
        size: Size = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """A random sample of 0 … a-1, or of a's slices along an axis.

        Parameters
        ----------
        a : int or array-like
        size : int or tuple of int, optional
        replace : bool
            Whether one may be drawn more than once.
        p : array-like, optional
            The probability of each, one-dimensional, of sum 1.
        axis : int
        shuffle : bool
            Taken for NumPy's sake: a sample without replacement is always in random order.

        Returns
        -------
        tensor

        Raises
        ------
        ValueError
            Where there is nothing to choose from, or not enough without replacement.
        """
        population = None if _is_int(a) else as_tensor(a, "choice")
        if population is not None:
            axis = as_axis(axis, population.ndim, "choice")
        count = int(a) if population is None else population.shape[axis]
        shape = _shape(size, "choice")
        total = math.prod(shape)
        if count <= 0 and total:
            raise ArgumentError(f"[choice] expected something to choose from, given {count}")
        if not replace and total > count:
            raise ArgumentError(f"[choice] expected at most {count} without replacement, given size {shape}")
        weights = None if p is None else _weights(p, count, total, replace)
        if replace and weights is None:
            index = self.integers(0, max(count, 1), shape)
        elif replace:
            assert weights is not None
            edges = np.cumsum(weights)
            edges /= edges[-1] if edges.size else 1
            index = searchsorted(edges, self.random(shape, FLOAT64), "right")
        elif weights is None:
            index = reshape_to(getitem(self._order(count, "choice"), slice(total)), shape)
        else:
            # Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: the least of
            # Exp(1) / weight come first.
            with np.errstate(divide="ignore"):
                inverse = as_tensor(1.0 / weights)
            keys = op(MUL, self.exponential(size=count, dtype=FLOAT64), inverse)
            order = argsort(keys, stable=True)
            index = reshape_to(getitem(order, slice(total)), shape)
        return index if population is None else take(population, index, axis)


def _shape(size: Size, operation: str) -> Shape:
    return () if size is None else as_shape(size, operation)


def _float(dtype: Any, operation: str) -> dtypes.Dtype:
    kind = dtypes.default_float if dtype is None else dtypes.as_dtype(dtype, operation)
    if not dtypes.is_float(kind):
        raise DtypeError(f"[{operation}] expected a float dtype, given {kind.name}")
    return kind


def _is_int(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _parameters(operation: str, dtype: dtypes.Dtype, *values: Any) -> tuple[Any, ...]:
    """Parameters of a distribution: Python floats, or tensors of its dtype."""
    return tuple(
        float(v) if isinstance(v, int | float | np.number) else cast(as_tensor(v, operation), dtype)
        for v in values
    )


def _joint(operation: str, size: Size, *parameters: Any) -> Shape:
    """The shape of a result: size, to which the parameters must broadcast, or what they broadcast to."""
    shapes = [x.shape for x in parameters if isinstance(x, _graph.TensorBase)]
    if size is None:
        return broadcast_shapes(operation, *shapes)
    shape = as_shape(size, operation)
    if any(
        len(s) > len(shape) or any(n not in (1, m) for n, m in zip(s[::-1], shape[::-1], strict=False))
        for s in shapes
    ):
        raise ShapeError(f"[{operation}] expected parameters that broadcast to size {shape}, given {shapes}")
    return shape


def _weights(p: Any, count: int, total: int, replace: bool) -> host.Array:
    """Checked probabilities in float64. A sync point where they are pending."""
    weights = host.values(as_tensor(p, "choice")).astype(np.float64)
    if weights.shape != (count,):
        raise ShapeError(f"[choice] expected {count} probabilities, given shape {weights.shape}")
    if not np.all(weights >= 0) or abs(weights.sum() - 1) > 1e-3 * (count > 0):
        raise ArgumentError(
            f"[choice] expected probabilities from 0 up of sum 1, given sum {weights.sum():g}"
        )
    if not replace and np.count_nonzero(weights) < total:
        raise ArgumentError(
            f"[choice] expected at least {total} probabilities above 0 without replacement, "
            f"given {np.count_nonzero(weights)}"
        )
    return weights


# --- the generator of the module's functions ----------------------------------------------------------------
_default = Generator()

for _name, _aliases in {
    "bits": (),
    "random": ("random_sample",),
    "uniform": (),
    "standard_normal": (),
    "normal": (),
    "exponential": (),
    "bernoulli": (),
    "integers": ("randint",),
    "permutation": (),
    "shuffle": (),
    "choice": (),
}.items():
    declared(namespace="random", aliases=_aliases)(getattr(_default, _name))
declared(name="seed", namespace="random")(_default.reseed)


@declared(namespace="random")
def default_rng(seed: int | None = None) -> Generator:
    """A new generator; without a seed it takes one from the operating system."""
    return Generator(seed)


@declared(namespace="random")
def rand(*shape: int) -> Any:
    """float32 uniform in [0, 1), the lengths of the axes given one by one."""
    return _default.random(shape)


@declared(namespace="random")
def randn(*shape: int) -> Any:
    """float32 of the standard normal distribution, the lengths of the axes given one by one."""
    return _default.standard_normal(shape)
