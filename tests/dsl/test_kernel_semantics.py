"""Expressions and loops of kernels that mean what Python means, compiled for the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowering_checks import in_python

import pyasc
from pyasc.dsl.language import get_global_id


def default(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = a[i] or 5


def decided(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = a[i] and i and 2.5


def both(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = (a[i] or 1) + (i and 2)


def loads_where_it_counts(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = i > 0 and a[i - 1]
    c[i] += (i == 0) or a[i - 1]


def truths(c: Any, a: Any) -> None:
    i = get_global_id(0)
    if not (i > 0 and a[i - 1] > 0) or a[i] > 1:
        c[i] = (i > 2 and a[i] < 2) + 2 * (not i)


def numbers_known(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = (0 or 7) + (3 and a[i]) + (2 or a[i + 100])  # noqa: SIM222


def number_after(c: Any, a: Any) -> None:
    i = get_global_id(0)
    k = -1
    for k in range(i):
        if a[k] > 2:
            break
    c[i] = k


def number_changed(c: Any, a: Any) -> None:
    i = get_global_id(0)
    k = 1
    for k in range(4):
        k = k * 2
        c[i] += k
    c[i] += k * 100


def named_numbers(c: Any, a: Any) -> None:
    i = get_global_id(0)
    least = float("inf")
    for k in range(i):
        least = min(least, a[k])
    c[i] = least


def nested_turns(c: Any, a: Any) -> None:
    i = get_global_id(0)
    for k in range(7, -1, -1):
        if k == i:
            continue
        for m in range(8):
            if m > k:
                break
            if (m + i) % 3 == 0:
                continue
            c[i] += m * 10 + k
        if k < 3:
            break


KERNELS = [
    default,
    decided,
    both,
    loads_where_it_counts,
    truths,
    numbers_known,
    number_after,
    number_changed,
    named_numbers,
    nested_turns,
]


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_kernels_mean_what_python_means(function: Callable[..., None]) -> None:
    a = np.array([0, 1, 0, 2, 0, 3, -1, 4], np.float32)
    c, expected = np.zeros(8, np.float32), np.zeros(8, np.float32)
    pyasc.kernel(function)(c, a)
    in_python(function, (8,), c=expected, a=a)
    np.testing.assert_array_equal(c, expected)
