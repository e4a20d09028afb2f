"""Engine operations in words: one line that says what a task does to which buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from openane.chips.limits import BaseSlots
from openane.engine import (
    Access,
    Coefficients,
    CoefficientSection,
    Convolution,
    DType,
    NeuralOperation,
    Operation,
    Pooling,
    Reduction,
    Space,
    sources,
)
from openane.program.model import Buffer

Names = Mapping[int, str]
"""Base-address slot to what people call it."""

OPERANDS = ("source", "first", "second", "result", "coefficients", "post")
WINDOWS = ("kernel", "stride", "padding")


def slot_names(slots: BaseSlots, buffers: Iterable[Buffer]) -> dict[int, str]:
    """What the slots are called: buffers by name, the text and the constants by what they are."""
    return {slots.text: "text", slots.constants: "constants"} | {b.slot: b.name for b in buffers}


def in_words(operation: Operation, names: Names) -> str:
    """One line: the operation, what it reads and writes with extents, and every setting that is not the default."""
    reads = " and ".join(place(access, names) for access in sources(operation))
    parts = [f"{_title(operation)}: {reads} -> {place(operation.result, names)}", *_settings(operation)]
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        parts += [_streams(operation.coefficients, section, names) for section in operation.coefficients.sections]
    return ", ".join(parts)


def _streams(coefficients: Coefficients, section: CoefficientSection, names: Names) -> str:
    """`weights and bias from constants+0x80 for 16 cores`."""
    held = " and ".join(n for n in ("weights", "bias", "table") if getattr(coefficients, n) == section)
    where = names.get(section.slot, f"slot {section.slot}")
    cores = "1 core" if len(section.streams) == 1 else f"{len(section.streams)} cores"
    return f"{held or 'coefficients'} from {where}+{section.streams.start:#x} for {cores}"


def place(access: Access, names: Names) -> str:
    """`x+0x40 1x16x8x8`: where an operand lies and its extents N, C, H, W (D only where it is not 1)."""
    n, c, d, h, w = access.shape
    extents = "x".join(map(str, (n, c, h, w) if d == 1 else access.shape))
    if access.space is Space.CHAIN:
        where = "chain"
    elif access.space is Space.L2:
        where = f"L2+{access.offset:#x}"
    else:
        name = names.get(access.slot, f"slot {access.slot}")
        where = f"{name}+{access.offset:#x}" if access.offset else name
    text = f"{where} {extents}" + ("" if access.dtype is DType.FLOAT16 else f" {access.dtype}")
    return text if access.copy is None else f"{text} (also {place(access.copy, names)})"


def _title(operation: Operation) -> str:
    """`Convolution 3x3`, `Elementwise mul`, `Pooling max 2x2`."""
    title = type(operation).__name__
    if isinstance(operation, Convolution):
        depth, height, width = operation.kernel
        title += f" {height}x{width}" if depth == 1 else f" {depth}x{height}x{width}"
    elif isinstance(operation, Pooling):
        title += f" {operation.pool} " + "x".join(map(str, operation.kernel))
    elif isinstance(operation, Reduction):
        title += f" {operation.reduce}"
    function = getattr(operation, "function", None)
    return title if function is None or getattr(operation, "second", None) is None else f"{title} {function}"


def _settings(operation: Operation) -> Iterable[str]:
    """Every other setting that is not at its default; of the post stage each by itself."""
    record: object
    for record in (operation, getattr(operation, "post", None)):
        for f in fields(record) if record is not None else ():
            value = getattr(record, f.name)
            if f.name in (*OPERANDS, "function", "reduce", "pool") or value == f.default:
                continue
            if f.name in WINDOWS:
                if f.name != "kernel":
                    yield f"{f.name} {_window(value)}"
            elif f.name == "activation":
                yield str(value)
            else:
                yield f.name.replace("_", " ") if value is True else f"{f.name.replace('_', ' ')} {value}"


def _window(value: tuple[int, ...]) -> str:
    """`2x2`: height and width, and depth where it is not 1 (a stride) or 0 (a padding)."""
    return "x".join(map(str, value if len(value) > 2 and value[0] > 1 else value[-2:]))
