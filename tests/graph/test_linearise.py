"""The tape: order, structural key, what is kept, what may be written."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyasc.ops import _graph
from pyasc.ops.primitives import ADD, FULL, HOST_CALL, MUL, NEG, REDUCE, SUB, VIEW

F32 = np.dtype(np.float32)


class Memory:
    """A buffer as far as the trace looks at it."""

    exported = False


def leaf(*shape: int, dtype: Any = F32) -> _graph.Node:
    return _graph.leaf(Memory(), shape, np.dtype(dtype))


def add(x: _graph.Node, y: _graph.Node) -> _graph.Node:
    return _graph.record(ADD, (x, y), x.shape, x.dtype)


def neg(x: _graph.Node) -> _graph.Node:
    return _graph.record(NEG, (x,), x.shape, x.dtype)


def call(attrs: tuple[Any, ...]) -> bytes:
    return _graph.linearise([_graph.record(HOST_CALL, (), (1,), F32, attrs)]).key


def test_recording_order() -> None:
    a, b = leaf(4), leaf(4)
    s = _graph.scalar(2.0, F32)
    c = _graph.record(MUL, (a, s), (4,), F32)
    d = add(c, b)
    e = add(c, d)
    unrelated = neg(a)
    tape = _graph.linearise([e, d])
    assert tape.nodes == (a, b, s, c, d, e)
    assert tape.leaves == (0, 1) and tape.outputs == (4, 5)
    assert [tape.operands(k) for k in range(6)] == [(), (), (), (0, 2), (3, 1), (3, 4)]
    assert [tape.position(n) for n in tape.nodes] == list(range(6))
    with pytest.raises(KeyError):
        tape.position(unrelated)
    with pytest.raises(IndexError):
        tape.operands(6)
    assert tape.scalars == np.float32(2.0).tobytes() + bytes(4)
    e.settle(Memory())
    assert tape.operands(5) == (3, 4), "the tape knows the structure that it was made of"


def test_nothing_below() -> None:
    tape = _graph.linearise([])
    assert (tape.nodes, tape.leaves, tape.outputs, tape.scalars) == ((), (), (), b"")
    x = leaf(2)
    tape = _graph.linearise([x, x])
    assert tape.outputs == (0,) and tape.donatable == (False,)
    with pytest.raises(TypeError, match="list of nodes"):
        _graph.linearise([1])  # type: ignore[list-item]


def test_equal_structures_have_equal_keys() -> None:
    def program(value: float, dtype: Any = "f4", shape: tuple[int, ...] = (2, 3)) -> bytes:
        x = leaf(*shape, dtype=dtype)
        noise = [leaf(1), leaf(1)]
        y = _graph.record(MUL, (x, _graph.scalar(value, np.dtype(dtype))), shape, np.dtype(dtype))
        del noise
        return _graph.linearise([add(y, x)]).key

    assert program(1.0) == program(2.0)
    others = [program(1.0), program(1.0, "f8"), program(1.0, "f4", (3, 2)), program(1.0, "f4", (6,))]
    assert len(set(others)) == 4


def test_sharing_is_structure() -> None:
    a, b = leaf(4), leaf(4)
    keys = {
        _graph.linearise([add(a, a)]).key,
        _graph.linearise([add(a, b)]).key,
        _graph.linearise([add(b, a)]).key,
        _graph.linearise([add(neg(a), neg(a))]).key,
        _graph.linearise([(lambda n: add(n, n))(neg(a))]).key,
    }
    assert len(keys) == 5


def test_what_is_kept_is_structure() -> None:
    def key(held: bool, keep_held: bool = True) -> tuple[bytes, tuple[int, ...]]:
        inner = neg(leaf(4))
        tensor = _graph.tensor(inner) if held else None
        tape = _graph.linearise([neg(inner)], keep_held)
        del tensor
        return tape.key, tape.outputs

    assert key(True)[1] == (1, 2) and key(False)[1] == (2,)
    assert key(True)[0] != key(False)[0]
    assert key(True, keep_held=False)[1] == (2,)


def test_attrs_are_told_apart_by_value_and_type() -> None:
    values: list[Any] = [
        0, 1, -1, 2**63 - 1, 2**63, -(2**63) - 1, 0.0, -0.0, 1.0, float("nan"), float("inf"), True, False,
        None, "", "a", "ab", "é", "1", np.dtype("f4"), np.dtype("f8"), np.dtype(bool), (), (0,), (0, 0),
        ((0,), 0), (0, (0,)), ((), ()), ("a", "b"), ("ab",), ("a", ("b",)), (None,), ((None,),),
    ]  # fmt: skip
    keys = [call((value,)) for value in values]
    for (x, a), (y, b) in itertools.combinations(zip(values, keys, strict=True), 2):
        assert a != b, (x, y)
    assert keys == [call((value,)) for value in values]
    assert call((1, 2)) != call((1,)) != call(())
    deep: Any = ()
    for _ in range(40):
        deep = (deep,)
    with pytest.raises(TypeError, match="32 deep"):
        call(deep)


def test_a_reduction_and_its_axes() -> None:
    x = leaf(4, 4)
    keys = {
        _graph.linearise([_graph.record(REDUCE, (x,), (4,), F32, (how, axes))]).key
        for how in ("add", "max")
        for axes in ((0,), (1,))
    }
    assert len(keys) == 4


def test_generators_and_views_are_not_kept_for_being_held() -> None:
    full = _graph.record(FULL, (_graph.scalar(0.0, F32),), (4,), F32)
    view = _graph.broadcast(full, (2, 4))
    tensors = [_graph.tensor(full), _graph.tensor(view)]
    root = neg(view)
    tape = _graph.linearise([root])
    assert [tape.nodes[k] for k in tape.outputs] == [root]
    assert _graph.linearise([view]).outputs == (2,)
    del tensors


def test_a_settled_node_is_a_leaf() -> None:
    x = neg(leaf(4))
    y = neg(x)
    x.settle(Memory())
    tape = _graph.linearise([y])
    assert tape.nodes == (x, y) and tape.leaves == (0,)


def donatable(*roots: _graph.Node) -> tuple[bool, ...]:
    return _graph.linearise(list(roots)).donatable


def test_a_leaf_that_nobody_else_sees_is_donatable() -> None:
    x = leaf(4)
    y = neg(x)
    assert donatable(y) == (False,), "the program holds the node"
    del x
    assert donatable(y) == (True,)
    z = add(y, neg(y))
    assert donatable(z) == (False,), "y would be computed from it again"
    del y
    assert donatable(z) == (True,)


def test_a_leaf_of_a_tensor_is_not_donatable() -> None:
    t = _graph.tensor(leaf(4))
    y = _graph.unary(NEG, t, F32).node
    assert donatable(y) == (False,)
    del y
    row = _graph.view(t, (2,), (1,), 0)
    z = neg(row.node)
    del t
    assert donatable(z) == (False,)
    del row
    assert donatable(z) == (True,)


def test_a_leaf_whose_buffer_is_seen_is_not_donatable() -> None:
    memory = Memory()
    x = neg(_graph.leaf(memory, (4,), F32))
    assert donatable(x) == (False,)
    del memory
    assert donatable(x) == (True,)
    outside = Memory()
    outside.exported = True
    x = neg(_graph.leaf(outside, (4,), F32))
    del outside
    assert donatable(x) == (False,)
    shared = Memory()
    x = add(_graph.leaf(shared, (4,), F32), _graph.leaf(shared, (4,), F32))
    del shared
    assert donatable(x) == (False, False)


def test_a_leaf_that_a_later_evaluation_needs_is_not_donatable() -> None:
    middle = neg(leaf(4))
    other = neg(middle)  # pending, not on the tape, computed later from the same leaf
    root = add(middle, middle)
    del middle
    assert donatable(root) == (False,)
    assert donatable(root, other) == (True,)
    del other
    assert donatable(root) == (True,)


def test_a_leaf_below_a_kept_node_is_donatable() -> None:
    middle = _graph.tensor(neg(leaf(4)))
    root = _graph.unary(NEG, middle, F32)
    tape = _graph.linearise([root.node])
    assert tape.outputs == (1, 2) and tape.donatable == (True,)
    assert _graph.linearise([root.node], keep_held=False).donatable == (False,)


def test_a_held_view_keeps_its_operand() -> None:
    x = leaf(4)
    view = _graph.tensor(_graph.record(VIEW, (x,), (2,), F32, ((1,), 0)))
    root = neg(view.node)
    del x
    assert donatable(root) == (False,)


def test_donation_is_structure() -> None:
    x = leaf(4)
    y = neg(x)
    kept = _graph.linearise([y]).key
    del x
    assert _graph.linearise([y]).key != kept


def test_two_tapes_do_not_disturb_each_other() -> None:
    a = leaf(4)
    b = neg(a)
    first = _graph.linearise([b])
    c = _graph.record(SUB, (leaf(4), b), (4,), F32)
    second = _graph.linearise([c])
    assert first.position(b) == 1 and second.position(b) == 1 and second.position(c) == 3
    assert first.nodes == (a, b)
