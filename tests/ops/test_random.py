"""Random numbers: known answers, distributions, determinism, errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from scipy import stats

import pyasc as pa
from pyasc.ops import host, philox, primitives
from pyasc.ops.meaning import random_bits

Mistakes = Callable[..., AbstractContextManager[Any]]
COUNT = 50_000
ONES = 0xFFFFFFFF

# Counter, key and answer, from the known-answer file of Random123 (kat_vectors, philox4x32 10).
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), VECTORS)
def test_known_answers(counter: Any, key: Any, answer: Any) -> None:
    def pair(low: int, high: int) -> int:
        return low | high << 32

    for word, expected in enumerate(answer):
        meant = random_bits(
            np.array([pair(*counter[:2])], np.uint64),
            np.uint64(pair(*key)),
            np.uint64(pair(*counter[2:])),
            attrs=(word,),
            shape=(1,),
            dtype=np.dtype(np.uint32),
        )
        assert int(meant[0]) == expected
        rng = pa.random.Generator(pair(*key), stream=pair(*counter[2:]))
        rng.position = pair(*counter[:2])
        block = philox.Block(rng.seed, rng.stream, rng.position, (1,), 1)
        assert int(host.values(block.word(word))[0]) == expected


def test_bits_are_the_blocks_first_words() -> None:
    rng = pa.random.Generator(5)
    counter = np.arange(100, dtype=np.uint64)
    options = {"shape": (100,), "dtype": np.dtype(np.uint32)}
    expected = random_bits(counter, np.uint64(5), np.uint64(0), attrs=(0,), **options)
    np.testing.assert_array_equal(rng.bits((4, 25)), expected.reshape(4, 25))
    assert primitives.RANDOM_BITS.name == "random_bits"


# --- determinism ---
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "bits": lambda rng, size: rng.bits(size),
    "random": lambda rng, size: rng.random(size),
    "random64": lambda rng, size: rng.random(size, "float64"),
    "uniform": lambda rng, size: rng.uniform(-1, 3, size),
    "normal": lambda rng, size: rng.normal(1, 2, size),
    "exponential": lambda rng, size: rng.exponential(2.0, size),
    "integers": lambda rng, size: rng.integers(-5, 1000, size),
    "long": lambda rng, size: rng.integers(0, 2**50, size),
    "bernoulli": lambda rng, size: rng.bernoulli(0.3, size),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_equal_seeds_equal_numbers(draw: Any) -> None:
    whole = np.asarray(draw(pa.random.default_rng(3), 60))
    np.testing.assert_array_equal(draw(pa.random.default_rng(3), (5, 12)), whole.reshape(5, 12))
    rng = pa.random.default_rng(3)
    parts = [draw(rng, 7), draw(rng, 53)]
    np.testing.assert_array_equal(np.concatenate([np.asarray(p) for p in reversed(parts)][::-1]), whole)
    assert not np.array_equal(draw(pa.random.default_rng(4), 60), whole)
    assert not np.array_equal(draw(pa.random.Generator(3, stream=1), 60), whole)


def test_the_offset_is_taken_when_recorded() -> None:
    rng = pa.random.default_rng(1)
    first, second = rng.random(4), rng.random(4)
    late = np.asarray(second), np.asarray(first)
    again = pa.random.default_rng(1)
    np.testing.assert_array_equal(late[1], again.random(4))
    np.testing.assert_array_equal(late[0], again.random(4))


def test_fused_and_alone() -> None:
    x = pa.random.default_rng(2).random(1000)
    alone = np.asarray(pa.random.default_rng(2).random(1000))
    np.testing.assert_array_equal((x * 2 + 1), alone * np.float32(2) + np.float32(1))


def test_seed_of_the_module() -> None:
    pa.random.seed(11)
    a = np.asarray(pa.random.normal(size=5))
    pa.random.seed(11)
    np.testing.assert_array_equal(pa.random.normal(size=5), a)
    np.testing.assert_array_equal(pa.random.Generator(11).normal(size=5), a)


def test_without_a_seed() -> None:
    assert not np.array_equal(pa.random.default_rng().bits(4), pa.random.default_rng().bits(4))


def test_spawned_streams_differ() -> None:
    rng = pa.random.default_rng(0)
    drawn = [np.asarray(r.bits(8)) for r in (rng, *rng.spawn(3), *rng.spawn(2), *rng.spawn(1)[0].spawn(1))]
    assert len({d.tobytes() for d in drawn}) == len(drawn)


# --- distributions ---
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats(dtype: str) -> None:
    rng = pa.random.default_rng(12)
    u = np.asarray(rng.random(COUNT, dtype))
    assert u.dtype == dtype and u.min() >= 0 and u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    z = np.asarray(rng.normal(size=COUNT, dtype=dtype), np.float64)
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02 and abs(stats.kurtosis(z)) < 0.1
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.02
    e = np.asarray(rng.exponential(size=COUNT, dtype=dtype))
    assert e.min() >= 0 and stats.kstest(e, "expon").pvalue > 1e-3
    shifted = np.asarray(rng.uniform(-3, 5, COUNT, dtype))
    assert stats.kstest(shifted, stats.uniform(-3, 8).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype: str) -> None:
    rng = pa.random.default_rng(0)
    u = np.asarray(rng.random(COUNT, dtype)).astype(np.float64)
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
    z = rng.normal(2.0, 3.0, COUNT, dtype)
    wide = np.asarray(z).astype(np.float64)
    assert (
        z.dtype == pa.zeros(0, dtype=dtype).dtype and abs(wide.mean() - 2) < 0.1 and abs(wide.std() - 3) < 0.1
    )


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integers_of_the_full_range(dtype: str) -> None:
    low, high = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    x = np.asarray(pa.random.default_rng(0).integers(low, high, COUNT, dtype, endpoint=True))
    assert x.dtype == dtype
    place = (x.astype(np.float64) - low) / (high - low)
    assert place.min() < 0.01 and place.max() > 0.99 and abs(place.mean() - 0.5) < 0.01


@pytest.mark.parametrize("width", [1, 2, 7, 2**31 + 1, 2**32 - 1, 2**32, 3 * 2**40, 2**63])
def test_integers_of_a_width(width: int) -> None:
    low = -(2**63) if width == 2**63 else -3
    x = np.asarray(pa.random.default_rng(9).integers(low, low + width, COUNT))
    assert x.min() >= low and int(x.max()) < low + width
    if width <= 7:
        assert stats.chisquare(np.bincount(x - low, minlength=width)).pvalue > 1e-3 or width == 1
    else:
        assert stats.kstest((x.astype(np.float64) - low) / width, "uniform").pvalue > 1e-3
        assert stats.chisquare(np.bincount(x % 3, minlength=3)).pvalue > 1e-3


def test_parameters_that_are_arrays() -> None:
    rng = pa.random.default_rng(0)
    x = np.asarray(rng.integers([0, 100], pa.asarray([10, 103]), (2000, 2)))
    assert (x.min(0) == [0, 100]).all() and (x.max(0) == [9, 102]).all()
    z = np.asarray(rng.normal(np.array([0.0, 10.0]), pa.asarray([[1.0], [0.1]])))
    assert z.shape == (2, 2) and z.dtype == np.float32
    assert rng.uniform(pa.zeros((3, 1)), np.ones(4)).shape == (3, 4)
    assert rng.integers(5).shape == rng.random().shape == ()


def test_bernoulli() -> None:
    assert abs(np.asarray(pa.random.default_rng(0).bernoulli(0.2, COUNT)).mean() - 0.2) < 0.01


# --- order and choice ---
def test_permutation() -> None:
    rng = pa.random.default_rng(0)
    order = np.asarray(rng.permutation(500))
    assert sorted(order) == list(range(500)) and (order != np.arange(500)).mean() > 0.9
    rows = np.arange(12).reshape(4, 3)
    assert sorted(map(tuple, np.asarray(rng.permutation(rows)))) == sorted(map(tuple, rows))
    firsts = [int(rng.permutation(3)[0]) for _ in range(300)]
    assert stats.chisquare(np.bincount(firsts)).pvalue > 1e-3


def test_shuffle() -> None:
    x = pa.arange(20)
    view = x[::2]
    pa.random.default_rng(1).shuffle(view)
    assert sorted(np.asarray(x)[::2]) == list(range(0, 20, 2)) and list(np.asarray(x)[1::2]) == list(
        range(1, 20, 2)
    )


def test_choice() -> None:
    rng = pa.random.default_rng(0)
    assert stats.chisquare(np.bincount(np.asarray(rng.choice(6, COUNT)))).pvalue > 1e-3
    assert sorted(np.asarray(rng.choice(8, 8, replace=False))) == list(range(8))
    assert len(set(np.asarray(rng.choice(100, (5, 4), replace=False)).ravel())) == 20
    weights = [0.1, 0.6, 0.3, 0.0]
    counts = np.bincount(np.asarray(rng.choice(4, COUNT, p=weights)), minlength=4)
    assert counts[3] == 0 and stats.chisquare(counts[:3], COUNT * np.array(weights[:3])).pvalue > 1e-3
    assert set(np.asarray(rng.choice(4, 3, replace=False, p=weights))) == {0, 1, 2}
    first = [int(rng.choice(3, 1, replace=False, p=weights[:3])[0]) for _ in range(400)]
    assert stats.chisquare(np.bincount(first, minlength=3), 400 * np.array(weights[:3])).pvalue > 1e-3
    table = np.arange(10.0).reshape(2, 5)
    assert rng.choice(table, 3, axis=1).shape == (2, 3)
    assert float(rng.choice([7.5])) == 7.5


def test_errors(mistake: Mistakes) -> None:
    rng = pa.random.default_rng(0)
    with mistake(ValueError, "[integers]", "low < high", "given 5 and 5"):
        rng.integers(5, 5)
    with mistake(ValueError, "[integers]", "uint8"):
        rng.integers(0, 300, dtype="uint8")
    with mistake(TypeError, "[integers]", "float32"):
        rng.integers(3, dtype="float32")
    with mistake(TypeError, "[random]", "int32"):
        rng.random(3, dtype="int32")
    with mistake(ValueError, "[normal]", "given -1"):
        rng.normal(0, -1)
    with mistake(ValueError, "[uniform]", "size (3,)"):
        rng.uniform(pa.zeros(2), 1, 3)
    with mistake(ValueError, "[choice]", "at most 3"):
        rng.choice(3, 4, replace=False)
    with mistake(ValueError, "[choice]", "sum 1"):
        rng.choice(2, 1, p=[0.2, 0.2])
    with mistake(ValueError, "[choice]", "something to choose from"):
        rng.choice(0, 1)
    with mistake(ValueError, "[seed]", "2**64"):
        pa.random.seed(-1)
    with mistake(ValueError, "[bernoulli]", "given 2"):
        rng.bernoulli(2)
    with mistake(TypeError, "[shuffle]", "ndarray"):
        rng.shuffle(np.arange(3))


@pytest.mark.parametrize(
    "draw", [lambda: pa.random.uniform(0, 255, 100), lambda: pa.random.normal(3, 2, 100)]
)
def test_numbers_for_parameters_need_no_kernel_of_their_own(draw: Callable[[], Any]) -> None:
    assert len(pa.explain(draw()).kernels) == 1
