"""Runs on the simulated driver, recorded: a trace answers our own backend, and drives any driver."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openane as ane
from openane.cli import main
from openane.devices.linux import replayed
from openane.devices.linux.device import LinuxDevice
from openane.devices.linux.drive import drive
from openane.devices.linux.interface import NODE, SUBMIT
from openane.devices.linux.recording import RecordingKernel
from openane.devices.linux.replay import ReplayKernel
from openane.devices.linux.trace import LINES, Trace
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


def test_a_driver_that_computes_otherwise_is_found(recorded) -> None:
    path, _ = recorded

    def second(lines: list[dict[str, Any]], blobs: list[str]) -> list[dict[str, Any]]:
        submits = [line for line in lines if line.get("request") == SUBMIT]
        submits[0]["after"] = submits[1]["after"]
        return lines

    changed = rewritten(path, second)
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


def test_from_the_command_line(tmp_path: Path, model: ane.Model, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, path = tmp_path / "model.ane", tmp_path / "run.trace"
    model.save(bundle)
    device = "linux?driver=simulated"
    assert main(["run", str(bundle), "--device", device, "--record", str(path)]) == 0
    for other in (device, f"{device}&mode=faithful"):
        assert main(["replay", str(path), "--device", other]) == 0
    assert main(["run", str(bundle), "--device", f"linux?driver={path}"]) == 0
    assert "every byte is the recorded one" in capsys.readouterr().out
    assert main(["run", str(bundle), "--device", f"linux?driver={path}", "--seed", "1"]) == 1
    assert "the run is not the recorded one" in capsys.readouterr().err
    assert main(["replay", str(rewritten(path, as_failed))]) == 1
    assert "recorded 22, found 0\n1 difference" in capsys.readouterr().out


def as_failed(lines: list[dict[str, Any]], blobs: list[str]) -> list[dict[str, Any]]:
    """The submission is said to have failed."""
    [submit] = [line for line in lines if line.get("request") == SUBMIT]
    submit["error"] = 22
    submit["after"] = {}
    return lines


def test_an_engine_gets_unverified_commands_only_when_told_to(recorded, kernel: SimKernel,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openane.devices.linux.opening.RealKernel", lambda: kernel)
    trace = Trace(recorded[0])
    with pytest.raises(ane.DeviceError, match="commands that nobody has verified"):
        list(replayed(trace, "linux:0"))
    assert list(replayed(trace, "linux:0", unverified=True)) == []
    assert list(replayed(trace, "linux?driver=simulated")) == []


ODD = (None, True, -1, 0, 1, 255, 1 << 32, 1 << 64, 10**400, 1.5, float("nan"), "", "00", "ff" * 24, "zz", [], ["a"],
       {}, {"1": "x"}, {"99": None}, {"x": "y"})
FIELDS = ("kind", "file", "request", "argument", "answer", "error", "length", "offset", "path", "texts", "before",
          "after", "seconds")


def altered(lines: list[dict[str, Any]], blobs: list[str], rng: random.Random) -> list[dict[str, Any]]:
    """Another trace: a field changed or left out, an event left out or twice, memory of another buffer object."""
    lines = [dict(line) for line in lines]
    line, place = rng.choice(lines[1:]), rng.randrange(1, len(lines))
    change = rng.randrange(6)
    if change == 0:
        line[rng.choice(FIELDS)] = rng.choice(ODD)
    elif change == 1:
        del lines[place]
    elif change == 2:
        lines.insert(place, rng.choice(lines[1:]))
    elif change == 3:
        del line[rng.choice(list(line))]
    elif change == 4:
        line[rng.choice(("before", "after"))] = {str(rng.randrange(8)): rng.choice(blobs)}
    elif line.get("argument"):
        data = bytearray.fromhex(line["argument"])
        data[rng.randrange(len(data))] = rng.choice((0, 1, 255))
        line["argument"] = data.hex()
    return lines


def rewritten(path: Path, change: Callable[[list[dict[str, Any]], list[str]], list[dict[str, Any]]]) -> Path:
    """The same trace with other lines."""
    other = path.with_name("other.trace")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        names = [name for name in old.namelist() if name != LINES]
        for name in names:
            new.writestr(name, old.read(name))
        lines = change([json.loads(line) for line in old.read(LINES).decode().splitlines()],
                       [name.partition("/")[2] for name in names])
        new.writestr(LINES, "".join(json.dumps(line) + "\n" for line in lines))
    return other


def test_altered_traces_give_typed_errors_and_leave_nothing(recorded, model: ane.Model) -> None:
    for seed in range(200):
        rng = random.Random(seed)
        path = rewritten(recorded[0], lambda lines, blobs, rng=rng: altered(lines, blobs, rng))
        try:
            trace = Trace(path)
        except ane.FormatError:
            continue
        with SimDriver("strict", "fast") as driver:
            with suppress(ane.AneError):
                list(drive(trace, SimKernel(driver)))
            assert (driver.used, driver.files) == (0, ()), seed
        with suppress(ane.AneError), LinuxDevice(ReplayKernel(trace), NODE.format(0), "linux:0") as device, \
                device.load(model) as executable:
            executable.run(inputs(0))
        trace.close()


def test_what_cannot_be_written_is_said_of_the_trace(recorded, tmp_path: Path, kernel: SimKernel) -> None:
    for path in (tmp_path, tmp_path / "none" / "run.trace"):
        with pytest.raises(ane.DeviceError, match=f"the trace {path} cannot be written"):
            RecordingKernel(kernel, path)
    late = RecordingKernel(kernel, tmp_path / "late.trace")
    late.close(late.open(NODE.format(0)))
    (tmp_path / "late.trace").mkdir()
    with pytest.raises(ane.DeviceError, match=r"late\.trace cannot be written: Is a directory"):
        late.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late.trace", "run.trace"]


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


def test_a_blob_whose_name_is_no_text_where_it_lies(recorded, tmp_path: Path) -> None:
    """The list at the end of the archive names it, the entry itself says other bytes and that they are UTF-8."""
    path = tmp_path / "named.trace"
    data = bytearray(recorded[0].read_bytes())
    with zipfile.ZipFile(recorded[0]) as archive:
        entry = next(each for each in archive.infolist() if each.filename.startswith("blobs/"))
    data[entry.header_offset + 7] |= 0x08  # bit 11 of the flags
    data[entry.header_offset + 30] = 0xF3
    path.write_bytes(data)
    with pytest.raises(ane.FormatError, match="cannot be read"):
        Trace(path).blob(entry.filename.removeprefix("blobs/"))


@pytest.mark.parametrize("name", ["blobs/", LINES])
def test_members_that_claim_more_than_the_file_take_no_memory(recorded, tmp_path: Path, name: str) -> None:
    """The list at the end of the archive says of a member that it is compressed in 1.5 GiB."""
    data, path = bytearray(recorded[0].read_bytes()), tmp_path / "large.trace"
    with zipfile.ZipFile(recorded[0]) as archive:
        entry = next(each for each in archive.infolist() if each.filename.startswith(name))
    place = data.rindex(b"PK\x01\x02", 0, data.rindex(entry.filename.encode()))
    data[place + 20:place + 24] = (3 << 29).to_bytes(4, "little")
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ane.FormatError, match="claims 1610612736 compressed bytes"):
            Trace(path).blob(entry.filename.removeprefix("blobs/"))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_a_file_that_is_no_trace_is_closed(tmp_path: Path) -> None:
    """A file that is left open is a ResourceWarning, which fails."""
    path = tmp_path / "x.trace"
    for lines in (b"", b"{}", b"[1]", json.dumps({"format": "another"}).encode()):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(LINES, lines)
        with pytest.raises(ane.FormatError, match="is not a trace"):
            Trace(path)
        gc.collect()
