"""Core ML models to graphs: packages, single files, compiled folders, and models that coremltools has in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.formats.protobuf import Message, read_message
from openane.graph import Graph
from openane.graph.mil import choose_function
from openane.graph.mil.build import build_graph
from openane.importers.computed_slices import with_lookups
from openane.importers.coreml import apple
from openane.importers.coreml.features import check_flexibility
from openane.importers.coreml.network import read_network
from openane.importers.coreml.package import specification
from openane.importers.coreml.pipeline import PIPELINES, read_pipeline
from openane.importers.coreml.program import read_program
from openane.importers.coreml.schema import MODEL_KINDS, SCHEMA
from openane.importers.files import read_file
from openane.importers.mil import check_types, infer_types, load_mil, weight_files

READERS = ("own", "coremltools")
NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")


def load_coreml(source: str | Path | Any, shapes: Mapping[str, Sequence[int]] | None = None,
                function: str | None = None, reader: str = "own") -> Graph:
    """The graph of a Core ML model: `.mlpackage`, `.mlmodel`, `.mlmodelc` with a model.mil, or an MLModel of
    coremltools.

    `function` chooses among several (the model's default otherwise), or one of the models of a pipeline; `shapes` fixes
    inputs with flexible shapes (their default otherwise). mlProgram models keep the program's own types. Neural
    networks become fp16, with the types they declare in `metadata["dtype:PORT"]`. Image inputs are 8-bit pixels
    [1, channels, H, W], `metadata["image:PORT"]` is their colour space. `reader`: "own" needs no package;
    "coremltools" has that package parse the file. Both give the same graph. FormatError, GraphError, UnsupportedError.
    """
    if reader not in READERS:
        raise GraphError(f"reader {reader!r} is not one of {', '.join(READERS)}")
    if not isinstance(source, str | Path):
        return _model(apple.adopt(source.get_spec()), Path(source.weights_dir or "."), shapes, function)
    path = Path(source)
    if path.is_dir() and (path / "model.mil").is_file():
        return load_mil(path / "model.mil", function=function or "main", shapes=shapes)
    file = specification(path)
    if reader == "coremltools":
        model = apple.load_specification(path)
    else:
        model = read_message(SCHEMA, "Model", read_file(file, "specification"))
    return _model(model, file.parent, shapes, function)


def _model(model: Message, folder: Path, shapes: Mapping[str, Sequence[int]] | None, name: str | None) -> Graph:
    shapes = shapes or {}
    kind = model.which("mlProgram", *NETWORKS, *PIPELINES)
    if kind is None:
        raise _another(model)
    if kind in PIPELINES:
        return read_pipeline(model, kind, shapes, name, lambda part, given: _model(part, folder, given, None))
    if kind != "mlProgram":
        if name not in (None, "main"):
            raise GraphError(f"the model has no function {name!r}: neural networks have one, main")
        _check_shapes(model.description.input, shapes)
        return read_network(model, getattr(model, kind), shapes)
    program = read_program(model)
    chosen = choose_function(program, name or model.description.defaultFunctionName or "main")
    described = {each.name: each.input for each in model.description.functions}
    _check_shapes(described.get(chosen.name, model.description.input), shapes)
    graph = with_lookups(build_graph(program, chosen, weight_files(folder), shapes, infer_types))
    check_types(graph.nodes)
    return graph


def _another(model: Message) -> AneError:
    """The error for a model that is no network."""
    found = model.which(*MODEL_KINDS)
    if found is None and not model.specificationVersion:
        return FormatError("not a Core ML model", expected="a Model with a specificationVersion",
                           found=", ".join(model.fields) or "nothing")
    return UnsupportedError("Core ML model", "models are ML programs, neural networks and pipelines of them",
                            found=found or "none of the kinds that are known",
                            remedy="a linear model, a scaler, a normalizer or support vectors as ONNX (ai.onnx.ml, as "
                                   "skl2onnx writes them); trees and text models run on the processor, where the "
                                   "library they come from runs them")


def _check_shapes(features: Sequence[Message], shapes: Mapping[str, Sequence[int]]) -> None:
    for feature in features:
        if feature.name in shapes:
            check_flexibility(feature, shapes[feature.name])
