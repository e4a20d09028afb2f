"""The probes: a program each, and what its time says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from openane.bench.programs import chain_conv1x1, drawn, gemm
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder


class Metric(StrEnum):
    """What a probe's time is turned into."""

    TIME = "us"
    RATE = "TFLOPS"
    BANDWIDTH = "GB/s"


@dataclass(frozen=True, slots=True)
class Probe:
    """`graphs` are run one after the other (`joined`: as one pipeline). `amount` is what the metric divides by time:
    operations or bytes. `quick` probes are in every run, the others with `--full`."""

    group: str
    name: str
    graphs: Callable[[], tuple[Graph, ...]]
    metric: Metric = Metric.TIME
    amount: float = 0.0
    quick: bool = True
    joined: bool = False


def _one(make: Callable[[], Graph]) -> Callable[[], tuple[Graph, ...]]:
    return lambda: (make(),)


def _add(elements: int) -> Graph:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, elements))
    return build.finish({"y": build.single("add", x=x, y=x)})


def _copy(channels: int) -> Graph:
    """Reads and writes as much, computes next to nothing."""
    build = GraphBuilder()
    return build.finish({"y": build.single("relu", x=build.input("x", "fp16", (1, channels, 64, 64)))})


def _sum(channels: int) -> Graph:
    """Reads, and writes one number per channel."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, channels, 64, 64))
    return build.finish({"y": build.single("reduce_sum", x=x, axes=[2, 3], keep_dims=True)})


def _spread(channels: int) -> Graph:
    """Writes, and reads one number per channel."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, channels, 1, 1))
    return build.finish({"y": build.single("add", x=x, y=np.zeros((1, channels, 64, 64), np.float16))})


def _stage(name: str, result: str, activation: bool) -> Graph:
    """A convolution, or the addition and ReLU after it."""
    build = GraphBuilder()
    x: Value = build.input(name, "fp16", (1, 64, 32, 32))
    if activation:
        y = build.single("relu", x=build.single("add", x=x, y=np.ones((1, 64, 1, 1), np.float16)))
    else:
        y = build.single("conv", x=x, weight=drawn(64, 64, 1, 1))
    return build.finish({result: y})


def _whole() -> Graph:
    build = GraphBuilder()
    y = build.single("conv", x=build.input("x", "fp16", (1, 64, 32, 32)), weight=drawn(64, 64, 1, 1))
    return build.finish({"z": build.single("relu", x=build.single("add", x=y, y=np.ones((1, 64, 1, 1), np.float16)))})


def _parts() -> tuple[Graph, ...]:
    return _stage("x", "y", False), _stage("y", "z", True)


def _rate(group: str, name: str, make: Callable[[], Graph], multiplies: int, quick: bool = True) -> Probe:
    return Probe(group, name, _one(make), Metric.RATE, 2.0 * multiplies, quick)


def _bandwidth(name: str, make: Callable[[], Graph], moved: int, quick: bool = True) -> Probe:
    return Probe("bandwidth", name, _one(make), Metric.BANDWIDTH, float(moved), quick)


PLANE = 64 * 64 * 2
SWEEP = (256, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096)

PROBES: tuple[Probe, ...] = (
    Probe("dispatch", "add of 64 elements", _one(partial(_add, 64))),
    Probe("dispatch", "conv 64 channels, 32 wide", _one(partial(chain_conv1x1, 1, 64, 1, 32, 0))),
    Probe("dispatch", "conv 768 channels, 256 wide", _one(partial(chain_conv1x1, 1, 768, 1, 256, 0))),
    _rate("peak", "16 x conv1x1 512 channels, 64 wide", partial(chain_conv1x1, 16, 512, 1, 64, 1), 16 * 512 * 512 * 64),
    _rate("peak", "4 x conv1x1 512 channels, 32x32", partial(chain_conv1x1, 4, 512, 32, 32, 0), 4 * 512 * 512 * 1024),
    _rate("peak", "product 512x512x512", partial(gemm, 512, 512, 512), 512 ** 3),
    _rate("peak", "product 1024x1024x1024", partial(gemm, 1024, 1024, 1024), 1024 ** 3, quick=False),
    _rate("peak", "128 x conv1x1 512 channels, 64 wide", partial(chain_conv1x1, 128, 512, 1, 64, 1),
          128 * 512 * 512 * 64, quick=False),
    _bandwidth("weights: 1 row by 2048x2048", partial(gemm, 1, 2048, 2048), 2048 * 2048 * 2),
    _bandwidth("weights: 1 row by 4096x4096", partial(gemm, 1, 4096, 4096), 4096 * 4096 * 2, quick=False),
    _bandwidth("read: sum of 256 planes of 64x64", partial(_sum, 256), 256 * PLANE),
    _bandwidth("write: 256 planes of 64x64", partial(_spread, 256), 256 * PLANE),
    _bandwidth("read and write: relu of 256 planes", partial(_copy, 256), 2 * 256 * PLANE),
    *(Probe("working set", f"conv1x1 {channels} channels, {channels * channels * 2 / 1e6:.1f} MB of weights",
            _one(partial(chain_conv1x1, 1, channels, 1, 64, 0)), quick=channels <= 1024) for channels in SWEEP),
    Probe("fusion", "conv, add, relu as one program", _one(_whole)),
    Probe("fusion", "the same as two programs, chained", _parts, joined=True),
    Probe("fusion", "the same as two programs, through the host", _parts),
)

GROUPS = tuple(dict.fromkeys(probe.group for probe in PROBES))
"""What the probes are about."""
