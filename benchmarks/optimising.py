"""What --optimise gains: modelled time and tasks of programs at each level, beside today's and Apple's.

For each of the twelve networks of `models.py`: modelled time of level 2 over level 0. Tasks of ViT-B/16 and of an LSTM
of 128 steps. And the modelled time of level 2 over the least time published for a network that Apple's compiler
compiled, on the same chip, in fp16: the program alone, and with what a call is believed to cost there. Names as
arguments choose networks.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

import models
import numpy as np
from networks import mobile, topologies, transformers
from onnx import ModelProto

import openane as ane
from openane.chips.machines import find
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.timing import SubmissionRoute, dispatch, program_time, rates

LEVELS = (0, 2)
AIMS = {"vit_b_16": 1500, "lstm_128": 700}
LEAST_GAIN = 0.9
VIT_B = transformers.Encoder(width=768, layers=12, heads=12, hidden=3072, epsilon=1e-6, before=True)
WHISPERS = {"whisper_base_encoder": (512, 6, 8), "whisper_small_encoder": (768, 12, 12)}


@dataclass(frozen=True, slots=True)
class Published:
    """Milliseconds somebody measured of a network on a chip, through Core ML, batch of one."""

    network: str
    chip: str
    milliseconds: float
    source: str


PUBLISHED = (
    Published("resnet50", "a16", 1.52, "coremltools guide, palettization performance: Float16, iPhone 14 Pro"),
    Published("mobilenet_v2", "a16", 0.48, "coremltools guide, palettization performance: Float16, iPhone 14 Pro"),
    Published("whisper_tiny_encoder", "m1 pro", 30.0, "whisper.cpp pull request 566, Core ML"),
    Published("whisper_base_encoder", "m1 pro", 64.0, "whisper.cpp pull request 566, Core ML"),
    Published("whisper_tiny_encoder", "m1 ultra", 18.88, "whisper.cpp issue 89, Core ML"),
    Published("whisper_base_encoder", "m1 ultra", 34.28, "whisper.cpp issue 89, Core ML"),
    Published("whisper_tiny_encoder", "m2 ultra", 23.17, "whisper.cpp pull request 1716, Core ML"),
    Published("vit_b_16", "m4", 3.79, "UForm 3.1, image encoder english-base (8-bit weights), iPad"),
)


def vit_b_16() -> ModelProto:
    return transformers.vit(VIT_B, "vit_b_16")


def whisper(name: str) -> Callable[[], ModelProto]:
    width, layers, heads = WHISPERS[name]
    config = replace(transformers.WHISPER_TINY, width=width, layers=layers, heads=heads, hidden=4 * width)
    return lambda: transformers.whisper_encoder(config, name)


MODELS: dict[str, Callable[[], ModelProto]] = {
    "vit_b_16": vit_b_16, "mobilenet_v2": mobile.mobilenet_v2, "resnet50": lambda: topologies.topology("resnet50"),
    "whisper_tiny_encoder": transformers.whisper_tiny_encoder, "whisper_base_encoder": whisper("whisper_base_encoder"),
}


def lstm(steps: int = 128, size: int = 128) -> Graph:
    """One sequence, one direction, as many features as inputs."""
    rng = np.random.default_rng(0)
    build = GraphBuilder()
    x = build.input("x", "fp16", (steps, 1, size))
    start = [build.input(name, "fp16", (1, size)) for name in ("h", "c")]
    weights = [rng.uniform(-0.1, 0.1, (4 * size, size)).astype(np.float16) for _ in range(2)]
    made = build.add("lstm", x=x, initial_h=start[0], initial_c=start[1], weight_ih=weights[0], weight_hh=weights[1],
                     output_sequence=True)
    return build.finish({"y": made[0]})


def graph_of(model: ModelProto) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return ane.load_graph(path)


def compiled(graph: Graph, level: int, chip: str) -> tuple[float, int, float]:
    """Modelled milliseconds and tasks of a graph's programs, and the seconds compiling took."""
    start = time.perf_counter()
    model = ane.compile(graph, target=chip, optimise=level)
    spent, speed = time.perf_counter() - start, rates(chip)
    return (sum(program_time(program, speed).seconds for program in model.programs) * 1e3,
            sum(len(program.tasks) for program in model.programs), spent)


def gains(names: list[str]) -> list[float]:
    """Prints level 2 over level 0 for some of the twelve networks; the ratios."""
    found = []
    for name in names:
        graph = graph_of(models.NETWORKS[name]().model)
        before, after = (compiled(graph, level, "m1") for level in LEVELS)
        found.append(after[0] / before[0])
        print(f"optimise  {name:<22} {before[0]:7.3f} ms in {before[1]:>5} tasks, level 2 {after[0]:7.3f} ms in "
              f"{after[1]:>5}: {found[-1]:.2f}   compiling takes {after[2] / before[2]:.1f} times as long", flush=True)
    return found


def counts() -> None:
    for name, graph in (("vit_b_16", graph_of(vit_b_16())), ("lstm_128", lstm())):
        before, after = (compiled(graph, level, "m1") for level in LEVELS)
        print(f"optimise  {name:<22} {before[1]:>5} tasks ({before[0]:.3f} ms), level 2 {after[1]:>5} (aim "
              f"{AIMS[name]}) ({after[0]:.3f} ms)", flush=True)


def beside_published(names: list[str]) -> None:
    alone, whole = [], []
    for each in PUBLISHED:
        if names and each.network not in names:
            continue
        taken, tasks, _ = compiled(graph_of(MODELS[each.network]()), 2, each.chip)
        call = (dispatch(each.chip, SubmissionRoute.MACOS, taken / 1e3).value or 0.0) * 1e3
        alone.append(taken / each.milliseconds)
        whole.append((taken + call) / each.milliseconds)
        print(f"optimise  {each.network:<22} on {find(each.chip).chips[0].name:<8} {taken:7.3f} ms modelled ({tasks} "
              f"tasks), {each.milliseconds:6.2f} published: {alone[-1]:.2f}, with a call {whole[-1]:.2f}   "
              f"({each.source})", flush=True)
    if alone:
        print(f"optimise  modelled over published, geometric mean {mean(alone):.2f} (aim 1.0), with a call "
              f"{mean(whole):.2f}")


def mean(values: list[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def main(names: list[str]) -> int:
    """Prints all three; 1 when the twelve networks gain too little."""
    warnings.simplefilter("ignore", RuntimeWarning)
    found = gains([name for name in models.NETWORKS if not names or name in names])
    if found:
        print(f"optimise  level 2 over level 0, geometric mean {mean(found):.3f} (aim {LEAST_GAIN})")
    if not names:
        counts()
    beside_published(names)
    return int(bool(found) and not names and mean(found) > LEAST_GAIN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
