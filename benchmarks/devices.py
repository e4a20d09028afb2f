"""What a backend adds to every run, in one run: microseconds over, and times, the bare call of the simulator.

The bare call is `LoadedProgram.run` on packed bytes of the same data. Beside it every backend of programs twice: `run`
takes arrays, packs and unpacks them; `execute` leaves them in the buffers. The macOS stand-in takes models and computes
them by reference numerics, so its overhead is counted over those: the same graph evaluated without a device. The calls
take turns, and of each the fastest counts. A tiny program, of which the overhead is nearly everything, and a medium
one. Arithmetic is `fast` everywhere. `execute` may cost less than the bare call, which copies its arrays in and out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from openane.compiler import Model, compile
from openane.compiler.states import reference
from openane.devices import open_device
from openane.devices.packer import NUMPY, pack
from openane.devices.protocol import Device
from openane.devices.simdriver import SimDriver
from openane.devices.simdriver.server import DriverServer
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.program import Program
from openane.simulator import load

REPEATS = 200
SECONDS = 4.0
"""At most, per program."""


def tiny() -> Graph:
    """One task on 512 bytes."""
    builder = GraphBuilder()
    x, y = (builder.input(name, "fp16", (1, 8, 1, 32)) for name in "xy")
    return builder.finish({"z": builder.single("add", x=x, y=y)})


def medium() -> Graph:
    """Three convolutions of 64 channels."""
    builder, rng = GraphBuilder(), np.random.default_rng(0)
    x = builder.input("x", "fp16", (1, 64, 28, 28))
    for _ in range(3):
        weight = rng.standard_normal((64, 64, 3, 3)) / 24
        x = builder.single("relu", x=builder.single("conv", x=x, weight=weight, pad_type="same"))
    return builder.finish({"z": x})


@contextmanager
def served() -> Iterator[Device]:
    """A Linux device whose driver is reached over a socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ane"
        with SimDriver("faithful", "fast") as driver, DriverServer(driver, path), \
                open_device(f"linux?driver={path}") as device:
            yield device


def backends() -> dict[str, Callable[[], object]]:
    """Context managers of devices of programs by what they are called here."""
    return {
        "simulator": lambda: open_device("simulator?arithmetic=fast"),
        "linux, driver in process": lambda: open_device("linux?driver=simulated&mode=faithful&arithmetic=fast"),
        "linux, strict driver": lambda: open_device("linux?driver=simulated&mode=strict&arithmetic=fast"),
        "linux, served driver": served,
    }


GRAPH_BACKENDS = {
    f"macos stand-in, {route}, worker {worker}": f"macos?runtime=simulated&route={route}&worker={worker}"
    for route in ("memory", "e5rt") for worker in ("off", "on")}
"""Devices of models by what they are called here."""


def draw(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {buffer.name: rng.standard_normal(buffer.layout.shape).astype(NUMPY[buffer.layout.dtype])
            for buffer in program.inputs if buffer.layout}


def bare(program: Program, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
    """The simulator's own call on packed bytes."""
    loaded = load(program, "fast")
    packed = {}
    for buffer in program.inputs:
        assert buffer.layout
        packed[buffer.name] = np.zeros(buffer.layout.size, np.uint8)
        pack(inputs[buffer.name], buffer.layout, packed[buffer.name])
    return lambda: loaded.run(packed)


def fastest(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of the fastest run of each, taken in turns after one of each to warm up."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    end = time.perf_counter() + SECONDS
    for _ in range(REPEATS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return best


def report(name: str, model: Model) -> None:
    """One block of lines."""
    inputs = draw(model.program)
    given = {port.name: inputs[port.name].reshape(port.shape) for port in model.inputs}
    calls = {"bare": bare(model.program, inputs), "reference": lambda: reference(model.graph, given)}
    with ExitStack() as stack:
        for backend, opened in backends().items():
            device = stack.enter_context(opened())  # type: ignore[arg-type]
            executable = stack.enter_context(device.load(model.program))
            calls[f"{backend}: run"] = lambda run=executable.run: run(inputs)  # type: ignore[misc]
            calls[f"{backend}: execute"] = executable.execute
        for backend, string in GRAPH_BACKENDS.items():
            loaded = stack.enter_context(stack.enter_context(open_device(string)).load(model))
            calls[f"{backend}: run"] = lambda run=loaded.run: run(given)  # type: ignore[misc]
        found = fastest(calls)
    base, numerics = found.pop("bare"), found.pop("reference")
    print(f"{name}: {len(model.program.tasks)} tasks, bare simulator call {base * 1e6:.0f} us, "
          f"reference numerics {numerics * 1e6:.0f} us")
    for call, seconds in found.items():
        over = numerics if call.startswith("macos") else base
        print(f"  {call:42s} {(seconds - over) * 1e6:9.0f} us over it   {seconds / over:6.2f} times")


def main() -> None:
    for name, graph in (("tiny", tiny()), ("medium", medium())):
        report(name, compile(graph))


if __name__ == "__main__":
    main()
