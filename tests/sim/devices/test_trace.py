"""Runs on the simulated driver, recorded: a trace answers our own backend, and drives any driver."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane.devices.linux.device import LinuxDevice
from openane.devices.linux.drive import drive
from openane.devices.linux.interface import NODE, SUBMIT
from openane.devices.linux.recording import RecordingKernel
from openane.devices.linux.replay import ReplayKernel
from openane.devices.linux.trace import Trace
from openane.devices.simdriver import SimDriver, SimKernel
from openane.ops.build import GraphBuilder

SHAPE = (1, 8, 6, 40)


@pytest.fixture(scope="module")
def model() -> ane.Model:
    build = GraphBuilder()
    x = build.input("x", "fp16", SHAPE)
    weight = np.random.default_rng(1).standard_normal((4, 8, 1, 1)).astype(np.float16)
    y = build.single("conv", x=build.single("relu", x=x), weight=weight)
    return ane.compile(build.finish({"y": build.single("softmax", x=y, axis=1)}))


def inputs(seed: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float16)}


@pytest.fixture
def kernel() -> Iterator[SimKernel]:
    driver = SimDriver("strict")
    yield SimKernel(driver)
    driver.close()


@pytest.fixture
def recorded(tmp_path: Path, kernel: SimKernel, model: ane.Model) -> tuple[Path, list[np.ndarray]]:
    path = tmp_path / "run.trace"
    with RecordingKernel(kernel, path, device="test") as recording, \
            LinuxDevice(recording, NODE.format(0), "linux:0") as device, device.load(model) as executable:
        outputs = [executable.run(inputs(seed))["y"] for seed in (0, 1)]
    return path, outputs


def test_the_same_run_is_answered_from_the_trace(recorded, model: ane.Model) -> None:
    path, outputs = recorded
    replay = ReplayKernel(Trace(path))
    with LinuxDevice(replay, NODE.format(0), "linux:0") as device, device.load(model) as executable:
        for seed, expected in enumerate(outputs):
            np.testing.assert_array_equal(executable.run(inputs(seed))["y"], expected)
    assert replay.finished


def test_another_run_is_refused_at_the_first_difference(recorded, model: ane.Model) -> None:
    path, _ = recorded
    replay = ReplayKernel(Trace(path))
    with LinuxDevice(replay, NODE.format(0), "linux:0") as device, device.load(model) as executable, \
            pytest.raises(ane.DeviceError, match=r"not the recorded one: .*buffer object \d+ at byte"):
        executable.run(inputs(7))
    assert not replay.finished


def test_a_driver_that_does_the_same_shows_no_difference(recorded) -> None:
    path, _ = recorded
    for mode in ("faithful", "strict"):
        driver = SimDriver(mode)
        assert not list(drive(Trace(path), SimKernel(driver)))
        driver.close()


def test_a_driver_that_computes_otherwise_is_found(recorded, tmp_path: Path) -> None:
    path, _ = recorded
    changed = tmp_path / "changed.trace"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "trace.jsonl":
                lines = [json.loads(line) for line in data.decode().splitlines()]
                submits = [line for line in lines if line.get("request") == SUBMIT]
                submits[0]["after"] = submits[1]["after"]
                data = "".join(json.dumps(line) + "\n" for line in lines).encode()
            new.writestr(name, data)
    driver = SimDriver("strict")
    found = list(drive(Trace(changed), SimKernel(driver)))
    driver.close()
    assert found
    assert "after SUBMIT, byte" in str(found[0])


def test_failures_are_recorded_and_expected(tmp_path: Path, kernel: SimKernel) -> None:
    path = tmp_path / "failure.trace"
    with RecordingKernel(kernel, path) as recording:
        fd = recording.open(NODE.format(0))
        with pytest.raises(OSError, match="22"):
            recording.ioctl(fd, SUBMIT, bytearray(152))
        recording.close(fd)
    trace = Trace(path)
    assert [event.error for event in trace.events if event.kind == "ioctl"] == [22]
    driver = SimDriver("strict")
    assert not list(drive(trace, SimKernel(driver)))
    driver.close()


def test_an_abandoned_recording_leaves_nothing(tmp_path: Path, kernel: SimKernel) -> None:
    recording = RecordingKernel(kernel, tmp_path / "no.trace")
    recording.close(recording.open(NODE.format(0)))
    recording.abandon()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lines", [
    "", "{}\n", '{"format": "openane trace of the Linux accel driver", "version": 9}\n', "[]\n", "nonsense\n",
    '{"format": "openane trace of the Linux accel driver", "version": 1}\n{"kind": "jump", "file": 0}\n',
    '{"format": "openane trace of the Linux accel driver", "version": 1}\n{"kind": "open", "file": -1}\n',
    '{"format": "openane trace of the Linux accel driver", "version": 1}\n'
    '{"kind": "ioctl", "file": 0, "request": 3231212611, "argument": "00"}\n',
])
def test_what_is_no_trace(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "bad.trace"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("trace.jsonl", lines)
    with pytest.raises(ane.FormatError):
        Trace(path)


@pytest.mark.parametrize("seed", range(40))
def test_torn_traces_give_format_errors(recorded, tmp_path: Path, seed: int) -> None:
    data = bytearray(recorded[0].read_bytes())
    draw = np.random.default_rng(seed)
    if seed % 2:
        data = data[:int(draw.integers(0, len(data)))]
    for _ in range(8):
        if data:
            data[int(draw.integers(0, len(data)))] ^= int(draw.integers(1, 256))
    path = tmp_path / "torn.trace"
    path.write_bytes(data)
    driver = SimDriver("strict")
    try:
        list(drive(Trace(path), SimKernel(driver)))
    except ane.FormatError:
        pass
    finally:
        driver.close()
