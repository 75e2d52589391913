"""Nodes: recording, scalars, settling, freeing."""

from __future__ import annotations

import math
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyasc.ops import _graph
from pyasc.ops.primitives import ADD, EXP, FULL, HOST_CALL, IOTA, LEAF, NEG, UPDATE, VIEW

F32 = np.dtype(np.float32)
BF16 = np.dtype(ml_dtypes.bfloat16)


def leaf(*shape: int, dtype: np.dtype[Any] = F32) -> _graph.Node:
    return _graph.leaf(object(), shape, dtype)


def scalar_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    return _graph.linearise([_graph.scalar(value, dtype)]).scalars


def test_a_node_says_what_was_recorded() -> None:
    x, y = leaf(2, 3), leaf(2, 3)
    node = _graph.record(ADD, (x, y), (2, 3), F32)
    assert (node.primitive, node.shape, node.dtype, node.attrs) == (ADD, (2, 3), F32, None)
    assert node.operands == (x, y)
    assert node.order > y.order > x.order
    assert node.buffer is None and node.value is None and node.held == 0
    assert node.where is not None
    code, offset = node.where
    assert code is test_a_node_says_what_was_recorded.__code__
    line = next(line for start, end, line in code.co_lines() if start <= offset < end)
    assert line == code.co_firstlineno + 2


def test_settling_drops_the_operands() -> None:
    x = leaf(4)
    node = _graph.record(NEG, (x,), (4,), F32)
    before = _graph.pending_count()
    buffer = object()
    node.settle(buffer)
    node.settle(buffer)
    assert node.primitive is LEAF and node.buffer is buffer and node.operands == ()
    assert _graph.pending_count() == before - 1
    with pytest.raises(ValueError, match="expected a pending node"):
        node.settle(object())


def test_pending_counts_what_is_recorded_until_it_is_dropped() -> None:
    before = _graph.pending_count()
    x = leaf(4)
    nodes = [_graph.record(NEG, (x,), (4,), F32) for _ in range(5)]
    view = _graph.record(VIEW, (x,), (2,), F32, ((2,), 0))
    assert _graph.pending_count() == before + 5, "views and leaves wait for nothing"
    del nodes, view
    assert _graph.pending_count() == before


def test_many_operands() -> None:
    operands = tuple(leaf(1) for _ in range(1000))
    node = _graph.record(HOST_CALL, operands, (1000,), F32, ("concatenate", 0))
    assert node.operands == operands
    assert len(_graph.linearise([node]).operands(1000)) == 1000


def test_a_million_nodes_are_freed_without_recursion(run_python: Any) -> None:
    run_python("""
        import numpy as np, threading
        from pyasc.ops import _graph
        from pyasc.ops.primitives import ADD, NEG
        _graph.set_flush(None, 0, 0)
        def chain():
            node = _graph.leaf(object(), (4,), np.dtype("f4"))
            for _ in range(1_000_000):
                node = _graph.record(ADD, (node, node), (4,), node.dtype)
            return node
        node = chain()
        tape = _graph.linearise([node])
        assert len(tape.nodes) == 1_000_001
        del tape
        assert _graph.pending_count() == 1_000_000
        node.settle(object())
        assert _graph.pending_count() == 0
        threading.stack_size(64 << 10)
        small = threading.Thread(target=chain)
        small.start()
        small.join()
        assert _graph.pending_count() == 0
        """)


@pytest.mark.parametrize(
    "name", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integer_scalars(name: str) -> None:
    dtype = np.dtype(name)
    values = [0, 1] if name == "bool" else [0, 1, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)]
    for value in values:
        expected = np.asarray(value, dtype).tobytes().ljust(8, b"\0")
        assert scalar_bytes(value, dtype) == expected
    if name == "bool":
        return
    for value in (int(np.iinfo(dtype).min) - 1, int(np.iinfo(dtype).max) + 1, 2**80):
        with pytest.raises(OverflowError, match=f"{value} out of bounds for {name}"):
            _graph.scalar(value, dtype)


@pytest.mark.parametrize("dtype", [np.dtype("f2"), BF16, F32, np.dtype("f8")], ids=str)
@pytest.mark.filterwarnings("ignore:overflow")
def test_float_scalars(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(0)
    values = [0.0, -0.0, 1.5, 0.1, 1e-8, 6e-8, -1e300, math.inf, -math.inf, 65504.0, 65519.0, 65520.0, 3.4e38]
    values += [float(v) for v in np.exp(rng.uniform(-20, 20, 200))] + [3, -7, True]
    for value in values:
        expected = np.asarray(value).astype(dtype).tobytes().ljust(8, b"\0")
        assert scalar_bytes(value, dtype) == expected, value
    nan = np.frombuffer(scalar_bytes(math.nan, dtype)[: dtype.itemsize], dtype)[0]
    assert np.isnan(nan)


def test_a_scalar_keeps_its_number() -> None:
    node = _graph.scalar(2.5, F32)
    assert node.value == 2.5 and node.shape == () and node.dtype == F32
    assert scalar_bytes(1 + 2j, np.dtype("c8")) == struct.pack("<ff", 1, 2)
    with pytest.raises(TypeError, match="complex128"):
        _graph.scalar(1.0, np.dtype("c16"))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((2**40, 2**40), r"less than 2\*\*63 bytes"),
        ((2**61,), r"less than 2\*\*63 bytes"),
        ((2**70,), r"less than 2\*\*63 bytes"),
        ((2**40, 2**40, 0), r"less than 2\*\*63 bytes"),
        ((-1,), "without negative extents"),
    ],
)
def test_shapes_that_cannot_be(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        _graph.record(IOTA, (), shape, F32, (0,))


def test_shapes_become_plain_ints() -> None:
    node = leaf(np.int64(2), np.uint8(3))  # type: ignore[arg-type]
    assert node.shape == (2, 3) and all(type(n) is int for n in node.shape)
    assert leaf(2**60, 0).shape == (2**60, 0)


def test_what_record_refuses() -> None:
    x = leaf(4)
    with pytest.raises(TypeError, match="attrs"):
        _graph.record(NEG, (x,), (4,), F32, ([1],))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="nodes as operands"):
        _graph.record(NEG, (1,), (4,), F32)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"numpy\.dtype"):
        _graph.record(NEG, (x,), (4,), "f4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="within a buffer of 4 elements"):
        _graph.record(VIEW, (x,), (3,), F32, ((2,), 0))
    with pytest.raises(ValueError, match="within a buffer of 4 elements"):
        _graph.record(VIEW, (x,), (2,), F32, ((-1,), 0))
    with pytest.raises(ValueError, match="within a buffer of 4 elements"):
        _graph.record(UPDATE, (x, leaf(2)), (4,), F32, ((2**62,), 2**62))
    view = _graph.record(VIEW, (x,), (2,), F32, ((-1,), 3))
    with pytest.raises(ValueError, match="not itself a view"):
        _graph.record(VIEW, (view,), (2,), F32, ((1,), 0))


def test_equal_dtypes_are_one() -> None:
    import pickle

    twin = pickle.loads(pickle.dumps(np.dtype([("a", "f4")])))
    first = leaf(1, dtype=np.dtype([("a", "f4")]))
    assert leaf(1, dtype=twin).dtype is first.dtype
    swapped = np.dtype(">f4")
    assert leaf(1, dtype=swapped).dtype == swapped != F32
    assert leaf(1, dtype=BF16).dtype == BF16


def test_weak_references() -> None:
    import weakref

    node = leaf(1)
    reference = weakref.ref(node)
    assert reference() is node
    del node
    assert reference() is None


def test_broadcasting_a_node() -> None:
    x = leaf(3)
    assert _graph.broadcast(x, (3,)) is x
    wide = _graph.broadcast(x, (2, 3))
    assert wide.primitive is VIEW and wide.operands == (x,) and wide.attrs == ((0, 1), 0)
    wider = _graph.broadcast(_graph.broadcast(leaf(3, 1), (3, 4)), (2, 3, 4))
    assert wider.attrs == ((0, 1, 0), 0) and wider.operands[0].primitive is LEAF
    number = _graph.broadcast(_graph.scalar(1.0, F32), (2, 2))
    assert number.primitive is FULL and number.shape == (2, 2)
    with pytest.raises(ValueError, match=r"\(3,\) broadcasts to"):
        _graph.broadcast(x, (3, 2))
    with pytest.raises(ValueError, match="broadcasts to"):
        _graph.broadcast(x, ())


def test_unary_dtype() -> None:
    x = _graph.tensor(leaf(4))
    y = _graph.unary(EXP, x, F32)
    assert y.node.primitive is EXP and y.node.operands == (x.node,)
