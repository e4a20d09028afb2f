"""An espresso network walked layer by layer into a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.graph import Graph, Value
from openane.importers.entry import DictionaryEntry
from openane.importers.espresso.files import Blobs, Shape, read_json, read_shapes
from openane.importers.espresso.layer import EspressoLayer
from openane.importers.espresso.layers import HANDLERS
from openane.importers.files import is_there
from openane.importers.shapes import only_inputs
from openane.importers.step import TypedErrors
from openane.ops.build import GraphBuilder
from openane.record_classes import dataclass

NETWORK, SHAPES = ".espresso.net", ".espresso.shape"
FOLDER_NETWORK = "model" + NETWORK
_COLOURS = ("bias_r", "bias_g", "bias_b")


def load_espresso(source: str | Path, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The graph of an espresso model: an .mlmodelc folder of that form, or its .espresso.net file, plain or compressed,
    with shapes and weights beside it. `shapes` gives shapes of inputs that the shape file leaves out.

    Where the network states how images are scaled, the inputs are pixels of 0 to 255. FormatError, GraphError, or
    UnsupportedError naming layer, attribute and value.
    """
    path = Path(source)
    path = path / FOLDER_NETWORK if path.is_dir() else path
    document = read_json(_read(path), "the network")
    top = DictionaryEntry("espresso network", document)
    top.integer("format_version", 200, 100, 999)
    storage = PurePosixPath(top.text("storage", path.name.removesuffix(NETWORK) + ".espresso.weights"))
    sidecar = path.with_name(path.name.removesuffix(NETWORK) + SHAPES)
    stated = read_shapes(read_json(_read(sidecar), "the shape file")) if sidecar.is_file() else {}
    weights = path.with_name(storage.name) if storage.name else path
    blobs = Blobs(_read(weights) if is_there(weights) and weights != path else b"")
    return build_graph(document, stated, blobs, shapes)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise FormatError(f"{path.name} cannot be read: {error}") from None


def build_graph(document: Mapping[str, Any], stated: Mapping[str, Shape], blobs: Blobs,
                shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The graph of a network whose files are read already; `stated` are the shape file's shapes."""
    top = DictionaryEntry("espresso network", document)
    layers = []
    for index, entry in enumerate(top.sections("layers")):
        name, kind = (entry.values.get(key) for key in ("name", "type"))
        layers.append(DictionaryEntry(f"espresso layer {name!r:.80} ({kind!s:.40})" if name else
                                      f"espresso layer {index} ({kind!s:.40})", entry.values))
    return _Import(top, layers, stated, blobs, dict(shapes or {})).graph()


def _blobs(layer: DictionaryEntry, key: str) -> tuple[str, ...]:
    """Blob names, separated by commas."""
    text = layer.values.get(key, "")
    if not isinstance(text, str):
        raise layer.malformed(key, "blob names separated by commas")
    return tuple(text.split(",")) if text else ()


@dataclass(slots=True)
class _Import:
    """State of one import: `known` maps blob names to values, `left` counts how often each is still to be made."""

    top: DictionaryEntry
    layers: Sequence[DictionaryEntry]
    stated: Mapping[str, Shape]
    blobs: Blobs
    shapes: dict[str, Sequence[int]]
    builder: GraphBuilder = field(default_factory=lambda: GraphBuilder("main"))
    known: dict[str, Value] = field(default_factory=dict)
    left: Counter[str] = field(default_factory=Counter)

    def graph(self) -> Graph:
        """The whole graph."""
        made: set[str] = set()
        for layer in self.layers:
            for name in _blobs(layer, "bottom"):
                if name not in made and name not in self.known:
                    self.known[name] = self._input(name)
            tops = _blobs(layer, "top")
            self.left.update(tops)
            made.update(tops)
        only_inputs(self.shapes, self.known)
        for layer in self.layers:
            self._layer(layer)
        outputs = self._outputs()
        for name in outputs:
            if name not in self.known or self.known[name].constant:
                raise GraphError(f"espresso network: output {name!r:.80} is made by no layer")
        return self.builder.finish({name: self.known[name] for name in outputs})

    def _outputs(self) -> list[str]:
        """What is_output marks; where nothing is marked, what nobody reads."""
        marked = [name for layer in self.layers if layer.section("attributes", optional=True).flag("is_output")
                  for name in _blobs(layer, "top")]
        read = {name for layer in self.layers for name in _blobs(layer, "bottom")}
        return list(dict.fromkeys(marked or [name for layer in self.layers for name in _blobs(layer, "top")
                                             if name not in read]))

    def _input(self, name: str) -> Value:
        given, stated = self.shapes.get(name), self.stated.get(name)
        shape = tuple(given) if given is not None else stated
        if shape is None:
            raise UnsupportedError(f"espresso input {name!r:.80}", "the shape file does not state its shape",
                                   found="nothing", remedy=f"give it, for example --shape {name}=1x3x224x224")
        if given is not None and stated is not None and shape != stated:
            raise GraphError(f"shape {list(shape)} for input {name!r}: the model is compiled for {list(stated)}")
        value = self.builder.input(name, "fp16", shape)
        transforms = self.top.section("transform_params", optional=True)
        return self._scaled(value, transforms.section(name)) if name in transforms else value

    def _scaled(self, x: Value, entry: DictionaryEntry) -> Value:
        """The image x times scale, plus the bias of each colour."""
        entry.only("scale", *_COLOURS, "bias_a", "center_mean", "is_network_bgr", "bias_gray")
        colours = _COLOURS[::-1] if entry.flag("is_network_bgr") else _COLOURS
        bias = [entry.number(key, 0) for key in colours]
        if entry.flag("center_mean"):
            raise entry.refuse("center_mean", entry.values["center_mean"], "center_mean 0")
        scale = entry.number("scale", 1)
        if scale != 1:
            x = self.builder.single("mul", f"{x.name}.scaled", entry.label, x=x, y=scale)
        if any(bias):
            if x.type.rank < 3 or x.shape[-3] != 3:
                raise entry.refuse("bias_r", bias, "biases of 0, or an image of 3 channels")
            x = self.builder.single("add", f"{x.name}.biased", entry.label, x=x,
                                    y=np.array(bias, np.float16).reshape(3, 1, 1))
        return x

    def _layer(self, layer: DictionaryEntry) -> None:
        handler = layer.choice("type", HANDLERS)
        layer.section("attributes", optional=True).only("is_output")
        tops = _blobs(layer, "top")
        if not tops or len(set(tops)) != len(tops):
            raise layer.malformed("top", "distinct blob names")
        for name in _blobs(layer, "bottom"):
            if name not in self.known:
                raise GraphError(f"{layer.label}: bottom {name!r:.80} has not been made at this point")
        self.left.subtract(tops)
        names = [f"{name}.{self.left[name]}" if self.left[name] else name for name in tops]
        inputs = [self.known[name] for name in _blobs(layer, "bottom")]
        stated = [self.stated.get(name) for name in tops]
        with TypedErrors(layer.label, "malformed layer"):
            result = handler(EspressoLayer(layer.label, names[0], self.builder, layer, inputs, names, stated,
                                           self.blobs))
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(tops):
            raise GraphError(f"{layer.label}: gives {len(results)} results, top names {len(tops)}")
        for name, value in zip(tops, results, strict=True):
            self._check(layer, name, value)
            self.known[name] = value

    def _check(self, layer: DictionaryEntry, name: str, value: Value) -> None:
        """GraphError when the shape file states another shape: then a layer means something else than it is taken
        for. A blob that is made again is stated once."""
        stated = self.stated.get(name)
        if stated is not None and not self.shapes and not self.left[name] and value.shape != stated:
            raise GraphError(f"{layer.label}: the shape file states {list(stated)} for {name!r:.80}, its operands give "
                             f"{list(value.shape)}")
