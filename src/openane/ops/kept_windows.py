"""Windows of convolutions and pools, read once for all that are alike: graphs are run for a part of their positions in
so little time that reading the settings of a node would take as long as what it computes."""

from __future__ import annotations

from functools import lru_cache

from openane.graph import Node
from openane.ops.window import Window, make_window

KEPT = 1 << 7
"""Windows that are kept."""

Settings = tuple[int, ...]


def window_of(node: Node) -> Window:
    """As `conv_window` and `pool_window`, of a node whose operands fit."""
    weight, pad_type, ceiling = node.get("weight"), node.get("pad_type"), node.get("ceil_mode")
    kernel = _integers(node, "kernel_sizes") if weight is None else weight.shape[2:]
    text = "valid" if pad_type is None else str(pad_type.data)
    return _window(node["x"].shape[2:], kernel, text, _integers(node, "strides"), _integers(node, "dilations"),
                   _integers(node, "pad"), ceiling is not None and bool(ceiling.array()))


def _integers(node: Node, name: str) -> Settings:
    value = node.get(name)
    return () if value is None else tuple(value.array().tolist())


@lru_cache(maxsize=KEPT)
def _window(extents: Settings, kernel: Settings, pad_type: str, strides: Settings, dilations: Settings, pad: Settings,
            ceiling: bool) -> Window:
    return make_window("window", extents, kernel, pad_type=pad_type, strides=strides, dilations=dilations, pad=pad,
                       ceiling=ceiling)
