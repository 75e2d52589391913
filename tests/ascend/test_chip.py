"""The data of the chips."""

from __future__ import annotations

import dataclasses
from importlib import resources

import pytest

import pyasc.ops.errors as errors
from pyasc.backend.ascend import chip


def test_available_names_every_file() -> None:
    assert chip.available() == ("310P", "910B1", "910B2", "910B3", "910B4", "910C", "950")


def test_the_files_are_part_of_the_package() -> None:
    folder = resources.files("pyasc.backend.ascend") / "chips"
    for name in chip.available():
        assert (folder / f"{name}.toml").is_file()


@pytest.mark.parametrize(
    ("name", "cores", "clock", "l2", "hbm"),
    [
        ("910B1", (24, 48), 1850, 192 << 20, 64 << 30),
        ("910B2", (24, 48), 1800, 192 << 20, 64 << 30),
        ("910B3", (20, 40), 1800, 192 << 20, 64 << 30),
        ("910B4", (20, 40), 1500, 96 << 20, 32 << 30),
        ("910C", (24, 48), 1850, 192 << 20, 64 << 30),
        ("950", (32, 64), 1650, 128 << 20, 128 << 30),
    ],
)
def test_published_figures(name: str, cores: tuple[int, int], clock: int, l2: int, hbm: int) -> None:
    data = chip.load(name)
    assert (data.cube_cores, data.vector_cores) == cores
    assert data.clock_mhz == clock and data.clock == clock * 1e6
    assert (data.capacity.l2, data.capacity.hbm) == (l2, hbm)
    assert data.split and data.name == name


def test_memories_of_the_910b1() -> None:
    data = chip.load("910B1")
    capacity = data.capacity
    assert (capacity.ub, capacity.ub_usable, capacity.ub_usable_with_select) == (
        192 << 10,
        190 << 10,
        184 << 10,
    )
    assert (capacity.l1, capacity.l0a, capacity.l0b, capacity.l0c) == (
        512 << 10,
        64 << 10,
        64 << 10,
        128 << 10,
    )
    assert data.buffer.banks is not None and data.buffer.bank_bytes is not None
    assert data.buffer.banks * data.buffer.bank_bytes == capacity.ub
    assert (data.rates.ddr_read, data.rates.l2_read, data.rates.l2_write) == (32, 110, 86)
    assert data.limits is not None and data.limits.blocks == 65535


def test_a_chip_like_another_differs_where_it_says() -> None:
    one, two = chip.load("910B1"), chip.load("910B2")
    differing = {
        field.name
        for field in dataclasses.fields(one)
        if getattr(one, field.name) != getattr(two, field.name)
    }
    assert differing == {"name", "clock_mhz"}


def test_what_is_unknown_is_absent() -> None:
    for name in chip.available():
        data = chip.load(name)
        for fact in data.unknown:
            section, _, key = fact.partition(".")
            value = getattr(data, section)
            if not key:
                assert not value, fact
            elif section == "timing":
                assert key not in value, fact
            else:
                assert getattr(value, key) is None, fact


def test_what_is_absent_is_unknown() -> None:
    for name in chip.available():
        data = chip.load(name)
        for section in ("capacity", "buffer", "rates"):
            part = getattr(data, section)
            for field in dataclasses.fields(part):
                if getattr(part, field.name) is None:
                    assert f"{section}.{field.name}" in data.unknown


def test_which_dtypes_an_instruction_takes() -> None:
    data = chip.load("910B1")
    assert data.takes("Add", "int32") and not data.takes("Add", "int64")
    assert data.takes("And", "uint16") and not data.takes("And", "int32")
    assert data.takes("CompareEQ", "int32") and not data.takes("Compare", "int32")
    assert not data.takes("Add", "bfloat16") and not data.takes("Exp", "float64")
    assert not data.takes("Tanh", "float32")
    assert data.mmad["int8"] == {"int32"} and "float64" not in data.mmad


def test_conversions() -> None:
    data = chip.load("910B1")
    assert data.converts("float32", "bfloat16") == "RFCAT"
    assert data.converts("float16", "float32") == "N"
    assert data.converts("float16", "bfloat16") is None
    assert data.converts("int8", "float32") is None
    assert data.converts("float64", "float32") is None


def test_the_data_cannot_be_changed() -> None:
    data = chip.load("910B1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.cube_cores = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        data.instructions["Add"] = frozenset()  # type: ignore[index]
    assert chip.load("910B1") is data


def test_an_unknown_chip() -> None:
    with pytest.raises(errors.ArgumentError, match=r"expected one of 310P, 910B1.*950, given '910A'"):
        chip.load("910A")
