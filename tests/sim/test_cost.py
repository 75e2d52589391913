"""The cost model: pipes, flags, memory, against what its parameters say by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logs import CoreWriter, log

import pyasc.ops.errors as errors
from pyasc.backend.ascend import chip
from pyasc.backend.sim import cost
from pyasc.backend.sim.log import PIPES
from pyasc.backend.sim.timeline import CoreTimeline

CHIP = chip.load("910B1")
assert CHIP.timing is not None
TIMING: Any = CHIP.timing
MHZ = CHIP.clock_mhz
X, Y, Z = 1 << 30, 2 << 30, 3 << 30


def spans(core: CoreTimeline, pipe: str) -> list[tuple[float, float]]:
    """Start and end of the instructions of a pipe, in cycles since the core began."""
    of = core.pipe == PIPES.index(pipe)
    return [
        ((start - core.begin) * MHZ, (stop - core.begin) * MHZ)
        for start, stop in zip(core.start[of].tolist(), core.stop[of].tolist(), strict=True)
    ]


def run(*cores: CoreWriter, warm: bool = False) -> cost.Cost:
    return cost.replay(log(*cores), CHIP, warm=warm)


def test_a_vector_instruction_takes_its_head_and_its_repeats() -> None:
    core = CoreWriter()
    core.vector("Add", 32)
    core.vector("Add", 32, conflicts=32)
    core.vector("Exp", 10, element=4)
    core.vector("Exp", 10, element=2)
    takes = [stop - start for start, stop in spans(run(core).timeline.cores[0], "V")]
    head, half, single = TIMING["vector"]["Exp"][:3]
    add = TIMING["vector"]["Add"][0]
    assert takes == pytest.approx([add + 32, add + 64, head + 10 * single, head + 10 * half])


def test_an_instruction_without_figures_takes_the_default() -> None:
    core = CoreWriter()
    core.vector("LoadData", 5)
    (start, stop), *_ = spans(run(core).timeline.cores[0], "V")
    assert stop - start == pytest.approx(TIMING["vector"]["default"][0] + 5)


def test_pipes_run_side_by_side_and_in_order_within() -> None:
    core = CoreWriter()
    core.vector("Add", 200)
    core.copy("UbToUb", 0, 256, pipe="MTE3")
    core.vector("Add", 200)
    timeline = run(core).timeline.cores[0]
    first, second = spans(timeline, "V")
    (copy,) = spans(timeline, "MTE3")
    assert copy[0] < first[1]
    assert second[0] == pytest.approx(first[1])


def test_a_wait_orders_two_pipes() -> None:
    core = CoreWriter()
    core.copy("GmToUb", X, 8192)
    core.set("MTE2", "V", 3)
    core.wait("MTE2", "V", 3)
    core.vector("Add", 32)
    timeline = run(core).timeline.cores[0]
    assert spans(timeline, "V")[0][0] == pytest.approx(spans(timeline, "MTE2")[0][1])


def test_a_barrier_of_all_pipes_holds_the_scalar_unit() -> None:
    core = CoreWriter()
    core.copy("GmToUb", X, 8192)
    core.event("PipeBarrier", "ALL")
    core.vector("Add", 32)
    timeline = run(core).timeline.cores[0]
    assert spans(timeline, "V")[0][0] >= spans(timeline, "MTE2")[0][1]


def test_reading_a_result_holds_the_scalar_unit() -> None:
    core = CoreWriter()
    core.vector("Add", 255)
    core.event("ScalarWait", "V")
    core.copy("GmToUb", X, 8192)
    timeline = run(core).timeline.cores[0]
    assert spans(timeline, "MTE2")[0][0] >= spans(timeline, "V")[0][1] + TIMING["scalar"]["wait"]


def test_the_scalar_unit_waits_for_a_full_queue() -> None:
    depth = TIMING["queue_depth"]
    core = CoreWriter()
    for _ in range(depth + 1):
        core.vector("Add", 255)
    core.copy("UbToUb", 0, 256, pipe="MTE3")
    timeline = run(core).timeline.cores[0]
    assert spans(timeline, "MTE3")[0][0] >= spans(timeline, "V")[0][1]


def test_copies_one_after_another_hide_the_latency() -> None:
    copy = TIMING["copy"]["GmToUb"]
    core = CoreWriter()
    core.copy("GmToUb", X, 8192)
    core.copy("GmToUb", Y, 8192)
    first, second = spans(run(core).timeline.cores[0], "MTE2")
    stream = copy["head"] + copy["piece"] + 8192 / CHIP.rates.ddr_read
    assert first[1] - first[0] == pytest.approx(stream + copy["latency"])
    assert second[1] - second[0] == pytest.approx(stream)


def test_small_pieces_cost_more_than_their_bytes() -> None:
    def takes(pieces: int) -> float:
        core = CoreWriter()
        core.copy("GmToUb", X, 32768 // pieces, pieces, stride=65536)
        return run(core).pipes["MTE2"].max_us

    assert takes(256) > 1.3 * takes(8)


def test_a_piece_across_lines_costs_whole_lines() -> None:
    def moved(address: int) -> float:
        core = CoreWriter()
        core.copy("GmToUb", address, 512, 64, stride=4096)
        return run(core).bytes["hbm_read"]

    assert moved(X) == 512 * 64
    assert moved(X + 256) == 2 * 512 * 64


def test_an_uneven_write_is_slow() -> None:
    def takes(size: int) -> float:
        core = CoreWriter()
        core.copy("UbToGm", X, size, 64, stride=4096)
        return run(core).pipes["MTE3"].max_us

    assert takes(500) > 5 * takes(512)


def test_cores_share_the_bandwidth_of_hbm() -> None:
    def cores(count: int) -> cost.Cost:
        writers = [CoreWriter(block=number) for number in range(count)]
        for number, core in enumerate(writers):
            for tile in range(16):
                core.copy("GmToUb", X + (number * 16 + tile) * 65536, 65536)
        return run(*writers)

    alone, all_of_them = cores(1), cores(48)
    rate = alone.bytes["hbm_read"] / alone.pipes["MTE2"].max_us * 1e6
    together = all_of_them.bytes["hbm_read"] / all_of_them.pipes["MTE2"].max_us * 1e6
    assert rate == pytest.approx(CHIP.rates.ddr_read * CHIP.clock, rel=0.05)
    assert together == pytest.approx(TIMING["hbm_bandwidth"], rel=0.05)
    assert all_of_them.bound == "HBM bandwidth" and all_of_them.efficiency > 0.9


def test_what_l2_holds_need_not_come_from_hbm() -> None:
    core = CoreWriter()
    for _ in range(3):
        core.copy("GmToUb", X, 65536)
    result = run(core)
    assert result.bytes["hbm_read"] == 65536
    assert result.bytes["l2_read"] == 2 * 65536
    assert result.bytes["must_read"] == 65536
    first, second, _ = spans(result.timeline.cores[0], "MTE2")
    assert second[1] - second[0] < 0.4 * (first[1] - first[0])


def test_a_bypass_leaves_l2_alone() -> None:
    core = CoreWriter()
    for _ in range(3):
        core.copy("GmToUb", X, 65536, bypass=True)
    assert run(core).bytes["hbm_read"] == 3 * 65536


def test_a_launch_before_leaves_l2_warm() -> None:
    core = CoreWriter()
    core.copy("GmToUb", X, 65536)
    assert run(core).bytes["hbm_read"] == 65536
    assert run(core, warm=True).bytes["hbm_read"] == 0


def test_more_than_l2_holds_comes_again() -> None:
    tile = 131072
    count = int(1.5 * CHIP.capacity.l2 / tile / 48)
    writers = [CoreWriter(block=number) for number in range(48)]
    for number, core in enumerate(writers):
        for _ in range(2):
            for at in range(count):
                core.copy("GmToUb", X + (number * count + at) * tile, tile)
    result = run(*writers)
    assert result.bytes["hbm_read"] == pytest.approx(2 * result.bytes["must_read"], rel=0.02)


def test_a_long_row_of_writes_goes_at_the_pace_of_hbm() -> None:
    writers = [CoreWriter(block=number) for number in range(48)]
    for number, core in enumerate(writers):
        for at in range(64):
            core.copy("UbToGm", X + (number * 64 + at) * 32768, 32768)
    result = run(*writers)
    rate = result.bytes["hbm_write"] / result.core_us * 1e6
    assert rate == pytest.approx(TIMING["hbm_bandwidth"], rel=0.08)


def test_writes_late_in_a_long_launch_end(run_python: Any) -> None:
    """Where the clock stands so high that the last bytes take less than its rounding."""
    printed = run_python(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        from test_cost import MHZ, CoreWriter, X, run

        writers = [CoreWriter(block=number) for number in range(48)]
        for number, core in enumerate(writers):
            core.vector("Add", 50_000_000)
            core.set("V", "MTE3")
            core.wait("V", "MTE3")
            for at in range(64):
                core.copy("UbToGm", X + (number * 64 + at) * 32768, 32768)
        print(run(*writers).time_us * MHZ)
        """,
        str(Path(__file__).parent),
    ).stdout
    assert 50e6 < float(printed) < 50.5e6


def test_a_product_takes_its_steps() -> None:
    core = CoreWriter("cube")
    core.mmad(128, 256, 64)
    core.mmad(100, 30, 20)
    core.mmad(128, 256, 64, "int8")
    takes = [stop - start for start, stop in spans(run(core).timeline.cores[0], "M")]
    head = TIMING["cube"]["head"]
    assert takes == pytest.approx([head + 8 * 16 * 4, head + 7 * 2 * 2, head + 8 * 16 * 2])


def test_the_unit_flag_lets_the_output_begin_before_the_last_product_ends() -> None:
    core = CoreWriter("cube")
    core.mmad(128, 256, 64, unit_flag=2)
    core.mmad(128, 256, 64, unit_flag=3)
    core.fixpipe(X, 128, 512, 16384, unit_flag=3)
    core.mmad(128, 256, 64, unit_flag=3)
    timeline = run(core).timeline.cores[0]
    _, last, following = spans(timeline, "M")
    (out,) = spans(timeline, "FIX")
    assert out[1] >= last[1]
    assert out[1] < last[1] + 1100
    assert following[1] >= out[1]


def test_a_flag_between_cores() -> None:
    cube, first, second = CoreWriter("cube"), CoreWriter("vector"), CoreWriter("vector")
    cube.mmad(128, 256, 1024)
    cube.event("CoreSet", "M", 5, m=2)
    for vector in (first, second):
        vector.event("CoreWait", "S", 5)
        vector.vector("Add", 8)
    result = run(cube, first, second)
    done = result.timeline.cores[0].stop[0]
    assert all(core.start[0] >= done for core in result.timeline.cores[1:])
    assert set(result.pipes) == {"cube S", "cube M", "vector S", "vector V"}


def test_a_barrier_of_all_cores() -> None:
    writers = [CoreWriter(block=number) for number in range(4)]
    for number, core in enumerate(writers):
        core.vector("Add", 50 * (number + 1))
        core.event("SyncAll")
        core.vector("Add", 8)
    result = run(*writers)
    latest = max(core.stop[0] for core in result.timeline.cores)
    assert all(core.start[1] >= latest + TIMING["sync_all_cycles"] / MHZ for core in result.timeline.cores)


def test_blocks_beyond_the_cores_wait_for_one() -> None:
    writers = [CoreWriter(block=number) for number in range(49)]
    for core in writers:
        core.vector("Add", 255)
    timeline = run(*writers).timeline
    assert timeline.cores[48].begin >= min(core.end for core in timeline.cores[:48])


def test_a_small_kernel_is_bound_by_its_launch() -> None:
    writers = [CoreWriter(block=number) for number in range(8)]
    for core in writers:
        core.copy("GmToUb", X, 4096)
        core.set("MTE2", "V")
        core.wait("MTE2", "V")
        core.vector("Add", 16)
        core.set("V", "MTE3")
        core.wait("V", "MTE3")
        core.copy("UbToGm", Z, 4096)
    result = run(*writers)
    assert result.bound == "launch"
    assert 3.0 < result.time_us < 4.5  # published of such an addition: about 3.6


def test_a_log_that_stops_says_where() -> None:
    core = CoreWriter()
    core.vector("Add", 8)
    core.wait("MTE2", "V", 0)
    core.vector("Add", 8)
    with pytest.raises(errors.ArgumentError, match=r"core 0 stops at line"):
        run(core)


def test_a_chip_without_figures() -> None:
    core = CoreWriter()
    core.vector("Add", 8)
    for name in ("310P", "910B4", "950"):
        with pytest.raises(errors.ArgumentError, match=f"bandwidths are published.*given {name}"):
            cost.replay(log(core), chip.load(name))


def test_the_same_log_costs_the_same() -> None:
    generator = np.random.default_rng(3)
    core = CoreWriter()
    for _ in range(200):
        core.copy("GmToUb", X + 512 * int(generator.integers(4096)), 4096)
        core.vector("Add", int(generator.integers(1, 255)))
    assert run(core).time_us == run(core).time_us


def test_it_prints_as_a_table() -> None:
    core = CoreWriter()
    core.copy("GmToUb", X, 65536)
    core.vector("Add", 100)
    text = str(run(core))
    assert text.splitlines()[0].startswith("test on 910B1, 1 cores: ")
    assert "MTE2" in text and "least time" in text and "65.5 kB read" in text
