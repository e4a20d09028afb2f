"""Weights by their indices in a table."""

import numpy as np

from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def _palette() -> Graph:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 64, 16, 16))
    indices = np.random.default_rng(7).integers(0, 256, 64 * 64 // 2).astype(np.uint8)
    weight = build.single("constexpr_lut_to_dense", indices=indices, lut=np.linspace(-0.5, 0.5, 16).astype(np.float16),
                          shape=np.array([64, 64, 1, 1], np.uint32))
    return build.finish({"y": build.single("conv", x=x, weight=weight)})


EXPERIMENT = Experiment(
    "palette_weights", "Are weights that are stored as indices of a table of 16 read as simulated?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("4 bits", _palette),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    Risk.NEW, value=4)
