"""Neural network models (the form before ML programs), layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.formats.protobuf import Message
from openane.graph import Graph, Value
from openane.importers.coreml.features import CHANNELS, default_shape, image_color
from openane.importers.coreml.layers import LAYERS, CoremlLayer
from openane.importers.coreml.schema import ARRAY_TYPES, LAYER_KINDS
from openane.importers.entry import halves
from openane.importers.shapes import only_inputs
from openane.importers.step import TypedErrors, unknown_operator
from openane.ops.build import GraphBuilder
from openane.record_classes import dataclass

_DRAWN = ("random numbers are not drawn by a program of the engine", "convert the model with its noise as an input")
REFUSED = {
    "custom": ("a custom layer is code of an app, which is not in the model",
               "convert the model with the operation written in others, or split it before and behind the layer"),
    **{kind: _DRAWN for kind in LAYER_KINDS if kind.startswith("random") or kind == "categoricalDistribution"},
}
"""Kinds of layers that nothing stands for: the rule, and what would pass."""


def read_network(model: Message, network: Message, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """The graph of a neural network model in fp16. `shapes` are those asked for inputs with flexible shapes.

    FormatError for weights that do not fit, GraphError for layers that contradict themselves, UnsupportedError naming
    layer and parameter for what is not supported.
    """
    walk = _Import(model.description, network, shapes)
    walk.ports()
    for position, layer in enumerate(network.layers):
        walk.layer(layer, position)
    return walk.finish()


def _label(layer: Message, kind: str, position: int) -> str:
    """What messages call a layer."""
    return f"Core ML {kind or 'layer'} {layer.name!r}" if layer.name else f"Core ML {kind} (layer {position})"


def _refused(layer: Message, kind: str, label: str) -> UnsupportedError:
    """The error for a kind of layer that nothing stands for."""
    if kind in REFUSED:
        rule, remedy = REFUSED[kind]
        return UnsupportedError(label, rule, found=layer.custom.className if kind == "custom" else kind, remedy=remedy)
    return unknown_operator(label, kind or "one that is not known", LAYERS,
                            "convert the model again as an ML program (convert_to='mlprogram')", "this kind of layer")


@dataclass(slots=True)
class _Import:
    """State of one import: `known` maps names of the network to values."""

    description: Message
    network: Message
    shapes: Mapping[str, Sequence[int]]
    exact: bool = False
    outputs: frozenset[str] = frozenset()
    known: dict[str, Value] = field(default_factory=dict)
    builder: GraphBuilder = field(default_factory=GraphBuilder)

    def __post_init__(self) -> None:
        self.exact = self.network.arrayInputShapeMapping == 1
        self.outputs = frozenset(feature.name for feature in self.description.output)

    def ports(self) -> None:
        """Defines inputs, with what prepares them: preprocessing of images, leading dimensions of arrays."""
        names = [feature.name for feature in self.description.input]
        only_inputs(self.shapes, names)
        prepared = {each.featureName: each for each in self.network.preprocessing}
        only = prepared.get("") if len(names) == 1 else None
        for feature in self.description.input:
            color = image_color(feature)
            if color is not None:
                value = self._image(feature, color, prepared.get(feature.name, only))
            else:
                value = self._array(feature)
            self.known[feature.name] = value

    def _image(self, feature: Message, color: str, prepare: Message | None) -> Value:
        """An image as [1, C, H, W] of pixels, times a scale, plus a bias per channel."""
        name = feature.name
        shape = tuple(self.shapes.get(name, (1, *default_shape(feature))))
        if len(shape) != 4 or shape[:2] != (1, CHANNELS[color]):
            raise GraphError(f"input {name!r}: the given shape {list(shape)} does not fit: images are "
                             f"[1, {CHANNELS[color]}, height, width]")
        dtype = "fp16" if color == "GRAYSCALE_FLOAT16" else "uint8"
        value = self.builder.input(name, dtype, shape)
        self.builder.metadata[f"image:{name}"] = color
        if dtype == "uint8":
            value = self.builder.single("cast", f"{name}_real", f"Core ML input {name!r}", x=value, dtype="fp16")
        return value if prepare is None else self._prepared(value, name, color, prepare)

    def _prepared(self, value: Value, name: str, color: str, prepare: Message) -> Value:
        source = f"Core ML preprocessing of {name!r}"
        if "meanImage" in prepare:
            mean = np.frombuffer(prepare.meanImage.meanImage, "<f4")
            if mean.size != value.type.elements:
                raise GraphError(f"{source}: the mean image has {mean.size} elements, the image {value.type.elements}")
            return self.builder.single("sub", f"{name}_prepared", source, x=value,
                                       y=mean.astype(np.float16).reshape(value.shape))
        scaler = prepare.scaler
        colors = {"RGB": ("redBias", "greenBias", "blueBias"), "BGR": ("blueBias", "greenBias", "redBias")}
        names = colors.get(color, ("grayBias",))
        bias = halves(np.array([getattr(scaler, key) for key in names], np.float32), source)
        scale = halves(np.array(scaler.channelScale or 1.0, np.float32), source)
        if scale != 1:
            value = self.builder.single("mul", f"{name}_scaled", source, x=value, y=scale)
        if bias.any():
            value = self.builder.single("add", f"{name}_prepared", source, x=value, y=bias.reshape(1, -1, 1, 1))
        return value

    def _array(self, feature: Message) -> Value:
        name, array = feature.name, feature.type.multiArrayType
        if "multiArrayType" not in feature.type:
            raise UnsupportedError(f"input {name!r}", "inputs must be arrays or images",
                                   found=", ".join(feature.type.fields) or "nothing")
        shape = tuple(self.shapes.get(name, default_shape(feature)))
        if not shape:
            raise UnsupportedError(f"input {name!r}", "shapes are static and this input states none",
                                   remedy=f"give its shape, for example --shape {name}=3x224x224")
        declared = ARRAY_TYPES.get(array.dataType, "fp32")
        whole = declared.startswith("int")
        value = self.builder.input(name, "int32" if whole else "fp16", shape)
        self.builder.metadata[f"dtype:{name}"] = "fp32" if declared == "fp64" else declared
        if self.exact:
            return value
        full: tuple[int, ...]
        if len(shape) == 5:
            full = (shape[0] * shape[1], *shape[2:])
        elif len(shape) in (1, 3):
            full = (1, *shape) if len(shape) == 3 else (1, *shape, 1, 1)
        else:
            raise GraphError(f"input {name!r}: arrays of this model are [C], [C, H, W] or [S, N, C, H, W], "
                             f"found {list(shape)}")
        return self.builder.single("reshape", f"{name}_mapped", f"Core ML input {name!r}", x=value, shape=full)

    def layer(self, layer: Message, position: int) -> None:
        """Imports one layer."""
        kind = layer.which(*LAYER_KINDS) or ""
        label = _label(layer, kind, position)
        if kind not in LAYERS:
            raise _refused(layer, kind, label)
        missing = next((name for name in layer.input if name not in self.known), None)
        if missing is not None:
            raise GraphError(f"{label}: input {missing!r} has not been made at this point")
        name = self._name(next(iter(layer.output), "") or layer.name or kind, position)
        step = CoremlLayer(label, name, self.builder, kind, getattr(layer, kind),
                           [self.known[each] for each in layer.input], list(layer.output), self.exact)
        with TypedErrors(label, "malformed layer"):
            result = LAYERS[kind](step)
        results = result if isinstance(result, tuple) else (result,)
        if len(results) < len(layer.output):
            raise GraphError(f"{label}: has {len(results)} results, {len(layer.output)} are named")
        self.known.update(zip(layer.output, results, strict=False))

    def _name(self, name: str, position: int) -> str:
        """The name of a layer's result, such that no other value takes an output's name: only the last layer that makes
        an output has it, and only when the output needs no other shape."""
        last = next((number for number in reversed(range(len(self.network.layers)))
                     if name in self.network.layers[number].output), position) if name in self.outputs else position
        if last != position or (name in self.outputs and not self.exact):
            name += "."
        while any(other != name and other.startswith(f"{name}_") for other in self.outputs):
            name += "."
        return name

    def finish(self) -> Graph:
        """The graph with the model's outputs under their names, in the shapes the description states."""
        results = {}
        for feature in self.description.output:
            value = self.known.get(feature.name)
            if value is not None:
                results[feature.name] = self._declared(feature, value)
            elif "multiArrayType" in feature.type or "imageType" in feature.type:
                raise GraphError(f"output {feature.name!r} is made by no layer")
        if not results:  # a classifier: labels and a dictionary, which Core ML makes of the probabilities
            last = self.network.layers[-1].output if self.network.layers else ()
            name = self.network.labelProbabilityLayerName or next(iter(last), "")
            if name not in self.known:
                raise GraphError(f"the model has no output that is an array, and no layer makes {name!r}")
            self.builder.metadata[f"dtype:{name}"] = "fp32"
            results[name] = self.known[name]
        return self.builder.finish(results)

    def _declared(self, feature: Message, value: Value) -> Value:
        declared = ARRAY_TYPES.get(feature.type.multiArrayType.dataType, "fp32")
        if value.dtype == "fp16":
            self.builder.metadata[f"dtype:{feature.name}"] = "fp32" if declared in ("fp64", "int32") else declared
        shape = list(feature.type.multiArrayType.shape)
        if self.exact or not shape or tuple(shape) == value.shape or int(np.prod(shape, dtype=object)) \
                != value.type.elements:
            return value
        return self.builder.single("reshape", feature.name, f"Core ML output {feature.name!r}", x=value, shape=shape)
