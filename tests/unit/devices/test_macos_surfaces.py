"""IOSurfaces and the layout of ports in them, and the directory a model is compiled in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.devices.macos.directories import ModelDirectory, remove_abandoned, weight_file
from openane.devices.macos.foundation import Foundation
from openane.devices.macos.graph_program import GraphPort, GraphProgram
from openane.devices.macos.live_layout import in_order, live_ports
from openane.devices.macos.objc import ObjC
from openane.devices.macos.shared_memory import SharedMemory, needed, tensors
from openane.devices.macos.standin import SimulatedSymbols
from openane.devices.macos.surfaces import Surfaces
from openane.devices.packer import NUMPY, pack, unpack
from openane.errors import DeviceChanged, DeviceError, DeviceRejected, DeviceUnavailable, SubmitFailed
from openane.graph import numpy_type


class Kit:
    """Surfaces over a stand-in; `close` gives the problems it saw."""

    def __init__(self, inject: str = "") -> None:
        self.symbols = SimulatedSymbols(inject)
        self.objc = ObjC(self.symbols)
        self.surfaces = Surfaces(self.symbols, self.objc, Foundation(self.symbols, self.objc))


@pytest.fixture
def kit() -> Iterator[Kit]:
    made = Kit()
    yield made
    assert made.surfaces.live == 0
    made.symbols.close()


def test_a_surface_is_read_and_written_under_its_lock(kit: Kit) -> None:
    with kit.objc.pool():
        surfaces = [kit.surfaces.flat(100), kit.surfaces.strided(20, 3)]
    assert [surface.size for surface in surfaces] == [100, 3 * 64]
    for surface in surfaces:
        surface.use(lambda store: store.__setitem__(slice(None), np.arange(store.size)))
        assert surface.use(lambda store: int(store[70]), read_only=True) == 70
        with pytest.raises(ValueError, match="read-only"):
            surface.use(lambda store: store.fill(1), read_only=True)
        surface.close()
        surface.close()
        with pytest.raises(DeviceError, match="released"):
            surface.use(lambda store: None)


def test_an_error_inside_leaves_the_surface_unlocked(kit: Kit) -> None:
    with kit.objc.pool():
        surface = kit.surfaces.flat(8)
    with pytest.raises(ZeroDivisionError):
        surface.use(lambda store: 1 / 0)
    surface.use(lambda store: store.fill(3))
    surface.close()


@pytest.mark.parametrize("size", [0, -1, 2**50])
def test_sizes_are_checked_before_anything_is_asked_for(kit: Kit, size: int) -> None:
    with kit.objc.pool(), pytest.raises(DeviceError, match="a surface has 1 to"):
        kit.surfaces.flat(size)


def test_what_fails_in_the_system() -> None:
    refusing = Kit("nil=IOSurfaceCreate")
    with refusing.objc.pool(), pytest.raises(DeviceError, match="made no surface of 64 bytes"):
        refusing.surfaces.flat(64)
    locked = Kit("lock")
    with locked.objc.pool():
        surface = locked.surfaces.flat(64)
    with pytest.raises(SubmitFailed, match=r"IOSurfaceLock failed: .* \(IOKit 0xe00002cc\)"):
        surface.use(lambda store: None)
    surface.close()
    assert locked.surfaces.live == 0


def port(mil: str, shape: tuple[int, ...], element: str = "fp16") -> GraphPort:
    return GraphPort(mil, mil, shape, element, element)


def entry(one: GraphPort, pads: tuple[int, int, int, int] = (0, 0, 0, 0)) -> dict[str, Any]:
    """What a loaded model says about a port whose last four dimensions are C, D, H, W; `pads` widen the strides."""
    n, c, d, h, w = (1,) * (5 - len(one.shape)) + one.shape
    size = numpy_type(one.element).itemsize
    row = -(-w * size // 64) * 64 + 64 * pads[0]
    plane = row * h + 64 * pads[1]
    depth = plane * c + 64 * pads[2]
    batch = depth * d + 64 * pads[3]
    return {"Symbol": one.mil, "Batches": n, "Channels": c, "Depth": d, "Height": h, "Width": w, "BatchStride": batch,
            "PlaneStride": plane, "DepthStride": depth, "RowStride": row}


def attributes(*entries: dict[str, Any]) -> Any:
    return {"NetworkStatusList": [{"LiveInputList": list(entries)}]}


@given(st.lists(st.integers(1, 5), min_size=5, max_size=5), st.sampled_from(["fp16", "int8", "uint8", "int16"]),
       st.tuples(*[st.integers(0, 2)] * 4))
def test_tensors_lie_where_the_model_says(shape: list[int], element: str, pads: tuple[int, int, int, int]) -> None:
    one = port("x", tuple(shape), element)
    stated = entry(one, pads)
    live, = live_ports(attributes(stated), "LiveInputList", [one])
    values = np.random.default_rng(0).integers(0, 100, shape).astype(numpy_type(element))
    store = np.full(live.size, 0x55, np.uint8)
    pack(values.view(NUMPY[live.layout.dtype]), live.layout, store)
    for place in np.ndindex(*shape):
        n, c, d, h, w = place
        start = (n * stated["BatchStride"] + c * stated["PlaneStride"] + d * stated["DepthStride"]
                 + h * stated["RowStride"] + w * values.itemsize)
        assert store[start:start + values.itemsize].tobytes() == values[place].tobytes()
    back = unpack(live.layout, store, shape).view(values.dtype)
    assert back.tobytes() == values.tobytes()


def test_ports_are_taken_in_alphabetical_order() -> None:
    ports = [port(name, (1, 32)) for name in ("b", "a", "c")]
    assert [each.mil for each in in_order(ports)] == ["a", "b", "c"]
    live = live_ports(attributes(*map(entry, in_order(ports))), "LiveInputList", ports)
    assert [each.port.mil for each in live] == ["a", "b", "c"]
    with pytest.raises(DeviceChanged, match=r"order of LiveInputList .*expected a, b, c, found b, a, c"):
        live_ports(attributes(*map(entry, ports)), "LiveInputList", ports)


@pytest.mark.parametrize(("change", "message"), [
    ({"Width": 31}, "expected 64 elements"), ({"RowStride": None}, "RowStride of the"), ({"RowStride": 0}, "RowStride"),
    ({"BatchStride": 2**60}, "BatchStride"), ({"BatchStride": 64}, "inside 64 bytes"), ({"Width": "x"}, "Width"),
])
def test_attributes_are_not_believed_blindly(change: dict[str, Any], message: str) -> None:
    one = port("x", (2, 32))
    with pytest.raises(DeviceChanged, match=message):
        live_ports(attributes(entry(one) | change), "LiveInputList", [one])


def test_another_number_of_ports_is_a_changed_interface() -> None:
    with pytest.raises(DeviceChanged, match=r"LiveInputList .*expected 1 ports, found 2"):
        live_ports(attributes(*(entry(port(name, (1, 32))) for name in "xy")), "LiveInputList", [port("x", (1, 32))])


@pytest.mark.parametrize("silent", [None, {}, {"NetworkStatusList": []}, {"NetworkStatusList": [3]}, "text", []])
def test_without_attributes_only_whole_rows_are_taken(silent: Any) -> None:
    live, = live_ports(silent, "LiveInputList", [port("x", (2, 3, 32))])
    assert (live.size, live.layout.shape) == (384, (1, 1, 1, 6, 32))
    with pytest.raises(DeviceRejected, match="multiple of 32, or use route=e5rt"):
        live_ports(silent, "LiveInputList", [port("x", (2, 31))])


TEXT = "program(1.3)"
WEIGHTS = {"@model_path/weights/weight.bin": b"w" * 100, "@model_path/other.bin": b"o"}


def test_the_directory_is_filled_and_removed(tmp_path: Path) -> None:
    directory = ModelDirectory(tmp_path / "model", TEXT, WEIGHTS)
    files = [path for path in directory.path.rglob("*") if path.is_file()]
    found = {str(path.relative_to(directory.path)): path.read_bytes() for path in files}
    assert found == {"model.mil": TEXT.encode(), "weights/weight.bin": b"w" * 100, "other.bin": b"o"}
    assert directory.path.stat().st_mode % 0o1000 == 0o700
    (directory.path / "data").write_bytes(b"what the compiler adds")
    directory.close()
    directory.close()
    assert not list(tmp_path.iterdir())


def test_the_last_of_several_users_removes_it(tmp_path: Path) -> None:
    users = [ModelDirectory(tmp_path / "model", TEXT, WEIGHTS) for _ in range(3)]
    for user in users:
        assert (user.path / "model.mil").exists()
        remove_abandoned(user.path)
        assert (user.path / "model.mil").exists()
        user.close()
    assert not list(tmp_path.iterdir())
    remove_abandoned(tmp_path / "model")


def test_users_that_come_and_go_at_once(tmp_path: Path) -> None:
    def work(number: int) -> bool:
        for _ in range(20):
            directory = ModelDirectory(tmp_path / "model", TEXT, WEIGHTS)
            complete = (directory.path / "weights" / "weight.bin").read_bytes() == b"w" * 100
            directory.close()
            if not complete:
                return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(work, range(6)))
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_leaves_can_be_removed(tmp_path: Path) -> None:
    code = ("import os, signal, sys; from pathlib import Path; from openane.devices.macos.directories import *; "
            "kept = ModelDirectory(Path(sys.argv[1]), 'text', {}); os.kill(os.getpid(), signal.SIGKILL)")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], check=False)
    assert (tmp_path / "model" / "model.mil").exists()
    remove_abandoned(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["weights.bin", "/etc/passwd", "@model_path/", "@model_path/../x", "@model_path//x",
                                  "@model_path/a/../../x"])
def test_weights_stay_inside_the_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(DeviceError, match="inside the model's directory"):
        weight_file(name)
    with pytest.raises(DeviceError, match="inside the model's directory"):
        ModelDirectory(tmp_path / "model", TEXT, {name: b""})
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file/model", "link", "missing/model"):
        with pytest.raises(DeviceUnavailable, match="set TMPDIR"):
            ModelDirectory(tmp_path / name, TEXT, WEIGHTS)
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with pytest.raises(DeviceUnavailable, match="cannot be written"):
        ModelDirectory(tmp_path / "model", TEXT, {"@model_path/model.mil/x": b""})
    assert not (tmp_path / "model").exists()
    assert descriptors == (len(os.listdir("/proc/self/fd")) if descriptors else 0)


def test_two_sides_see_the_same_tensors() -> None:
    program = GraphProgram("main", "", {}, (port("a", (3, 5)), port("b", (7,), "int8")), (port("c", (2, 2)),), {})
    ours = SharedMemory(needed(program))
    theirs = SharedMemory(ours.size, os.dup(ours.descriptor))
    for memory in (ours, theirs):
        memory.close()
    (inputs, outputs), (seen, made) = (tensors(program, memory.bytes) for memory in (ours, theirs))
    inputs["a"][...] = np.arange(15).reshape(3, 5)
    inputs["b"][...] = -1
    made["c"][...] = 9
    assert seen["a"].tolist() == np.arange(15).reshape(3, 5).tolist()
    assert (seen["b"] == -1).all()
    assert (outputs["c"] == 9).all()
    assert all(each.ctypes.data % 64 == 0 for each in (*inputs.values(), *outputs.values()))
    with pytest.raises(DeviceError, match="the limit is"):
        needed(GraphProgram("main", "", {}, (port("a", (2**40,)),), (), {}))
