"""What operations of tinygrad are, told by those they are made of."""

from __future__ import annotations

from math import pi, prod

from openane.tinygrad.lines import Operation

SHAPES = ("RESHAPE", "EXPAND", "PERMUTE", "PAD", "SHRINK", "FLIP")


def operands_of(uop: Operation) -> list[Operation]:
    """The operations whose values an operation is written with."""
    factors = factors_of(uop)
    if factors is not None:
        return list(factors[:2])
    if uop.op.name in ("REDUCE", *SHAPES):
        return [uop.src[0]]
    inner = [each.src[0] for each in uop.src if each.op.name in ("RECIPROCAL", "MUL") and uop.op.name != "REDUCE"]
    return [each for each in (*uop.src, *inner) if each.op.name != "CONST"]


def factors_of(uop: Operation) -> tuple[Operation, Operation, list[int]] | None:
    """The factors of what is summed, and which of their axes each axis of the sum's operand is."""
    if uop.op.name != "REDUCE" or uop.arg[0].name != "ADD" or len(uop.src) != 1:
        return None
    found, axes = uop.src[0], list(range(len(uop.src[0].shape)))
    while found.op.name == "PERMUTE":
        axes = [found.arg[axis] for axis in axes]
        found = found.src[0]
    if found.op.name != "MUL" or any(each.op.name == "CONST" for each in found.src) or prod(found.shape) == 0:
        return None
    return found.src[0], found.src[1], axes


def angle_of(uop: Operation) -> Operation | None:
    """The angle whose cosine an operation is, which tinygrad writes as the sine of a right angle less it: fp16 has that
    angle to three digits. None for others."""
    inner = uop.src[0]
    if uop.op.name != "SIN" or inner.op.name != "ADD" or not any(is_number(each, pi / 2) for each in inner.src):
        return None
    rest = inner.src[0] if inner.src[1].op.name == "CONST" else inner.src[1]
    return rest.src[0] if rest.op.name == "MUL" and is_number(rest.src[1], -1.0) else None


def is_number(uop: Operation, number: float) -> bool:
    """Whether an operation is a number."""
    return uop.op.name == "CONST" and abs(float(uop.arg) - number) < 1e-6


def sizes(uop: Operation) -> list[int]:
    """The numbers of a list of sizes, or of one."""
    return [int(each.arg) for each in (uop.src if uop.op.name == "STACK" else (uop,))]


def scalar(uop: Operation) -> float | None:
    """What a product of numbers is."""
    if uop.op.name == "CONST":
        return float(uop.arg)
    factors = [scalar(each) for each in uop.src] if uop.op.name == "MUL" else [None]
    return None if None in factors else prod(factor for factor in factors if factor is not None)
