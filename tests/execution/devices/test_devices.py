"""Devices by name, and an executable's contract, on a program emitted for the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.h13 import layout_of

from openane.chips import get_chip
from openane.devices import open_device, run
from openane.engine import Access, Binary, Elementwise
from openane.errors import DeviceError, SimulationError, VerifyError
from openane.program import Buffer, Program, Role, Task

LAYOUT = layout_of((1, 4, 1, 3, 32))


def adder() -> Program:
    """y = x + state."""
    x, state, y = (Access(slot=slot, shape=LAYOUT.shape, strides=LAYOUT.strides) for slot in (4, 5, 6))
    tasks = get_chip("h13").emit([Elementwise(first=x, second=state, result=y, function=Binary.ADD)])
    buffers = [Buffer(name, slot, role, LAYOUT.size, LAYOUT) for name, slot, role in
               (("x", 4, Role.INPUT), ("state", 5, Role.STATE), ("y", 6, Role.OUTPUT))]
    return Program("h13", tuple(Task(t.words, t.offset) for t in tasks), buffers=tuple(buffers))


def test_run_submit_patch_and_reports() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 32)).astype(np.float32)
    half = x.astype(np.float16)
    with open_device("simulator:h13?arithmetic=exact") as device:
        assert (device.info.name, device.info.chip) == ("simulator", "h13")
        executable = device.load(adder())
        outputs = executable.run({"x": x})
        np.testing.assert_array_equal(outputs["y"], half.reshape(1, 4, 3, 32))
        assert executable.report.conversions == ("x: float32 rounded to fp16",)
        executable.patch("state", np.full(32, 2), (0, slice(1, 3), 0, 1))
        patched = np.zeros_like(half)
        patched[1:3, 1] = 2
        expected = half + patched
        for _ in range(2):  # the state stays
            np.testing.assert_array_equal(executable.run({"x": half})["y"], expected[None])
        assert executable.report.conversions == ()
        pending = [executable.submit({"x": half * np.float16(k)}) for k in (0, 1)]
        np.testing.assert_array_equal(pending[0].result()["y"], (half * np.float16(0) + patched)[None])
        np.testing.assert_array_equal(pending[1].result()["y"], expected[None])
        memory = device.allocate(LAYOUT.size)
        executable.bind("state", memory)
        np.testing.assert_array_equal(executable.run({"x": half})["y"], half[None])


def test_wrong_inputs_are_explained() -> None:
    with open_device("simulator") as device, device.load(adder()) as executable:
        x = np.zeros((4, 3, 32), np.float16)
        for inputs, text in (({}, r"the inputs of 'main' are x fp16 \[1, 4, 3, 32\]; missing 'x'"),
                             ({"x": x, "z": x}, "not an input: 'z'"),
                             ({"x": x[:3]}, r"x has shape \[3, 3, 32\], which cannot be reshaped"),
                             ({"x": x.astype(complex)}, "expected is float16, float32, float64 or integers")):
            with pytest.raises(DeviceError, match=text):
                executable.run(inputs)
        with pytest.raises(DeviceError, match="does not take values of shape"):
            executable.patch("state", np.zeros(31), (0, 0, 0, 0))
        with pytest.raises(SimulationError, match="needs 768 bytes, not 10"):
            executable.bind("x", device.allocate(10))
        executable.close()
        with pytest.raises(DeviceError, match="closed"):
            executable.run({"x": x})
    with pytest.raises(DeviceError, match="closed"):
        device.load(adder())


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("gpu", "no device is called 'gpu'; devices are simulator"),
                       ("simulator:h99", "knows no chip 'h99'"),
                       ("simulator?speed=1", "no option 'speed'; it has arithmetic"),
                       ("simulator?arithmetic=double", "there are exact, fast, auto"),
                       ("simulator?fast", "must be written")):
        with pytest.raises(DeviceError, match=text):
            open_device(name)
    monkeypatch.setenv("ANE_DEVICE", "simulator?arithmetic=fast")
    assert "fast arithmetic" in open_device().info.description
    x = np.ones((1, 4, 3, 32), np.float16)
    np.testing.assert_array_equal(run(adder(), {"x": x})["y"], x)
    with pytest.raises(DeviceError, match=r"loads a Program.*, not str"):
        open_device().load("model.hwx")  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="up to"):
        open_device().allocate(1 << 60)


def test_a_refused_program_names_the_way_around() -> None:
    layout = layout_of((1, 2, 1, 3, 4))
    short = Buffer("x", 4, Role.INPUT, layout.size - 64)
    access = Access(slot=4, shape=layout.shape, strides=layout.strides)
    tasks = get_chip("h13").emit([Elementwise(first=access, result=replace(access, slot=5))])
    program = Program("h13", tuple(Task(t.words, t.offset) for t in tasks), b"",
                      (short, Buffer("y", 5, Role.OUTPUT, layout.size, layout)))
    with open_device("simulator") as device, pytest.raises(VerifyError, match="verify=off") as refused:
        device.load(program)
    assert refused.value.violations
