"""Graphs written as `.mlpackage`, so that they can go back to Apple's tools.

The package holds an ML program for the graph's opset, weights of ten elements or more in weights/weight.bin, and a
description of inputs and outputs. Reading it gives the same graph back.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.formats.blob import BlobWriter
from openane.formats.protobuf import Message, write_message
from openane.graph import Graph, TensorType, Value
from openane.graph.mil.packed import to_bytes
from openane.graph.mil.printer import BLOB_MINIMUM, blob_dtypes
from openane.graph.mil.program import (
    OPSET_NAMES,
    OPSETS,
    Declared,
    Expression,
    Immediate,
    MilFunction,
    MilProgram,
    Reference,
    Statement,
)
from openane.graph.mil.unbuild import to_program
from openane.importers.coreml.package import AUTHOR, DATA, MANIFEST
from openane.importers.coreml.program import PLACES
from openane.importers.coreml.schema import ARRAY_TYPES, COLOR_SPACES, DATA_TYPES, SCHEMA

SPECIFICATION_VERSIONS = {"ios15": 6, "ios16": 7, "ios17": 8, "ios18": 9, "ios26": 10}
WEIGHTS = "@model_path/weights/weight.bin"
SPECIFICATION = "model.mlmodel"

_CODES = {name: code for code, name in DATA_TYPES.items()}
_ARRAY_CODES = {name: code for code, name in ARRAY_TYPES.items()}
_COLOR_CODES = {name: code for code, name in COLOR_SPACES.items()}
_OPSET_CODES = {name: code for code, name in OPSET_NAMES.items()}
_KINDS = {"fp32": "floats", "fp64": "doubles", "int32": "ints", "int16": "ints", "uint16": "ints", "bool": "bools",
          "int64": "longInts", "uint64": "longInts"}
"""Field that holds an immediate tensor, where it is not `bytes`."""


def write_mlpackage(graph: Graph, path: str | Path, opset: str | None = None) -> None:
    """Writes `graph` as the package `path`, a folder called NAME.mlpackage; one that is there is replaced.

    `opset` (ios15 to ios26) is the graph's own, or ios18. GraphError for a path or an opset that does not fit,
    UnsupportedError for ports Core ML has no array type for, FormatError when it cannot be written.
    """
    folder = Path(path)
    if folder.suffix != ".mlpackage" or (folder.exists() and not (folder / MANIFEST).is_file()):
        raise GraphError(f"{folder}: a package is a folder of its own called NAME.mlpackage")
    own = graph.metadata.get("opset", "")
    model, weights = specification_of(graph, opset or (own if own in OPSETS else "ios18"))
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.stem}-") as place:
            made = Path(place) / folder.name
            _write(made, write_message(model), weights)
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)
    except OSError as error:
        raise FormatError(f"{folder} cannot be written: {error.strerror or error}") from None


def specification_of(graph: Graph, opset: str) -> tuple[Message, bytes]:
    """The Model message of `graph` and its weight file (empty when it needs none)."""
    program = to_program(graph, opset)
    function = program.functions[0]
    for key, text in graph.metadata.items():
        if key.startswith("attribute:"):
            program.information[key] = text
    inputs = [_feature(graph, value, declared.state, name)
              for value, (declared, name) in zip(graph.inputs, function.inputs, strict=True)]
    outputs = [_feature(graph, value, False, reference.name)
               for value, reference in zip(graph.outputs, function.outputs, strict=True)]
    _restore_pixels(graph, function)
    writer = _Writer(blob_dtypes(opset))
    description = _message("ModelDescription", input=[each for each in inputs if "stateType" not in each.type],
                           output=outputs, state=[each for each in inputs if "stateType" in each.type])
    model = _message("Model", specificationVersion=SPECIFICATION_VERSIONS[opset], description=description,
                     mlProgram=writer.program(program))
    return model, writer.blobs.finish() if len(writer.blobs) else b""


def _write(folder: Path, specification: bytes, weights: bytes) -> None:
    below = folder / DATA / AUTHOR
    (below / "weights").mkdir(parents=True)
    (below / SPECIFICATION).write_bytes(specification)
    (below / "weights" / "weight.bin").write_bytes(weights or BlobWriter().finish())
    items = {name: (str(uuid.uuid5(uuid.NAMESPACE_URL, f"{AUTHOR}/{name}")), what) for name, what in (
        (SPECIFICATION, "CoreML Model Specification"), ("weights", "CoreML Model Weights"))}
    entries = {identifier: {"author": AUTHOR, "description": what, "name": name, "path": f"{AUTHOR}/{name}"}
               for name, (identifier, what) in items.items()}
    document = {"fileFormatVersion": "1.0.0", "itemInfoEntries": entries,
                "rootModelIdentifier": items[SPECIFICATION][0]}
    (folder / MANIFEST).write_text(json.dumps(document, indent=4))


def _message(kind: str, **values: Any) -> Message:
    """A message with the fields that hold something."""
    return Message(SCHEMA, kind, **{key: value for key, value in values.items() if value not in ([], {}, "", None)})


def _feature(graph: Graph, value: Value, state: bool, name: str) -> Message:
    color = graph.metadata.get(f"image:{value.name}")
    if color in _COLOR_CODES and value.type.rank >= 2:
        image = _message("ImageFeatureType", width=value.shape[-1], height=value.shape[-2],
                         colorSpace=_COLOR_CODES[color])
        return _message("FeatureDescription", name=name, type=_message("FeatureType", imageType=image))
    code = _ARRAY_CODES.get(value.dtype)
    if code is None:
        raise UnsupportedError(f"port {value.name!r}", "Core ML's inputs and outputs are arrays of "
                               f"{', '.join(_ARRAY_CODES)}", found=value.type, remedy="add a cast to the graph")
    array = _message("ArrayFeatureType", shape=list(value.shape), dataType=code)
    wrapped = {"stateType": _message("StateFeatureType", arrayType=array)} if state else {"multiArrayType": array}
    return _message("FeatureDescription", name=name, type=_message("FeatureType", **wrapped))


def _restore_pixels(graph: Graph, function: MilFunction) -> None:
    """Image inputs of pixels as programs declare them: the tensor their cast makes. GraphError when there is none."""
    for position, value in enumerate(graph.inputs):
        if f"image:{value.name}" not in graph.metadata or value.dtype != "uint8":
            continue
        _, port = function.inputs[position]
        users = [each for each in function.statements if Reference(port) in _flat(each)]
        if len(users) != 1 or users[0].op != "cast" or Reference(port) in function.outputs:
            raise GraphError(f"image input {value.name!r} must be read by one cast and nothing else")
        declared, real = users[0].results[0]
        function.statements.remove(users[0])
        function.inputs[position] = declared, port
        for statement in function.statements:
            for key, expression in statement.arguments.items():
                statement.arguments[key] = _substituted(expression, real, port)
        function.outputs = [Reference(port) if each.name == real else each for each in function.outputs]


def _flat(statement: Statement) -> list[Expression]:
    return [item for expression in statement.arguments.values()
            for item in (expression if isinstance(expression, tuple) else (expression,))]


def _substituted(expression: Expression, old: str, new: str) -> Expression:
    if isinstance(expression, tuple):
        return tuple(Reference(new) if item == Reference(old) else item for item in expression)
    return Reference(new) if expression == Reference(old) else expression


class _Writer:
    """Records to messages; large constants go to `blobs`."""

    def __init__(self, large: frozenset[str]) -> None:
        self.large, self.blobs = large, BlobWriter()

    def program(self, program: MilProgram) -> Message:
        """A Program message. Attributes of functions are in `information` already."""
        pairs = [_message("KeyValuePair", key=_text(key), value=_text(value))
                 for key, value in program.information.items()]
        string = _type(TensorType("string", ()))
        built = _message("Value", type=_message("ValueType", dictionaryType=_message(
            "DictionaryType", keyType=string, valueType=string)), immediateValue=_message(
                "ImmediateValue", dictionary=_message("DictionaryValue", values=pairs)))
        return _message("Program", version=1, attributes={"buildInfo": built},
                        functions={each.name: self.function(each) for each in program.functions})

    def function(self, function: MilFunction) -> Message:
        """A Function message with one block."""
        opset = _OPSET_CODES[function.opset]
        block = _message("Block", outputs=[reference.name for reference in function.outputs],
                         operations=[self.operation(statement) for statement in function.statements])
        inputs = [_named(declared, name) for declared, name in function.inputs]
        return _message("Function", inputs=inputs, opset=opset, block_specializations={opset: block})

    def operation(self, statement: Statement) -> Message:
        """An Operation message."""
        return _message("Operation", type=statement.op,
                        inputs={key: self.argument(each) for key, each in statement.arguments.items()},
                        outputs=[_named(declared, name) for declared, name in statement.results],
                        attributes={key: self.constant(each) for key, each in statement.attributes.items()})

    def argument(self, expression: Expression) -> Message:
        """An Argument message: one binding, or one per item of a tuple."""
        items = expression if isinstance(expression, tuple) else (expression,)
        return _message("Argument", arguments=[
            _message("Binding", name=item.name) if isinstance(item, Reference)
            else _message("Binding", value=self.constant(item)) for item in items])

    def constant(self, expression: Expression) -> Message:
        """A Value message."""
        if not isinstance(expression, Immediate):
            PLACES.fail("a constant without data", expected="an immediate value", found=type(expression).__name__)
        if isinstance(expression.data, str):
            return _text(expression.data)
        dtype, array = expression.type.dtype, expression.data
        if array.size >= BLOB_MINIMUM and dtype in self.large:
            offset = self.blobs.add(dtype, to_bytes(array, dtype), array.size)
            return _message("Value", type=_type(expression.type),
                            blobFileValue=_message("BlobFileValue", fileName=WEIGHTS, offset=offset))
        return _message("Value", type=_type(expression.type), immediateValue=_message(
            "ImmediateValue", tensor=_tensor(array, dtype)))


def _tensor(array: np.ndarray, dtype: str) -> Message:
    kind = _KINDS.get(dtype, "bytes")
    held = bytes(to_bytes(array, dtype)) if kind in ("floats", "doubles", "bytes") else array.reshape(-1).tolist()
    form = SCHEMA.by_name["TensorValue"][kind].kind
    return Message(SCHEMA, "TensorValue", **{kind: _message(form, values=held)})


def _text(text: str) -> Message:
    strings = Message(SCHEMA, "TensorValue", strings=Message(SCHEMA, "Strings", values=[text]))
    return _message("Value", type=_type(TensorType("string", ())),
                    immediateValue=_message("ImmediateValue", tensor=strings))


def _named(declared: Declared, name: str) -> Message:
    plain = _type(declared.type)
    state = _message("ValueType", stateType=_message("StateType", wrappedType=plain))
    return _message("NamedValueType", name=name, type=state if declared.state else plain)


def _type(type_: TensorType) -> Message:
    dimensions = [_message("Dimension", constant=Message(SCHEMA, "ConstantDimension", size=extent))
                  for extent in type_.shape]
    return _message("ValueType", tensorType=_message("TensorType", dataType=_CODES[type_.dtype],
                                                     rank=type_.rank, dimensions=dimensions))
