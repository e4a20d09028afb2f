"""A gain and an offset for every channel."""

import numpy as np

from openane.experiments.forms import weights
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def _normed() -> Graph:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 8, 6, 6))
    more = {"mean": weights(8), "variance": np.abs(weights(8, seed=9)) + np.float16(0.5),
            "gamma": weights(8, seed=3), "beta": weights(8, seed=4)}
    return build.finish({"y": build.single("batch_norm", x=x, **more)})


EXPERIMENT = Experiment(
    "gain_and_offset", "Are channels multiplied and shifted by vectors as simulated?", Kind.VALUES,
    ("inferred/*/0",),
    (Trial("batch norm", _normed),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("nothing", "nothing is stored", "store nothing")),
    value=4)
