"""Measured choices: the table that keeps them, what it changes, and that measuring never changes a result."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin.machine import Machine

import pyasc
from pyasc.backend import _runtime
from pyasc.backend.ascend import measuring, tuning_table
from pyasc.backend.ascend.cube_problem import CubeOptions
from pyasc.backend.ascend.tuning_table import Entry, Table, TableError, read
from pyasc.backend.ascend.vector_kernel import MODEL, generate, variants
from pyasc.backend.npu.backend import NPU
from pyasc.backend.sim.backend import launch
from pyasc.lazy import evaluate
from pyasc.lazy.cache import kernels

RunPython = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_table() -> Iterator[Path]:
    """The path of the table, of which there is none yet."""
    path = kernels.folder() / "tuning-910B1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    tuning_table.forget()
    pyasc.clear_cache()
    yield path
    path.unlink(missing_ok=True)
    tuning_table.forget()
    pyasc.clear_cache()


def entry(*sizes: int, by: str = "simulator", **choice: Any) -> Entry:
    return Entry("k", sizes, choice, 1.0, 2.0, by)


# --- the table --------------------------------------------------------------------------------------------


def test_the_nearest_bucket_is_found(own_table: Path) -> None:
    table = Table("910B1", own_table)
    table.add({"a": [entry(100, 8), entry(110, 8, room=0.5)]})
    assert table.find("a", (108, 8)) == entry(110, 8, room=0.5)
    assert table.find("a", (84, 8)) == entry(100, 8)
    assert table.find("a", (105, 8)) == entry(110, 8, room=0.5)
    for sizes in ((79, 8), (133, 8), (100, 10), (100,), (100, 8, 1), (0, 8)):
        assert table.find("a", sizes) is None, sizes
    assert table.find("b", (100, 8)) is None


def test_what_a_device_measured_stays(own_table: Path) -> None:
    table = Table("910B1", own_table)
    table.add({"a": [entry(64, by="device", room=0.5)]})
    table.add({"a": [entry(64, room=0.25)]})
    assert Table("910B1", own_table).find("a", (64,)) == entry(64, by="device", room=0.5)
    table.add({"a": [entry(64, by="device", room=0.25)], "b": [entry(3)]})
    assert table.find("a", (64,)) == entry(64, by="device", room=0.25)
    assert table.measured("b", (3,), "simulator") and not table.measured("b", (3,), "device")


def test_tables_of_several_writers_are_merged(own_table: Path) -> None:
    tables = [Table("910B1", own_table) for _ in range(8)]

    def add(n: int) -> None:
        for m in range(5):
            tables[n].add({f"{n}": [entry(10**m)]})

    threads = [threading.Thread(target=add, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Table("910B1", own_table)) == 40
    assert sorted(p.name for p in own_table.parent.glob("tuning*")) == [
        "tuning-910B1.json", "tuning-910B1.lock",
    ]  # fmt: skip


def test_a_damaged_table_is_a_miss(own_table: Path) -> None:
    Table("910B1", own_table).add({"a": [entry(64, room=0.5)]})
    whole = own_table.read_bytes()
    assert b'"room": 0.5' in whole
    for n in range(0, len(whole), 7):
        for damaged in (whole[:n], whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :]):
            own_table.write_bytes(damaged)
            found = Table("910B1", own_table).find("a", (64,))
            assert found is None or found == entry(64, room=0.5)
    own_table.write_bytes(whole.replace(b"0.5", b"0.7"))
    assert Table("910B1", own_table).find("a", (64,)) is None
    with pytest.raises(TableError, match="damaged"):
        read(own_table)
    Table("910B1", own_table).add({"b": [entry(3)]})
    assert len(Table("910B1", own_table)) == 1


def test_entries_that_are_none_are_left_out(own_table: Path) -> None:
    good = {"kernel": "k", "sizes": [4], "choice": {}, "us": 1.0, "model_us": 1.0, "by": "device"}
    bad: list[Any] = [{**good, key: None} for key in good] + [
        {**good, "sizes": [True]},
        {**good, "us": -1},
        3,
    ]
    kernels = {"a": [*bad, good]}
    checksum = tuning_table._checksum(kernels)
    text = json.dumps(
        {"format": tuning_table.FORMAT, "chip": "910B1", "checksum": checksum, "kernels": kernels}
    )
    own_table.write_text(text)
    found = Table("910B1", own_table)
    assert len(found) == 1 and found.find("a", (4,)) is not None
    assert len(Table("910B3", own_table)) == 0


def test_choices_that_are_none_are_the_models() -> None:
    for choice in (
        {"rooms": 1.0},
        {"room": "1"},
        {"room": 2.0},
        {"copies": 7},
        {"grain": 0.0},
        {"strategy": -1},
    ):
        assert measuring.variant_of(choice) == MODEL, choice
    assert measuring.variant_of({"room": 0.5, "copies": 1}) == MODEL._replace(room=0.5, copies=1)
    for options in ({"split": True}, {"split_k": 1}, {"tile": [16]}, {"tile": "16"}, {"tile": [16, 16, -1]}):
        assert measuring.options_of(options) == CubeOptions(), options
    assert measuring.options_of({"tile": [16, 32, 64]}).tile == (16, 32, 64)
    assert not measuring.options_of({"split_k": False}).split_k


# --- measuring --------------------------------------------------------------------------------------------


def functions() -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    rng = np.random.default_rng(0)
    x, a, b = rng.random((300, 7)).astype("f4"), rng.random((65, 130)), rng.random((130, 33))
    return [
        (lambda v: v * 2 + 1, (x,)),
        (lambda v: pyasc.exp(v - pyasc.max(v, axis=1, keepdims=True)), (x,)),
        (lambda v: pyasc.sum(v, axis=0), (x,)),
        (lambda v: v.T + 1, (x,)),
        (lambda v, w: v @ w, (a.astype("f2"), b.astype("f2"))),
    ]


FULL = pytest.mark.full


@pytest.mark.parametrize("number", [pytest.param(0, marks=FULL), 1, pytest.param(2, marks=FULL), 3])
def test_every_candidate_computes_the_same(number: int) -> None:
    function, (x,) = functions()[number]
    with pyasc.backend("sim"):
        target = evaluate.backend()
        (info,) = pyasc.explain(function(pyasc.asarray(x))).kernels
        kernel, binding = info.work.lowered.kernel, info.work.lowered.binding
    expected = function(pyasc.asarray(x)).numpy()
    found = variants(kernel, binding, target.chip)[:4]
    assert len({tuning for _, tuning, _ in found}) == len(found) > 2 and found[0][0] == MODEL
    assert [time for *_, time in found[1:]] == sorted(time for *_, time in found[1:])
    from pyasc.backend.sim.backend import compiled

    for _, tuning, _ in found:
        made = generate(kernel, tuning, target.chip)
        assert made.fits(binding)
        out = np.zeros(expected.size, expected.dtype)
        scalars = [int(np.float32(s).view(np.uint32)) for s in (2, 1)[: len(kernel.scalars)]]
        if number == 3:
            scalars = [int(np.float32(1).view(np.uint32))]
        buffers = [out if o.output else x.reshape(-1) for o in kernel.operands]
        launch(compiled(made, None), made, made.bind(binding), buffers, scalars)
        np.testing.assert_allclose(out, expected.reshape(-1), rtol=1e-5)


def test_what_is_measured_is_kept_and_used(own_table: Path) -> None:
    for function, arrays in functions()[1::3]:
        expected = np.asarray(function(*map(pyasc.asarray, arrays)))
        tuned = pyasc.tune(function, *arrays)
        assert tuned.by == "simulator" and "no device" in str(tuned) and tuned.kernels
        assert tuned.time_us <= tuned.model_us and not any(k.found for k in tuned.kernels)
        known = pyasc.tune(function, *arrays)
        assert [k.choice for k in known.kernels] == [k.choice for k in tuned.kernels]
        assert all(k.found for k in known.kernels)
        with pyasc.backend("sim"):
            given = np.asarray(function(*map(pyasc.asarray, arrays)))
        np.testing.assert_allclose(given, expected, rtol=2e-3 if given.dtype == np.float16 else 1e-5)
    assert len(Table("910B1", own_table)) >= 2


def decree(x: Any) -> None:
    """Put into the table, for ``x * 2``, what the model would hardly choose: a quarter of UB."""
    with pyasc.backend("sim"):
        (info,) = pyasc.explain(pyasc.asarray(x) * 2).kernels
        key = measuring.kernel_key(info.work.lowered.kernel, evaluate.backend().options)
    entries = {key: [entry(*info.extents, room=0.25, copies=1)]}
    tuning_table.table("910B1", kernels).add(entries)


def source(x: Any) -> str:
    with pyasc.backend("sim"):
        return str(pyasc.explain(pyasc.asarray(x) * 2).kernels[0].source("ascendc"))


def test_the_setting_decides(own_table: Path) -> None:
    x = np.ones((300, 7), np.float32)
    usual = source(x)
    with pyasc.backend("sim"):
        np.asarray(pyasc.asarray(x) * 2)
    assert not own_table.exists()
    decree(x)
    other = source(x)
    assert other != usual
    with pyasc.config.override(tune="off"):
        assert source(x) == usual


def test_measure_measures_what_is_not_known(own_table: Path) -> None:
    x = pyasc.asarray(np.ones((300, 7), np.float32))
    with pyasc.backend("sim"), pyasc.config.override(tune="measure"):
        np.testing.assert_array_equal(np.asarray(x * 2), 2)
        before = own_table.read_bytes()
        np.testing.assert_array_equal(np.asarray(x * 3), 3)
    assert own_table.read_bytes() == before and len(Table("910B1", own_table)) == 1


def test_a_table_is_shipped(own_table: Path, tmp_path: Path) -> None:
    function, arrays = functions()[0]
    tuned = pyasc.tune(function, *arrays)
    path = tmp_path / "shipped.json"
    assert pyasc.tuning.export(path) == 1
    with pyasc.config.override(cache_dir=str(tmp_path / "elsewhere")):
        assert pyasc.tuning.load(path) == 1
        assert pyasc.tune(function, *arrays).kernels[0].choice == tuned.kernels[0].choice
        assert pyasc.tune(function, *arrays).kernels[0].found
    assert json.loads(path.read_text())["kernels"] == json.loads(own_table.read_text())["kernels"]


def test_the_same_in_each_process(own_table: Path, run_python: RunPython) -> None:
    x = np.ones((300, 7), np.float32)
    usual = source(x)
    decree(x)
    assert source(x) != usual
    program = """
        import numpy as np, pyasc
        with pyasc.backend("sim"):
            y1 = pyasc.asarray(np.ones((300, 7), np.float32)) * 2
            print(pyasc.explain(y1).kernels[0].source("ascendc"), end="")
    """
    assert run_python(program, PYASC_CACHE_DIR=str(own_table.parent)).stdout == source(x)


def test_nothing_is_written_without_a_disk_cache(own_table: Path) -> None:
    with pyasc.config.override(disk_cache=False):
        function, arrays = functions()[0]
        pyasc.tune(function, *arrays)
        assert pyasc.tune(function, *arrays).kernels[0].found
    assert not own_table.exists()


# --- on a device ------------------------------------------------------------------------------------------


def test_measured_on_the_device(
    own_table: Path, npu_machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(1).random((300, 7)).astype("f4")
    with pyasc.backend("npu"):
        before = _runtime.device_stats(0)["launches"]
        tuned = pyasc.tune(lambda v: v * 2, x)
        assert tuned.by == "device" and "measured on" in str(tuned)
        assert _runtime.device_stats(0)["launches"] - before >= 15 * 2
        assert all(k.time_us > 0 for k in tuned.kernels)
        np.testing.assert_array_equal(np.asarray(pyasc.asarray(x) * 2), x * 2)
        # A device on which small tiles are fast: they are taken, kept and run.
        monkeypatch.setattr(NPU, "time_us", lambda self, made, bound, nbytes: made.tiling.bytes_used / 1e3)
        ones = np.ones((4000, 70), "f4")
        tuned = pyasc.tune(lambda v: pyasc.exp(v) + 1, ones, again=True)
        (found,) = tuned.kernels
        assert found.choice["room"] < 1 and found.time_us < found.model_us
        (entry,) = (e for e in read(own_table)[1].values() if found.sizes in e)
        assert entry[found.sizes].by == "device" and entry[found.sizes].choice == found.choice
        np.testing.assert_allclose(pyasc.exp(pyasc.asarray(ones)) + 1, np.exp(ones) + 1, rtol=1e-6)
    assert pyasc.tune(lambda v: pyasc.exp(v) + 1, ones).kernels[0].found
