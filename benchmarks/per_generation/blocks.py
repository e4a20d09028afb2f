"""Blocks of well-known networks, beside the references of their operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from support.blocks import Transformer, bottleneck, masks, residual

from openane.graph import Graph
from per_generation.case import Arrays, Case, graph_case

TRANSFORMERS = {"causal": (1, 32, 128), "bool": (2, 32, 128), "added": (1, 64, 256)}
"""Batch, tokens and width of an encoder block by the kind of its mask; an added one is spelled in single operations."""
RESIDUALS = {"residual": (1, 1, 32), "residual_strided": (1, 2, 64), "residual_batch": (2, 2, 64)}
"""Batch, stride and channels."""


def cases() -> dict[str, Callable[[], Case]]:
    """What makes each case, by name."""
    made: dict[str, Callable[[], Case]] = {f"transformer_{kind}": partial(_transformer, kind) for kind in TRANSFORMERS}
    made |= {name: partial(graph_case, partial(residual, *sizes), drawn) for name, sizes in RESIDUALS.items()}
    return made | {"bottleneck": partial(graph_case, bottleneck, drawn)}


def _transformer(kind: str) -> Case:
    batch, length, width = TRANSFORMERS[kind]
    return graph_case(lambda: Transformer(batch, length, width, 4).graph(kind, kind == "added"),
                      lambda graph: {**drawn(graph), **masks(kind, length)})


def drawn(graph: Graph) -> Arrays:
    """Numbers between -2 and 2 for every fp16 input."""
    rng = np.random.default_rng(0)
    return {value.name: rng.uniform(-2, 2, value.shape).astype(np.float16) for value in graph.inputs
            if value.dtype == "fp16"}
