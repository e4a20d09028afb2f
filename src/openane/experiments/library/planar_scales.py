"""Scales and offsets of the planar engine."""

from openane.experiments.forms import chain
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def _scaled() -> Graph:
    build = GraphBuilder()
    x, z = build.input("x", "fp16", (1, 4, 8, 8)), build.input("z", "fp16", (1, 4, 8, 8))
    return build.finish({"y": build.single("sub", x=build.single("mul", x=x, y=3.0), y=z)})


EXPERIMENT = Experiment(
    "planar_scales", "Are results scaled and shifted as a task says?", Kind.VALUES,
    ("field/*/PE.PreScale.PreScale",),
    (Trial("scaled sum", chain((1, 4, 8, 8), ("mul", {"y": 3.0}), ("add", {"y": 0.5}))),
     Trial("scaled difference", _scaled)),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("nothing", "nothing is stored", "store nothing")),
    value=4)
