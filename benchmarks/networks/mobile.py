"""MobileNetV2 from its published configuration (Sandler et al. 2018, table 2), as ONNX."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from networks.graph import OnnxGraph

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and first stride of the inverted residuals."""
FIRST, LAST, IMAGE, CLASSES = 32, 1280, 224, 1000


def mobilenet_v2(seed: int = 0) -> ModelProto:
    """Image [1, 3, 224, 224] to 1000 logits; norms are in the convolutions already."""
    graph = OnnxGraph("mobilenet_v2", seed)
    x = _convolution(graph, graph.input("input", 1, 3, IMAGE, IMAGE), "first", 3, FIRST, 3, 2)
    inputs = FIRST
    for stage, (expansion, channels, blocks, stride) in enumerate(STAGES):
        for block in range(blocks):
            x = _residual(graph, x, f"{stage}.{block}", (inputs, channels), expansion, 1 if block else stride)
            inputs = channels
    x = graph.add("GlobalAveragePool", _convolution(graph, x, "last", inputs, LAST, 1, 1))
    x = graph.add("Reshape", x, np.array([1, LAST]))
    return graph.finish(graph.linear(x, "classes", LAST, CLASSES), 1, CLASSES)


def _convolution(graph: OnnxGraph, x: str, name: str, inputs: int, outputs: int, size: int, stride: int,
                 groups: int = 1, clamped: bool = True) -> str:
    made = graph.add("Conv", x, graph.weight(f"{name}.weight", outputs, inputs // groups, size, size),
                     graph.weight(f"{name}.bias", outputs), kernel_shape=[size] * 2, strides=[stride] * 2,
                     pads=[size // 2] * 4, group=groups)
    return graph.add("Clip", made, np.array(0, np.float32), np.array(6, np.float32)) if clamped else made


def _residual(graph: OnnxGraph, x: str, name: str, channels: tuple[int, int], expansion: int, stride: int) -> str:
    inputs, outputs = channels
    wide = inputs * expansion
    made = _convolution(graph, x, f"{name}.wide", inputs, wide, 1, 1) if expansion > 1 else x
    made = _convolution(graph, made, f"{name}.depthwise", wide, wide, 3, stride, groups=wide)
    made = _convolution(graph, made, f"{name}.narrow", wide, outputs, 1, 1, clamped=False)
    return graph.add("Add", x, made) if stride == 1 and inputs == outputs else made
