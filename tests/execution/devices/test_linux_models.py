"""Models and programs on the Linux backend over a simulated driver: bit for bit what the simulator computes."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import numpy as np
import pytest
from support.device_models import ONES, compiled, draw, function, single
from support.linux_kernels import CountingKernel, IdleKernel
from support.verifier_programs import base_programs

import openane as ane
from openane.compiler import Model, compile_functions
from openane.devices.linux.device import LinuxDevice
from openane.devices.packer import NUMPY, logical_shape
from openane.devices.simdriver import SimDriver, SimKernel
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.program import Program

LINUX = "linux?driver=simulated"


def on_the_host() -> Graph:
    """Two programs with a step on the host between them."""
    builder = GraphBuilder()
    x, rows = builder.input("x", "fp16", (8, 16)), builder.input("rows", "int32", (3,))
    chosen = builder.single("gather", x=builder.single("exp", x=x), indices=rows, axis=0)
    return builder.finish({"z": builder.single("relu", x=chosen)})


def same(subject: Model | Program, inputs: Mapping[str, np.ndarray], *devices: str) -> None:
    """Every device gives the simulator's bytes, twice in a row."""
    wanted = ane.run(subject, inputs, "simulator")
    assert wanted
    for name in devices or (LINUX, f"{LINUX}&mode=faithful"):
        with ane.open_device(name) as device, device.load(subject) as executable:
            for _ in range(2):
                found = executable.run(inputs)
                assert {key: (value.dtype, value.shape, value.tobytes()) for key, value in found.items()} == \
                    {key: (value.dtype, value.shape, value.tobytes()) for key, value in wanted.items()}
            assert executable.report.tasks == ()
            assert executable.report.seconds > 0


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
def test_the_arithmetic_can_be_chosen(arithmetic: str) -> None:
    model = compiled("conv")
    inputs = draw(model)
    found = ane.run(model, inputs, f"{LINUX}&timeout=60&arithmetic={arithmetic}")["y"]
    assert found.tobytes() == ane.run(model, inputs, f"simulator?arithmetic={arithmetic}")["y"].tobytes()


def test_steps_on_the_host() -> None:
    model = ane.compile(on_the_host(), allow_host=True)
    assert model.host_operations
    assert len(model.programs) > 1
    same(model, draw(model))


def test_functions_share_states() -> None:
    model = compile_functions([function("sum", 'add(x = old, y = x)[name = string("new")]'),
                               function("product", 'mul(x = old, y = x)[name = string("new")]')])
    for name in ("simulator", LINUX):
        with ane.open_device(name) as device, device.load(model) as executable:
            found = [float(executable.run({"x": ONES * k}, which)["y"].max()) for k, which in
                     ((3, None), (2, "product"), (1, "sum"), (4, "product"))]
            assert found == [6, 12, 14, 56]
            assert (executable.read("total") == 28).all()
            executable.write("total", np.full((1, 16), 5.0), (0, 2))
            assert executable.run({"x": ONES}, "sum")["y"][0, :3, 0, 0].tolist() == [58, 58, 12]


def test_two_models_share_memory_and_submissions_keep_their_order() -> None:
    first, second = (ane.compile(single(op, (1, 8, 1, 16))) for op in ("square", "relu"))
    with ane.open_device(LINUX) as device, device.load(first) as one, device.load(second) as two:
        memory = device.allocate(max(port.layout.size for port in (*first.outputs, *second.inputs)))
        one.bind("y", memory)
        two.bind("x", memory)
        one.run({"x": ONES * -3})
        assert (two.read("x") == 9).all()
        assert (memory.view(np.float16)[:16] == 9).all()
        waiting = [one.submit({"x": ONES * k}) for k in range(6)]
        assert [float(each.result()["y"].max()) for each in waiting] == [0, 1, 4, 9, 16, 25]


def test_nothing_is_reported_or_left_behind() -> None:
    with SimDriver("strict") as driver:
        model = compiled("transformer")
        with LinuxDevice(SimKernel(driver), "/dev/accel/accel0", "linux:0", simulated="a driver") as device:
            kept = device.allocate(100)
            kept[:] = 7
            with device.load(model) as executable:
                executable.run(draw(model))
            device.load(model).run(draw(model))
            assert driver.used > kept.size
        assert (driver.used, driver.files, driver.reports) == (0, (), ())
        assert (kept == 7).all()


@pytest.mark.parametrize("call", ["BO_INIT", "mmap"])
def test_a_model_that_cannot_be_loaded_wholly_leaves_nothing(call: str) -> None:
    model = ane.compile(on_the_host(), allow_host=True)
    kernel = CountingKernel(IdleKernel())
    with LinuxDevice(kernel, "/dev/accel/accel0", "linux:0") as device:
        device.load(model).close()
        for after in range(kernel.calls[call]):
            kernel.fail(call, errno.ENOMEM, after)
            with pytest.raises(ane.DeviceError) as caught:
                device.load(model)
            del caught
            assert kernel.struck
            assert kernel.held == (1, 0, 0)


@pytest.mark.parametrize("name", base_programs())
def test_every_kind_of_operation(name: str) -> None:
    program, rng = base_programs()[name], np.random.default_rng(1)
    inputs = {}
    for buffer in program.inputs:
        assert buffer.layout
        shape = logical_shape(buffer.layout)
        inputs[buffer.name] = rng.integers(-8, 8, shape).astype(NUMPY[buffer.layout.dtype])
    same(program, inputs)


WRONG = (None, "1", [[1], [1, 2]], np.full(ONES.shape, None), ONES.astype(complex), ONES.astype("M8[s]"))


@pytest.mark.parametrize("name", ["simulator", LINUX, "macos?runtime=simulated&worker=off"])
def test_what_is_refused_changes_nothing(name: str) -> None:
    model = ane.compile(single("square", ONES.shape))
    with ane.open_device(name) as device:
        with pytest.raises(ane.DeviceError, match="bind"):
            device.load(model, {"x": device.allocate(512)})
        with device.load(model) as executable:
            for memory in (None, np.zeros(3, np.uint8), np.zeros((2, 512), np.uint8), np.zeros(512, np.float16)):
                with pytest.raises(ane.DeviceError):
                    executable.bind("x", memory)  # type: ignore[arg-type]
            for values in WRONG:
                with pytest.raises(ane.DeviceError):
                    executable.run({"x": values})  # type: ignore[dict-item]
                with pytest.raises(ane.DeviceError):
                    executable.submit({"x": values}).result()  # type: ignore[dict-item]
                with pytest.raises(ane.DeviceError):
                    executable.write("x", values)  # type: ignore[arg-type]
            assert (executable.run({"x": ONES * 3})["y"] == 9).all()
