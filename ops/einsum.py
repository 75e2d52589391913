"""Einstein summation, lowered pair by pair to matrix products, or to multiplications and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes, storage
from .arguments import as_tensors, cast
from .errors import ArgumentError, ShapeError
from .matmul import matrix_product, merged, multiply_sum, summed
from .registry import operation
from .view import expand_dims, transposed

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@operation(np.einsum)
def einsum(subscripts: Any, *operands: Any, optimize: Any = True) -> Any:
    """Sums of products of operands, their axes named by letters.

    Parameters
    ----------
    subscripts : str
        ``"ij,jk->ik"``: a term for each operand and, after the arrow, the axes of the result. Without an
        arrow the result has the letters that occur once, in alphabetical order. ``...`` stands for axes that
        are broadcast. NumPy's other form, operands each followed by a list of integers, is taken too.
    *operands : array-like
    optimize : bool or str or sequence
        How the order of pairs is found, as in `numpy.einsum_path`; False goes from left to right.

    Returns
    -------
    tensor

    Raises
    ------
    ValueError
        Where subscripts and operands do not go together.

    Examples
    --------
    >>> einsum("bij,bjk->bik", x, y)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    xs = as_tensors("einsum", list(operands))
    terms, output = _parsed(subscripts, [x.ndim for x in xs])
    dtype = dtypes.result_type(*xs)
    half = dtypes.is_narrow(dtype)
    sizes = _sizes(subscripts, terms, xs)
    pending = [
        _prepared(cast(x, dtypes.float32 if half else dtype), t, sizes)
        for x, t in zip(xs, terms, strict=True)
    ]
    for pair in _path(terms, output, xs, optimize):
        chosen = [pending[k] for k in pair]
        pending = [p for k, p in enumerate(pending) if k not in pair]
        later = set(output).union(*(labels for _, labels in pending))
        result = chosen[0]
        for n, other in enumerate(chosen[1:], 2):
            needed = later.union(*(labels for _, labels in chosen[n:]))
            result = _product(result, other, needed)
        pending.append(result)
    x, labels = pending[0]
    x = summed(x, [k for k, label in enumerate(labels) if label not in output])
    labels = [label for label in labels if label in output]
    return cast(transposed(x, tuple(labels.index(label) for label in output)), dtype)


# --- reading subscripts -------------------------------------------------------------------------------------
def _from_lists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts as text from NumPy's form with lists of integers."""

    def term(entry: Any) -> str:
        try:
            return "".join("..." if k is Ellipsis else _LETTERS[k] for k in entry)
        except (TypeError, IndexError):
            raise ArgumentError(
                f"[einsum] expected a list of integers from 0 to 51, given {entry!r:.60}"
            ) from None

    arguments, tail = (arguments[:-1], arguments[-1]) if len(arguments) % 2 else (arguments, None)
    text = ",".join(term(e) for e in arguments[1::2])
    return text if tail is None else f"{text}->{term(tail)}", arguments[::2]


def _parsed(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """A term for each operand and the result's, ellipses spelled out with letters that nothing else uses."""
    text = "".join(subscripts.split())
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    for term in (*terms, right):
        if not set(term.replace("...", "", 1)) <= set(_LETTERS):
            raise ArgumentError(
                f"[einsum] expected letters, commas, '...' and one '->', given {subscripts!r}"
            )
    if len(terms) != len(ranks):
        raise ArgumentError(
            f"[einsum] expected a term for each of {len(ranks)} operands, given {subscripts!r}"
        )
    spare = [c for c in reversed(_LETTERS) if c not in text]
    longest = 0
    for k, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        hidden = rank - len(term.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in term):
            raise ShapeError(
                f"[einsum] expected an operand of {len(term)} dimensions for {term!r}, given one of {rank}"
            )
        longest = max(longest, hidden)
        terms[k] = term.replace("...", "".join(reversed(spare[:hidden])))
    dots = "".join(reversed(spare[:longest]))
    if arrow:
        output = right.replace("...", dots)
    else:
        joined = "".join(terms)
        output = dots + "".join(c for c in sorted(set(joined)) if joined.count(c) == 1 and c not in dots)
    if len(set(output)) != len(output) or not set(output) <= set("".join(terms)):
        raise ArgumentError(
            f"[einsum] expected each letter of the result once, and in a term, given {subscripts!r}"
        )
    return terms, output


def _sizes(subscripts: str, terms: list[str], xs: list[Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        for label, n in zip(term, x.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = n
            elif n not in (1, sizes[label]):
                raise ShapeError(
                    f"[einsum] expected one length for {label!r} of {subscripts!r}, "
                    f"given shapes {[x.shape for x in xs]}"
                )
    return sizes


def _prepared(x: Any, term: str, sizes: dict[str, int]) -> tuple[Any, list[str]]:
    """A view with each letter once: repeated letters walk the diagonal, lengths of 1 are broadcast."""
    labels: list[str] = []
    strides: list[int] = []
    for label, n, stride in zip(term, x.shape, x.strides, strict=True):
        step = stride if n == sizes[label] else 0
        if label in labels:
            strides[labels.index(label)] += step
        else:
            labels.append(label)
            strides.append(step)
    shape = tuple(sizes[label] for label in labels)
    if shape == x.shape and len(labels) == x.ndim:
        return x, labels
    return storage.view(x, shape, tuple(strides), x.offset), labels


def _path(terms: list[str], output: str, xs: list[Any], optimize: Any) -> Sequence[tuple[int, ...]]:
    """Which operands to multiply in turn."""
    if len(terms) == 1:
        return []
    if len(terms) == 2 or optimize is False:
        return [(0, 1)] + [(0, len(terms) - k) for k in range(2, len(terms))]
    shapes = [np.broadcast_to(np.float32(0), x.shape) for x in xs]
    return list(np.einsum_path(f"{','.join(terms)}->{output}", *shapes, optimize=optimize)[0][1:])


# --- one pair -----------------------------------------------------------------------------------------------
def _product(a: tuple[Any, list[str]], b: tuple[Any, list[str]], needed: set[str]) -> tuple[Any, list[str]]:
    """The product of two operands, summed over the letters that nothing else needs."""
    (x, left), (y, right) = _alone(a, needed.union(b[1])), _alone(b, needed.union(a[1]))
    both = [c for c in left if c in right]
    batch = [c for c in both if c in needed]
    inner = [c for c in both if c not in needed]
    free_x = [c for c in left if c not in right]
    free_y = [c for c in right if c not in left]
    if not inner or (not free_x and not free_y):
        order = batch + free_x + free_y + inner
        x, y = (_aligned(t, labels, order) for t, labels in ((x, left), (y, right)))
        return multiply_sum(x, y, range(len(order) - len(inner), len(order))), order[
            : len(order) - len(inner)
        ]
    x = transposed(x, tuple(left.index(c) for c in batch + free_x + inner))
    y = transposed(y, tuple(right.index(c) for c in batch + inner + free_y))
    extents = (*x.shape[: len(batch) + len(free_x)], *y.shape[len(batch) + len(inner) :])
    ones = [1] * len(batch)
    product = matrix_product(
        merged(x, (*ones, len(free_x), len(inner))), merged(y, (*ones, len(inner), len(free_y)))
    )
    if product.shape != extents:
        product = storage.view(product, extents, storage.contiguous_strides(extents), 0)
    return product, batch + free_x + free_y


def _alone(a: tuple[Any, list[str]], needed: set[str]) -> tuple[Any, list[str]]:
    """An operand summed over the letters that only it has."""
    x, labels = a
    return summed(x, [k for k, c in enumerate(labels) if c not in needed]), [c for c in labels if c in needed]


def _aligned(x: Any, labels: list[str], order: list[str]) -> Any:
    """A view with the axes in this order, and length 1 for the letters that it lacks."""
    x = transposed(x, tuple(labels.index(c) for c in order if c in labels))
    return expand_dims(x, tuple(k for k, c in enumerate(order) if c not in labels))
