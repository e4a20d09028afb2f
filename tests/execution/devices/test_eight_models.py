"""The same models on every device by another string: bit for bit on Linux, within fp16 on macOS.

Programs of Apple's compiler have no graph: the simulator and Linux run them, the graph routes of macOS say why not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from support.device_models import MODELS, compiled, draw, near
from support.needs import corpus_file

import openane as ane
from openane.compiler import Model
from openane.devices.protocol import Device
from openane.formats import load_program
from openane.program import Program

LINUX = ("linux?driver=simulated", "linux?driver=simulated&mode=faithful")
MACOS = ("macos?runtime=simulated", "macos?runtime=simulated&worker=off&route=e5rt")
PROGRAMS = ("anec/add.anec", "anec/softmax.anec", "hwx/mul_v5.hwx", "hwx/conv.hwx")
APART = 0.01
"""How far the reference numerics of the stand-in may be from the engine's, as a part of the largest number."""


Devices = dict[str, Device]


@pytest.fixture(scope="module")
def devices() -> Iterator[Devices]:
    """Every device, open."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(ane.open_device(name)) for name in ("simulator", *LINUX, *MACOS)}


def run(device: Device, subject: Model | Program, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Load, run, close."""
    with device.load(subject) as executable:
        return dict(executable.run(inputs))


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Bit for bit."""
    assert {name: (values.dtype, values.shape, values.tobytes()) for name, values in found.items()} == \
        {name: (values.dtype, values.shape, values.tobytes()) for name, values in wanted.items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_by_another_string(devices: Devices, name: str) -> None:
    model = compiled(name)
    assert not model.host_operations
    inputs = draw(model)
    wanted = run(devices["simulator"], model, inputs)
    assert all(np.ptp(values.astype(np.float64)) > 0 for values in wanted.values())
    for device in LINUX:
        same(run(devices[device], model, inputs), wanted)
    for device in MACOS:
        # MiniLM: six layers in fp16 on one side, in fp32 on the other
        near(run(devices[device], model, inputs), wanted, 3 * APART if name == "minilm" else APART)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_apples_compiler(corpus: Path, devices: Devices, name: str) -> None:
    program = load_program(corpus_file(corpus, f"apple/{name}"))
    assert isinstance(program, Program)
    rng = np.random.default_rng(7)
    inputs = {buffer.name: rng.standard_normal(buffer.layout.shape, np.float32).astype(np.float16)
              for buffer in program.inputs if buffer.layout}
    same(run(devices[LINUX[0]], program, inputs), run(devices["simulator"], program, inputs))
    for device in MACOS:
        with pytest.raises(ane.DeviceError, match="runs models by their graphs, and this is an engine program"):
            devices[device].load(program)
