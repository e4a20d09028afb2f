"""rms_norm as networks write it: squares, their mean, the reciprocal root, a product."""

from openane.experiments.families import sums_inside
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def _rms_norm() -> Graph:
    build = GraphBuilder()
    x = build.input("x", "fp16", (16, 768))
    mean = build.single("reduce_mean", x=build.single("mul", x=x, y=x), axes=[-1], keep_dims=True)
    return build.finish({"y": build.single("mul", x=x, y=build.single("rsqrt", x=mean, epsilon=1e-5))})


EXPERIMENT = sums_inside("rms_norm_rows", "rms_norm", _rms_norm, value=7)
