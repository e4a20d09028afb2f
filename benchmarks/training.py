"""What training costs: new weights for a transformer by patching, and a step of the digit classifier.

First the weights of Stories110M's twelve layers (width 768, hidden layer 2048): a model of their products is patched
with new float32 numbers, over casting and transposing the same arrays in numpy (aim: at most 2) and over compiling it
again. Published for the same update by the Orion project: 494 ms by patching files, 4,200 ms by Apple's compiler
(seeds; other hardware and another way: figures to stand beside, not to compare with). Then what a device takes to
give a loaded model new constants, over loading the patched model anew. Then a step of the digit classifier on the
simulator over one of PyTorch on this CPU, where torch is installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import openane as ane
from openane.compiler import Model
from openane.compiler.patch_model import in_place, with_constants
from openane.configuration import read_file
from openane.devices import Device
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.training.computing import Computing, Portion
from openane.training.gradient_weights import computable
from openane.training.networks.layers import TrainedLayers
from openane.training.objective import objective, with_constant_weights
from openane.training.runners import drawn_for
from openane.training.settings import settings

LAYERS, WIDTH, HIDDEN, ROWS = 12, 768, 2048, 16
AIM = 2.0
PUBLISHED = {"patch": 0.494, "recompile": 4.2}
REPEATS = 5
CONFIG = Path(__file__).parents[1] / "examples" / "digits" / "train_digits.toml"


def stories() -> Graph:
    """The products of twelve layers, each reading x: query, key, value and output, and the three of the SwiGLU."""
    builder = GraphBuilder("stories110m")
    rng = np.random.default_rng(0)
    x = builder.input("x", "fp16", (ROWS, WIDTH))

    def product(name: str, source: object, outputs: int, inputs: int) -> object:
        weight = builder.constant(rng.standard_normal((outputs, inputs), np.float32).astype(np.float16), name)
        return builder.single("linear", f"{name}_product", x=source, weight=weight)

    outputs = {}
    for layer in range(LAYERS):
        query, key, value = (product(f"{part}{layer}", x, WIDTH, WIDTH) for part in ("query", "key", "value"))
        mixed = builder.single("mul", x=builder.single("add", x=query, y=key), y=value)
        rows = builder.single("add", x=x, y=product(f"output{layer}", mixed, WIDTH, WIDTH))
        gate = builder.single("silu", x=product(f"gate{layer}", rows, HIDDEN, WIDTH))
        inner = builder.single("mul", x=gate, y=product(f"up{layer}", rows, HIDDEN, WIDTH))
        outputs[f"y{layer}"] = builder.single("add", x=rows, y=product(f"down{layer}", inner, WIDTH, HIDDEN))
    return builder.finish(outputs)


def seconds(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """The fastest of several turns."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def patching() -> None:
    """Patching over casting and transposing, and over compiling again."""
    graph = stories()
    model = ane.compile(graph)
    arrays = {value.name: value.data.astype(np.float32) * np.float32(1.01) for node in graph.nodes
              for value in node.values() if isinstance(value.data, np.ndarray) and value.data.size >= WIDTH * WIDTH}
    total = sum(array.size for array in arrays.values())
    refused = model.patch(arrays).recompiled
    peer = float("inf")
    patch = float("inf")
    for _ in range(REPEATS):  # turn by turn, so that both see the same machine
        peer = min(peer, seconds(lambda: [array.astype(np.float16).T.copy() for array in arrays.values()], 1))
        patch = min(patch, seconds(lambda: model.patch(arrays), 1))
    again = seconds(lambda: ane.compile(with_constants(graph, arrays)), 3)
    print(f"train  patch {len(arrays)} weights, {total / 1e6:.1f} million numbers: {patch * 1e3:.0f} ms, "
          f"{patch / peer:.2f} of casting and transposing (aim {AIM:g}), {patch / again:.3f} of compiling again "
          f"({again * 1e3:.0f} ms); published: {PUBLISHED['patch'] * 1e3:.0f} ms and "
          f"{PUBLISHED['recompile'] * 1e3:.0f} ms" + (f"; compiled again: {refused}" if refused else ""), flush=True)


def step() -> None:
    """A step of the digit classifier, weights given anew, over PyTorch's."""
    made = settings(read_file(CONFIG), CONFIG.parent)
    split = made.data.load(made.base)
    computing = Computing(made, split, made.training.batch, 0)
    portion = Portion(*split.training.take(np.arange(made.training.batch)), made.training.batch)
    share = computing.share(1024.0, made.training.batch)

    def ours() -> None:
        computing.set(computing.weights)
        computing.gradients(portion, share)

    ours()
    engine = seconds(ours)
    tasks = computing.placement()["tasks"]
    computing.close()
    assert isinstance(made.model, TrainedLayers)
    peer = torch_step(portion)
    beside = "PyTorch is not installed" if peer is None else f"{engine / peer:.1f} times PyTorch's {peer * 1e3:.1f} ms"
    print(f"train  step of the digit classifier, batch {made.training.batch}, {tasks} tasks on the simulator: "
          f"{engine * 1e3:.0f} ms, {beside}", flush=True)


def torch_step(portion: Portion) -> float | None:
    """Seconds PyTorch takes for forward, backward and update on one thread; None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.AdamW(net.parameters())
    inputs, labels = torch.tensor(portion.inputs), torch.tensor(portion.labels)

    def turn() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimiser.step()

    turn()
    return seconds(turn)


def reload(device: Device, model: Model) -> None:
    """Loads a model and gives it back."""
    device.load(model).close()


def updating() -> None:
    """New weights for the digit classifier's step, patched: put into the loaded programs over loading them anew."""
    made = settings(read_file(CONFIG) | {"engine": {"route": "patch"}}, CONFIG.parent)
    split = made.data.load(made.base)
    graphs = objective(made.model.build((made.training.batch, 1, 8, 8), split.classes, np.random.default_rng(0),
                                            made.base))
    constants = with_constant_weights(graphs.joint, drawn_for(graphs.joint, graphs.weights))
    model = ane.compile(computable(constants))
    names = [name for name in graphs.weights if not in_place(model, [name])]
    shapes = {value.name: value.shape for value in graphs.joint.inputs}
    rng = np.random.default_rng(1)
    for device in ("simulator", "linux?driver=simulated"):
        turns: dict[str, list[float]] = {"updated": [], "loaded": []}
        with ane.open_device(device) as opened, opened.load(model) as loaded:
            for _ in range(REPEATS + 1):  # the first turn prepares what the others use again
                other = model.patch({name: rng.standard_normal(shapes[name]) * 0.1 for name in names}).model
                turns["updated"].append(seconds(partial(loaded.update_constants, other), 1))
                turns["loaded"].append(seconds(partial(reload, opened, other), 1))
        updated, anew = (min(each[1:]) for each in turns.values())
        print(f"train  new constants for the digit classifier's step on {device}: {updated * 1e3:.1f} ms in place, "
              f"{anew / updated:.0f} times as long by loading anew ({len(names)} of {len(graphs.weights)} weights, "
              f"{sum(len(program.constants) for program in model.programs)} bytes)", flush=True)


def main() -> int:
    """Prints all."""
    patching()
    updating()
    step()
    return 0


if __name__ == "__main__":
    sys.exit(main())
