"""Core ML packages: written ones read back to the same graph, broken ones are refused, coremltools agrees with us."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support.coreml import message, same, small_graph
from support.mil_graphs import PORTS, every_operation, graphs
from support.needs import lacking, library

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.formats.blob import read_blob
from openane.formats.protobuf import read_message, write_message
from openane.graph import Graph, TensorType, Value
from openane.graph.mil import choose_function, print_mil
from openane.graph.mil.build import build_graph
from openane.importers import load_coreml, load_graph, write_mlpackage
from openane.importers.coreml.program import read_program
from openane.importers.coreml.schema import SCHEMA
from openane.importers.coreml.write import specification_of
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.version import pip_line

SPECIFICATION = "Data/com.apple.CoreML/model.mlmodel"


def reread(graph: Graph, opset: str) -> Graph:
    """The graph as a specification and back, without checks of its operations."""
    model, weights = specification_of(graph, opset)
    again = read_message(SCHEMA, "Model", write_message(model))
    assert write_message(again) == write_message(model)
    program = read_program(again)
    return build_graph(program, choose_function(program, graph.name), lambda path, offset: read_blob(weights, offset))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(graphs(PORTS))
def test_written_graphs_read_back(graph):
    for opset in ("ios16", "ios18"):
        same(graph, reread(graph, opset))


@pytest.mark.parametrize("opset", ["ios15", "ios16", "ios17", "ios18", "ios26"])
def test_every_operation_is_written(opset):
    same(every_operation(), reread(every_operation(), opset))


@pytest.fixture
def saved(tmp_path):
    """A package of the small network."""
    write_mlpackage(small_graph(), tmp_path / "m.mlpackage")
    return tmp_path / "m.mlpackage"


def test_packages_are_laid_out_as_apples_are(saved):
    manifest = json.loads((saved / "Manifest.json").read_text())
    assert manifest["fileFormatVersion"] == "1.0.0"
    items = manifest["itemInfoEntries"]
    assert items[manifest["rootModelIdentifier"]]["path"] == "com.apple.CoreML/model.mlmodel"
    assert {entry["path"] for entry in items.values()} == {"com.apple.CoreML/model.mlmodel", "com.apple.CoreML/weights"}
    model = read_message(SCHEMA, "Model", (saved / SPECIFICATION).read_bytes())
    assert model.specificationVersion == 8
    assert list(model.mlProgram.functions["main"].block_specializations) == ["CoreML7"]
    graph = load_graph(saved)
    same(small_graph(), graph)
    write_mlpackage(graph, saved)  # over itself
    same(graph, load_graph(saved))
    x = np.linspace(-1, 1, 192, dtype=np.float32).reshape(1, 3, 8, 8)
    assert np.array_equal(evaluate(graph, {"x": x})["y"], evaluate(small_graph(), {"x": x})["y"])


def test_nothing_else_is_written_over(saved, tmp_path):
    (tmp_path / "taken.mlpackage").mkdir()
    for path in (tmp_path / "taken.mlpackage", tmp_path / "m.mlmodel"):
        with pytest.raises(GraphError, match=r"NAME\.mlpackage"):
            write_mlpackage(small_graph(), path)
    graph = Graph((Value("b", TensorType("bool", (2,))),), (), ())
    with pytest.raises(UnsupportedError, match=r"'b'.*fp16"):
        write_mlpackage(graph, tmp_path / "n.mlpackage")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.mlpackage", "taken.mlpackage"]


def test_a_specification_alone_is_known_by_its_content(saved, tmp_path):
    data = (saved / SPECIFICATION).read_bytes()
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "weight.bin").write_bytes((saved / SPECIFICATION).with_name("weights")
                                                      .joinpath("weight.bin").read_bytes())
    for name in ("model.mlmodel", "unnamed"):
        (tmp_path / name).write_bytes(data)
        same(small_graph(), load_graph(tmp_path / name))


def test_compiled_folders_hold_mil(saved, tmp_path):
    text, weights = print_mil(small_graph())
    (tmp_path / "c.mlmodelc" / "weights").mkdir(parents=True)
    (tmp_path / "c.mlmodelc" / "model.mil").write_text(text)
    (tmp_path / "c.mlmodelc" / "weights" / "weight.bin").write_bytes(weights)
    same(small_graph(), load_graph(tmp_path / "c.mlmodelc"))


@pytest.mark.parametrize(("change", "error", "message"), [
    (lambda d: (d / "Manifest.json").write_text("{"), FormatError, "not JSON"),
    (lambda d: (d / "Manifest.json").write_text("[1]"), FormatError, "not a manifest"),
    (lambda d: (d / "Manifest.json").write_text("{}"), FormatError, "names no root model"),
    (lambda d: (d / "Manifest.json").write_text((d / "Manifest.json").read_text().replace(
        "com.apple.CoreML/model", "../../etc/model")), FormatError, "outside the package"),
    (lambda d: (d / SPECIFICATION).unlink(), FormatError, "model.mlmodel.*cannot be read"),
    (lambda d: (d / SPECIFICATION).write_bytes(b""), FormatError, "not a Core ML model"),
    (lambda d: (d / SPECIFICATION).with_name("weights").joinpath("weight.bin").unlink(), FormatError, "is missing"),
    (lambda d: os.truncate((d / SPECIFICATION).with_name("weights") / "weight.bin", 200), FormatError, "outside the"),
    (lambda d: os.truncate(d / SPECIFICATION, 1 << 42), UnsupportedError, "read into memory"),
])
def test_broken_packages_are_refused(saved, change, error, message):
    try:
        change(saved)
    except OSError:
        lacking("sparse files", "this file system has none of 4 TiB")
    with pytest.raises(error, match=message):
        load_graph(saved)


def test_folders_without_a_model_say_what_is_missing(tmp_path):
    for name, missing in (("a.mlpackage", "Manifest.json"), ("a.mlmodelc", "model.mil")):
        (tmp_path / name).mkdir()
        with pytest.raises(UnsupportedError, match=missing):
            load_graph(tmp_path / name)


def changed(change) -> Graph:
    """The small network's specification, changed and read."""
    model, weights = specification_of(small_graph(), "ios17")
    change(model)
    program = read_program(read_message(SCHEMA, "Model", write_message(model)))
    return build_graph(program, choose_function(program, "main"), lambda path, offset: read_blob(weights, offset))


def operations(model):
    return model.mlProgram.functions["main"].block_specializations["CoreML7"].operations


def test_contradictions_are_named():
    def huge(model):
        weight = operations(model)[0]
        for type_ in (weight.attributes["val"].type, weight.outputs[0].type):
            type_.tensorType.dimensions[0].constant.fields["size"] = 10**9

    def nested(model):
        operations(model)[-1].fields["blocks"] = [message("Block")]

    def unknown(model):
        operations(model)[-1].outputs[0].type.tensorType.fields["dataType"] = 99

    def rankless(model):
        operations(model)[-1].outputs[0].type.tensorType.fields["rank"] = -1

    def blockless(model):
        model.mlProgram.functions["main"].fields["opset"] = "CoreML99"
        model.mlProgram.functions["main"].fields["block_specializations"] = {}

    for change, error, words in ((huge, FormatError, "does not fill"), (nested, UnsupportedError, "nested"),
                                 (unknown, FormatError, "DataType"), (rankless, UnsupportedError, "rank"),
                                 (blockless, FormatError, "no block")):
        with pytest.raises(error, match=words):
            changed(change)


def flexible(ranges: bool):
    """A specification whose input is 1..4 x 6, or leaves the first extent to what is asked for."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 6))
    model, _ = specification_of(builder.finish({"y": builder.single("relu", "y", x=x)}), "ios16")
    function = model.mlProgram.functions["main"]
    block = function.block_specializations["CoreML6"]
    for named in (function.inputs[0], block.operations[-1].outputs[0]):
        named.type.tensorType.dimensions[0].fields.clear()
        named.type.tensorType.dimensions[0].fields["unknown"] = message("UnknownDimension")
    if ranges:
        bounds = [message("SizeRange", lowerBound=low, upperBound=high) for low, high in ((1, 4), (6, 6))]
        model.description.input[0].type.multiArrayType.fields["shapeRange"] = message("ShapeRange", sizeRanges=bounds)
    return write_message(model)


def test_flexible_shapes(tmp_path):
    (tmp_path / "f.mlmodel").write_bytes(flexible(True))
    assert load_graph(tmp_path / "f.mlmodel").outputs[0].shape == (2, 6)
    assert load_graph(tmp_path / "f.mlmodel", {"x": (3, 6)}).outputs[0].shape == (3, 6)
    with pytest.raises(GraphError, match=r"\[5, 6\] is not one the model allows: 1..4 x 6..6"):
        load_graph(tmp_path / "f.mlmodel", {"x": (5, 6)})
    with pytest.raises(GraphError, match=r"shape \[3, 6\] for input 'z'"):
        load_graph(tmp_path / "f.mlmodel", {"z": (3, 6)})


def test_functions_are_chosen_by_name(tmp_path):
    model, weights = specification_of(small_graph(), "ios18")
    functions = model.mlProgram.functions
    functions["decode"] = functions["main"]
    model.description.fields["functions"] = [message("FunctionDescription", name=name, input=model.description.input)
                                             for name in functions]
    model.description.fields["defaultFunctionName"] = "decode"
    (tmp_path / "f.mlmodel").write_bytes(write_message(model))
    (tmp_path / "weight.bin").write_bytes(weights)
    assert load_graph(tmp_path / "f.mlmodel").name == "decode"
    assert load_graph(tmp_path / "f.mlmodel", function="main").name == "main"
    with pytest.raises(GraphError, match="it has main, decode"):
        load_graph(tmp_path / "f.mlmodel", function="prefill")


def image_graph() -> Graph:
    builder = GraphBuilder(metadata={"image:x": "BGR", "opset": "ios16"})
    pixels = builder.input("x", "uint8", (1, 3, 4, 4))
    real = builder.single("cast", "real", x=pixels, dtype="fp16")
    scaled = builder.single("mul", "scaled", x=real, y=np.float16(1 / 128))
    return builder.finish({"y": builder.single("add", "y", x=scaled, y=np.array([-1, -.5, -.25], np.float16)
                                               .reshape(1, 3, 1, 1))})


def test_images_are_pixels(tmp_path):
    write_mlpackage(image_graph(), tmp_path / "i.mlpackage")
    model = read_message(SCHEMA, "Model", (tmp_path / "i.mlpackage" / SPECIFICATION).read_bytes())
    image = model.description.input[0].type.imageType
    assert (image.height, image.width, image.colorSpace) == (4, 4, 30)
    assert model.mlProgram.functions["main"].inputs[0].type.tensorType.dataType == 10, "the program takes real numbers"
    same(image_graph(), load_graph(tmp_path / "i.mlpackage"))


def test_the_coremltools_package_is_optional(monkeypatch, saved):
    monkeypatch.setitem(sys.modules, "coremltools", None)
    same(small_graph(), load_graph(saved))
    with pytest.raises(UnsupportedError, match=re.escape(pip_line("coreml"))):
        load_coreml(saved, reader="coremltools")
    with pytest.raises(GraphError, match="own, coremltools"):
        load_coreml(saved, reader="other")


@pytest.fixture(scope="module")
def coremltools():
    """The package, which warns about the versions of everything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library("coremltools")


@pytest.mark.filterwarnings("ignore")
def test_coremltools_reads_what_we_write(coremltools, saved, tmp_path):
    load = coremltools.converters.mil.frontend.milproto.load.load
    specification = coremltools.utils.load_spec(str(saved))
    program = load(specification, specification.specificationVersion, str((saved / SPECIFICATION).with_name("weights")))
    assert [op.op_type for op in program.functions["main"].operations if op.op_type != "const"] \
        == [node.op for node in small_graph().nodes]
    same(small_graph(), load_coreml(saved, reader="coremltools"))
    model = coremltools.models.MLModel(str(saved), skip_model_load=True)
    same(small_graph(), load_coreml(model))
    write_mlpackage(image_graph(), tmp_path / "i.mlpackage")
    same(image_graph(), load_coreml(tmp_path / "i.mlpackage", reader="coremltools"))


@pytest.mark.parametrize("name", ["\ud800", "x" * 5000, "a\0b"])
def test_paths_that_no_system_takes_are_refused(name: str, tmp_path):
    write_mlpackage(small_graph(), tmp_path / "m.mlpackage")
    path = tmp_path / "m.mlpackage" / "Manifest.json"
    document = json.loads(path.read_text())
    for entry in document["itemInfoEntries"].values():
        entry["path"] = name
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError):
        load_graph(tmp_path / "m.mlpackage")
