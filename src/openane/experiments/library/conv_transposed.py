"""Transposed convolutions."""

from openane.experiments.forms import weights
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def _transposed() -> Graph:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 4, 5, 5))
    return build.finish({"y": build.single("conv_transpose", x=x, weight=weights(4, 4, 3, 3), strides=[2, 2])})


EXPERIMENT = Experiment(
    "conv_transposed", "Are transposed convolutions computed as simulated?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("stride 2", _transposed),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Convolution")),
    value=4)
