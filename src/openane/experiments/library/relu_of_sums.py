"""ReLU in the planar engine."""

from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def _clamped() -> Graph:
    build = GraphBuilder()
    x, z = build.input("x", "fp16", (1, 4, 8, 8)), build.input("z", "fp16", (1, 4, 8, 8))
    return build.finish({"y": build.single("relu", x=build.single("add", x=x, y=z))})


EXPERIMENT = Experiment(
    "relu_of_sums", "Is a sum clamped where a task says so?", Kind.VALUES,
    ("field/*/PE.Cfg.ReluEn",),
    (Trial("sum of two", _clamped),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("ignored", "sums stay negative", "reset Elementwise.relu"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Elementwise")),
    value=4)
