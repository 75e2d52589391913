"""Tensors: owners, views, the versions they see, and the fast paths that record on them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyasc.ops import _graph
from pyasc.ops.primitives import ADD, AND, CAST, DIV, LT, NEG, VIEW

F32 = np.dtype(np.float32)


def owner(*shape: int, dtype: Any = F32) -> Any:
    return _graph.tensor(_graph.leaf(object(), shape, np.dtype(dtype)))


def test_an_owner() -> None:
    x = owner(2, 3)
    assert (x.shape, x.dtype, x.base, x.strides, x.offset) == ((2, 3), F32, None, (3, 1), 0)
    assert not x.pending and x.node.held == 1
    y = _graph.unary(NEG, x, F32)
    assert y.pending
    y.node.settle(object())
    assert not y.pending


def test_a_class_makes_no_tensor() -> None:
    with pytest.raises(TypeError, match="is made by a function"):
        _graph.TensorBase()


def test_a_write_makes_a_new_version_for_views_too() -> None:
    x = owner(4)
    row = _graph.view(x, (2,), (2,), 1)
    first = row.node
    assert first.primitive is VIEW and first.attrs == ((2,), 1) and first.operands == (x.node,)
    assert row.node is first
    old = weakref.ref(x.node)
    x.node = _graph.record(NEG, (x.node,), (4,), F32)
    x.node.settle(object())
    assert row.node is not first and row.node.operands == (x.node,)
    del first
    assert old() is None, "a view must not keep the version that it saw before"


def test_a_view_of_everything_is_the_node_itself() -> None:
    x = owner(2, 1, 3)
    assert _graph.view(x, (2, 1, 3), (3, 77, 1), 0).node is x.node
    assert _graph.view(x, (6,), (1,), 0).node.primitive is VIEW
    assert _graph.view(x, (2, 1, 3), (3, 1, -1), 2).node.primitive is VIEW


def test_a_view_holds_its_base() -> None:
    x = owner(4)
    alive = weakref.ref(x)
    row = _graph.view(x, (2,), (1,), 2)
    del x
    assert row.base is alive() and row.strides == (1,) and row.offset == 2
    assert row.pending is False
    del row
    assert alive() is None


def test_a_view_of_an_owner_whose_node_is_a_view_copies_first() -> None:
    x = _graph.tensor(_graph.broadcast(_graph.leaf(object(), (3,), F32), (2, 3)))
    column = _graph.view(x, (2,), (3,), 1)
    assert column.node.operands == (x.node,) and x.node.primitive is CAST
    assert x.node.operands[0].primitive is VIEW


def test_what_views_and_nodes_refuse() -> None:
    x = owner(4)
    row = _graph.view(x, (2,), (1,), 0)
    with pytest.raises(ValueError, match="owner as the base"):
        _graph.view(row, (1,), (1,), 0)
    with pytest.raises(ValueError, match="within a buffer"):
        _graph.view(x, (5,), (1,), 0)
    with pytest.raises(ValueError, match="a stride for each axis"):
        _graph.view(x, (2,), (1, 1), 0)
    with pytest.raises(AttributeError, match="owner"):
        row.node = x.node
    with pytest.raises(ValueError, match="shape"):
        x.node = owner(5).node
    with pytest.raises(ValueError, match="dtype"):
        x.node = owner(4, dtype="f8").node
    with pytest.raises(TypeError, match="Node"):
        x.node = None
    assert _graph.view(x, (0, 7), (100, 100), 50).shape == (0, 7)


def test_live_tensors_oldest_first() -> None:
    before = _graph.live_count()
    tensors = [owner(1) for _ in range(3)]
    assert _graph.live_count() == before + 3
    assert [id(t) for t in _graph.live_tensors()[-3:]] == [id(t) for t in tensors]
    del tensors[1]
    assert _graph.live_count() == before + 2


def test_a_cycle_through_a_subclass_is_collected(run_python: Any) -> None:
    run_python("""
        import gc, weakref, numpy as np
        from pyasc.ops import _graph
        class Tensor(_graph.TensorBase):
            pass
        _graph.set_tensor_type(Tensor)
        x = _graph.tensor(_graph.leaf(object(), (4,), np.dtype("f4")))
        x.row = _graph.view(x, (2,), (1,), 0)
        x.row.node
        alive = weakref.ref(x)
        count = _graph.live_count()
        del x
        gc.collect()
        assert alive() is None and _graph.live_count() == count - 2
        """)
    gc.collect()


def test_binary_on_equal_shapes() -> None:
    x, y = owner(2, 3), owner(2, 3)
    z = _graph.binary(ADD, x, y)
    assert type(z) is type(x) and z.node.operands == (x.node, y.node) and z.shape == (2, 3) and z.dtype == F32
    below = _graph.binary(LT, x, y, np.dtype(bool))
    assert below.dtype == bool
    assert _graph.binary(LT, x, y, result=np.dtype(bool)).dtype == bool
    assert x.node.where is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("number", [2, 2.5, True])
def test_numbers_are_weak(dtype: Any, number: float) -> None:
    x = owner(3, dtype=dtype)
    for z in (_graph.binary(ADD, x, number), _graph.binary(ADD, number, x)):
        assert z.dtype == np.dtype(dtype) and z.shape == (3,)
        (scalar,) = [n for n in z.node.operands if n is not x.node]
        assert scalar.value is number and scalar.dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("shapes", "result", "strides"),
    [
        (((2, 3), (3,)), (2, 3), (None, (0, 1))),
        (((2, 1), (1, 3)), (2, 3), ((1, 0), (0, 1))),
        (((), (2,)), (2,), ((0,), None)),
        (((0, 1), (3,)), (0, 3), ((1, 0), (0, 1))),
        (((5, 1, 3), (4, 1)), (5, 4, 3), ((3, 0, 1), (0, 1, 0))),
        (((1,), (1, 1)), (1, 1), ((0, 1), None)),
    ],
)
def test_broadcasting(shapes: Any, result: Any, strides: Any) -> None:
    z = _graph.binary(ADD, owner(*shapes[0]), owner(*shapes[1]))
    assert z.shape == result
    for node, expected in zip(z.node.operands, strides, strict=True):
        assert node.shape == result
        assert (node.attrs and node.attrs[0]) == expected


def test_broadcasting_a_view_makes_one_view() -> None:
    x = owner(4, 3)
    column = _graph.view(x, (4, 1), (3, 0), 2)
    z = _graph.binary(ADD, x, column)
    (view,) = z.node.operands[1:]
    assert view.operands == (x.node,) and view.attrs == ((3, 0), 2) and view.shape == (4, 3)


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(
        ValueError, match=r"\[add\] expected shapes that broadcast together, given \(2, 3\) and \(4,\)"
    ):
        _graph.binary(ADD, owner(2, 3), owner(4))
    x = _graph.tensor(_graph.broadcast(owner(1), (2**40, 1)))
    y = _graph.tensor(_graph.broadcast(owner(1), (1, 2**40)))
    with pytest.raises(ValueError, match="2\\*\\*63"):
        _graph.binary(ADD, x, y)


def test_promotion_takes_what_is_not_fast(run_python: Any) -> None:
    run_python("""
        import numpy as np, pytest
        from pyasc.ops import _graph
        from pyasc.ops.primitives import ADD, DIV, AND
        asked = []
        def promote(primitive, x, y):
            asked.append((primitive, x, y))
            return answer
        _graph.set_promotion(promote)
        f4, f8, i1 = np.dtype("f4"), np.dtype("f8"), np.dtype("i1")
        x = _graph.tensor(_graph.leaf(object(), (3,), f4))
        i = _graph.tensor(_graph.leaf(object(), (3,), i1))
        d = _graph.tensor(_graph.leaf(object(), (3,), f8))
        answer = NotImplemented
        for primitive, a, b in [(ADD, x, d), (DIV, i, i), (ADD, i, 1000), (ADD, i, 1.5), (ADD, x, "text"),
                                (AND, x, x), (ADD, x, np.float64(1)), (ADD, "a", "b"), (ADD, x, 10**400)]:
            assert _graph.binary(primitive, a, b) is NotImplemented
            assert asked.pop()[0] is primitive
        answer = (d, _graph.scalar(1.0, f8))
        z = _graph.binary(ADD, x, d)
        assert z.dtype == f8 and z.node.operands == (d.node, answer[1]) and asked.pop()[1] is x
        for answer in [(x, d), (x,), 3, (x, 2)]:
            with pytest.raises(TypeError, match="promotion rules"):
                _graph.binary(ADD, x, d)
        def refuse(primitive, x, y):
            raise KeyError("refused")
        _graph.set_promotion(refuse)
        with pytest.raises(KeyError, match="refused"):
            _graph.binary(ADD, x, d)
        """)


def test_flush_when_too_much_is_pending(run_python: Any) -> None:
    run_python("""
        import numpy as np
        from pyasc.ops import _graph
        from pyasc.ops.primitives import ADD, NEG
        f4 = np.dtype("f4")
        calls = []
        def flush():
            calls.append(_graph.pending_count())
            for tensor in _graph.live_tensors():
                _graph.unary(NEG, tensor, f4)       # recording within a flush does not flush
                if tensor.pending:
                    tensor.node.settle(object())
        x = y = _graph.tensor(_graph.leaf(object(), (1000,), f4))
        _graph.set_flush(flush, 100, 1 << 40)
        for _ in range(1000):
            y = _graph.binary(ADD, y, x)
        assert len(calls) == 9 and max(calls) <= 101, calls
        calls.clear()
        for _ in range(1000):
            _graph.binary(ADD, y, x)                # dropped at once: nothing is pending
        assert not calls
        _graph.set_flush(flush, 1 << 40, 40000)
        for _ in range(100):
            y = _graph.binary(ADD, y, x)
        assert len(calls) == 9, calls
        def fail():
            raise MemoryError("full")
        _graph.set_flush(fail, 10, 1 << 40)
        try:
            for _ in range(100):
                y = _graph.binary(ADD, y, x)
        except MemoryError as error:
            assert str(error) == "full"
        else:
            raise AssertionError
        """)


def test_primitive_kinds_are_not_fast_for_all_dtypes() -> None:
    x = owner(3, dtype="i8")
    assert _graph.binary(AND, x, x).node.primitive is AND
    assert "i" not in DIV.dtypes
