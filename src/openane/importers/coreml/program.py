"""The mlProgram part of a model file, read into the same records as MIL text.

Image inputs, which a program declares as tensors of real numbers, become ports of 8-bit pixels [N, channels, H, W] in
the colour order the model states, followed by a cast to the declared type.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.formats.protobuf import Message
from openane.graph import NUMPY_TYPES, TensorType
from openane.graph.mil.control import CONTROL
from openane.graph.mil.packed import byte_count, from_bytes
from openane.graph.mil.program import (
    OPEN,
    OPSET_NAMES,
    BlobFile,
    Declared,
    Expression,
    Immediate,
    MilBlock,
    MilFunction,
    MilProgram,
    Reference,
    Single,
    Statement,
)
from openane.importers.coreml.features import default_shape, image_color, pixel_type
from openane.importers.coreml.schema import DATA_TYPES
from openane.ops import all_ops

CLASSIFY = "classify"
MAXIMUM_RANK = 32
MAXIMUM_EXTENT = 2**31 - 1


class Operations:
    """Places of a program in protobuf form: positions are numbers of operations, from 1; 0 is the function itself."""

    def place(self, position: int) -> str:
        """In words."""
        return f"operation {position}" if position else "function"

    def source(self, position: int) -> str:
        """What a node comes from."""
        return f"Core ML operation {position}" if position else "Core ML image"

    def fail(self, message: str, *, expected: object = None, found: object = None,
             position: int | None = None) -> NoReturn:
        """Raises FormatError."""
        raise FormatError(f"{self.place(position or 0)}: {message}", expected=expected, found=found)


PLACES = Operations()


def read_program(model: Message) -> MilProgram:
    """All functions of a Model's mlProgram. FormatError where the message contradicts itself, UnsupportedError for
    what the form has and graphs do not (ranks left open, tuples)."""
    stored = model.mlProgram
    program = MilProgram(PLACES, str(stored.version), _information(stored))
    described = {each.name: each for each in model.description.functions}
    for name, function in stored.functions.items():
        inputs = described[name].input if name in described else model.description.input
        program.functions.append(_function(name, function, inputs, program.information))
    return program


def _information(stored: Message) -> dict[str, str]:
    table = {}
    built = stored.attributes.get("buildInfo")
    for pair in built.immediateValue.dictionary.values if built is not None else ():
        key, value = (side.immediateValue.tensor.strings.values for side in (pair.key, pair.value))
        if key and value:
            table[key[0]] = value[0]
    return table


def _block(name: str, function: Message) -> Message:
    """The block of a function's opset, or the only one."""
    blocks = function.block_specializations
    block: Message | None = blocks.get(function.opset) or (next(iter(blocks.values())) if len(blocks) == 1 else None)
    if block is None:
        raise FormatError(f"function {name!r} has no block for its opset", expected=function.opset,
                          found=", ".join(blocks) or "none")
    return block


def _function(name: str, function: Message, features: Sequence[Message], information: dict[str, str]) -> MilFunction:
    block = _block(name, function)
    inputs = [(_declared(each.type, 0), each.name) for each in function.inputs]
    statements = [_statement(operation, number) for number, operation in enumerate(block.operations, start=1)
                  if operation.type != CLASSIFY]
    result = MilFunction(name, OPSET_NAMES.get(function.opset, function.opset), inputs, {}, statements,
                         _outputs(block, information))
    by_name = {feature.name: feature for feature in features}
    result.defaults.update((port, default_shape(by_name[port], declared.type.shape)) for declared, port in inputs
                           if port in by_name and declared.open)
    for position, (declared, port) in enumerate(inputs):
        color = image_color(by_name[port]) if port in by_name else None
        if color is not None and declared.type.dtype in ("fp16", "fp32"):
            _take_pixels(result, position, color, information)
    return result


def _outputs(block: Message, information: dict[str, str]) -> list[Reference]:
    """A block's outputs. A classifier's label and dictionary are the probabilities they are made of, and its labels
    are noted as `classes`."""
    outputs = [Reference(output) for output in block.outputs]
    for operation in block.operations:
        bound = operation.inputs.get("probabilities") if operation.type == CLASSIFY else None
        if bound is None or not bound.arguments:
            continue
        made = {each.name for each in operation.outputs}
        outputs = [each for each in outputs if each.name not in made] + [Reference(bound.arguments[0].name)]
        for binding in operation.inputs["classes"].arguments if "classes" in operation.inputs else ():
            items = binding.value.immediateValue.list.values
            labels = [text for item in items for text in item.immediateValue.tensor.strings.values]
            information["classes"] = json.dumps(labels)
    return outputs


def _take_pixels(function: MilFunction, position: int, color: str, information: dict[str, str]) -> None:
    """Makes input `position` a port of pixels."""
    declared, port = function.inputs[position]
    pixels = pixel_type(color, declared.type.dtype)
    information[f"image:{port}"] = color
    if pixels == declared.type.dtype:
        return
    taken = {name for statement in function.statements for _, name in statement.results}
    taken |= {name for _, name in function.inputs}
    real = f"{port}_real"
    while real in taken:
        real += "_"
    function.statements = [_renamed(statement, port, real) for statement in function.statements]
    function.outputs = [Reference(real) if reference.name == port else reference for reference in function.outputs]
    function.inputs[position] = Declared(TensorType(pixels, declared.type.shape)), port
    dtype = Immediate(TensorType("string", ()), declared.type.dtype)
    function.statements.insert(0, Statement([(declared, real)], "cast", {"x": Reference(port), "dtype": dtype}, {}))


def _renamed(statement: Statement, old: str, new: str) -> Statement:
    def single(item: Single) -> Single:
        return Reference(new, item.position) if isinstance(item, Reference) and item.name == old else item

    arguments: dict[str, Expression] = {
        key: tuple(map(single, expression)) if isinstance(expression, tuple) else single(expression)
        for key, expression in statement.arguments.items()}
    blocks = [replace(block, statements=[_renamed(each, old, new) for each in block.statements],
                      outputs=[Reference(new, each.position) if each.name == old else each for each in block.outputs])
              for block in statement.blocks]
    return replace(statement, arguments=arguments, blocks=blocks)


def _statement(operation: Message, position: int) -> Statement:
    """One operation. Those within its blocks have its position: what is in a loop is named by the loop."""
    if operation.blocks and operation.type not in CONTROL:
        raise UnsupportedError(f"{operation.type} ({PLACES.place(position)})",
                               "nested blocks belong to loops and branches", remedy="while_loop and cond")
    results = [(_declared(each.type, position), each.name) for each in operation.outputs]
    lists = _lists(operation.type)
    arguments = {key: _argument(argument, position, key in lists) for key, argument in operation.inputs.items()}
    attributes: dict[str, Expression] = {key: _value(value, position) for key, value in operation.attributes.items()}
    blocks = [_inner(block, position) for block in operation.blocks]
    return Statement(results, operation.type, arguments, attributes, position, blocks)


def _inner(block: Message, position: int) -> MilBlock:
    return MilBlock([(_declared(each.type, position), each.name) for each in block.inputs],
                    [_statement(operation, position) for operation in block.operations],
                    [Reference(output, position) for output in block.outputs])


def _lists(op: str) -> set[str]:
    """Operands that are lists even when they hold one value: the form does not tell."""
    known = all_ops().get(op)
    return {parameter.name for parameter in known.parameters if parameter.variadic} if known is not None else set()


def _argument(argument: Message, position: int, listed: bool) -> Expression:
    bindings = tuple(_value(each.value, position) if "value" in each else Reference(each.name, position)
                     for each in argument.arguments)
    return bindings[0] if len(bindings) == 1 and not listed else bindings


def _declared(type_: Message, position: int) -> Declared:
    if "stateType" in type_:
        return Declared(_tensor_type(type_.stateType.wrappedType, position), state=True)
    if "listType" in type_:
        return Declared(_tensor_type(type_.listType.type, position), listed=True)
    return Declared(_tensor_type(type_, position))


def _tensor_type(type_: Message, position: int) -> TensorType:
    if "tensorType" not in type_:
        kind = type_.which("listType", "tupleType", "dictionaryType", "stateType") or "no type"
        raise UnsupportedError(f"a value of {kind} ({PLACES.place(position)})",
                               "values are tensors, scalars and strings", found=kind,
                               remedy="export the tensors themselves")
    tensor = type_.tensorType
    dtype = DATA_TYPES.get(tensor.dataType)
    if dtype is None:
        PLACES.fail("unknown DataType", expected=f"one of {', '.join(map(str, DATA_TYPES))}", found=tensor.dataType,
                    position=position)
    if any(each.unknown.variadic for each in tensor.dimensions) or tensor.rank != len(tensor.dimensions):
        raise UnsupportedError(f"a type of unknown rank ({PLACES.place(position)})", "shapes are static",
                               found=f"rank {tensor.rank}, {len(tensor.dimensions)} dimensions",
                               remedy="export the model with fixed input shapes")
    shape = tuple(each.constant.size if "constant" in each else OPEN for each in tensor.dimensions)
    if len(shape) > MAXIMUM_RANK or any(not OPEN <= extent <= MAXIMUM_EXTENT for extent in shape):
        PLACES.fail("not a shape", expected=f"at most {MAXIMUM_RANK} extents of 0..{MAXIMUM_EXTENT}",
                    found=list(shape)[:MAXIMUM_RANK], position=position)
    return TensorType(dtype, shape)


def _value(value: Message, position: int) -> Immediate | BlobFile:
    type_ = _tensor_type(value.type, position)
    if OPEN in type_.shape:
        PLACES.fail("a constant has an open shape", expected="fixed extents", found="?", position=position)
    if "blobFileValue" in value:
        blob = value.blobFileValue
        return BlobFile(type_, blob.fileName, blob.offset, position)
    tensor = value.immediateValue.tensor
    if type_.dtype == "string":
        texts = tensor.strings.values
        if type_.shape or len(texts) > 1:
            raise UnsupportedError(f"a constant of several strings ({PLACES.place(position)})",
                                   "values are tensors, scalars and strings", remedy="export the tensors themselves")
        return Immediate(type_, texts[0] if texts else "", position)
    if type_.dtype not in NUMPY_TYPES:
        raise UnsupportedError(f"constant {type_} ({PLACES.place(position)})", "there is no array of this element type",
                               found=type_.dtype, remedy="store it as fp16, int8 or uint8")
    return Immediate(type_, _array(tensor, type_, position), position)


def _array(tensor: Message, type_: TensorType, position: int) -> np.ndarray:
    kind = tensor.which("floats", "doubles", "bytes", "ints", "longInts", "bools") or "nothing"
    expected = type_.elements
    if kind in ("floats", "doubles", "bytes"):
        wide = {"floats": "fp32", "doubles": "fp64", "bytes": type_.dtype}[kind]
        size = byte_count(wide, expected)
        data: Any = getattr(tensor, kind).values
        if len(data) != size:
            PLACES.fail(f"{kind} do not fill {type_}", expected=f"{size} bytes", found=len(data), position=position)
        if NUMPY_TYPES[type_.dtype].kind != "f" and kind != "bytes":
            PLACES.fail(f"a constant of {type_.dtype} is held as {kind}", expected="integers", found=kind,
                        position=position)
        return _read_only(from_bytes(data, wide, type_.shape), type_, position)
    numbers = getattr(tensor, kind).values if kind != "nothing" else ()
    if len(numbers) != expected:
        PLACES.fail(f"{kind} do not fill {type_}", expected=f"{expected} elements", found=len(numbers),
                    position=position)
    array: np.ndarray = np.array(numbers, np.bool_ if kind == "bools" else np.int64)
    if type_.dtype == "uint64":  # read as signed, as every number is
        return _read_only(array.view(np.uint64).reshape(type_.shape), type_, position)
    return _read_only(array.reshape(type_.shape), type_, position)


def _read_only(array: np.ndarray, type_: TensorType, position: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        converted = array.astype(NUMPY_TYPES[type_.dtype], copy=False)
    if array.dtype.kind in "ib" and not np.array_equal(converted, array):
        PLACES.fail(f"an element is no {type_.dtype}", expected=type_.dtype, found=str(array.reshape(-1)[:4]),
                    position=position)
    if converted.flags.writeable:
        converted.flags.writeable = False
    return converted
