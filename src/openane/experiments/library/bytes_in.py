"""Tensors of 8 bits."""

import numpy as np

from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def _cast() -> Graph:
    build = GraphBuilder()
    x = build.input("x", "int8", (1, 4, 8, 8))
    return build.finish({"y": build.single("cast", x=x, dtype="fp16")})


def _bytes(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return generator.integers(-128, 128, shape).astype(np.int8)


EXPERIMENT = Experiment(
    "bytes_in", "Are tensors of 8 bits read as simulated?", Kind.VALUES,
    ("inferred/*/2",),
    (Trial("int8 to fp16", _cast, _bytes),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("nothing", "nothing is stored", "store nothing")),
    Risk.NEW, value=4)
