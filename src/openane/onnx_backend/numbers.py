"""Whether fp16 and the engine hold what a run computes: asked before it runs, of its inputs and of the references."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips.arithmetic import SUM_LIMIT
from openane.errors import UnsupportedError
from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.accuracy import ULP, Bound
from openane.ops.evaluate import evaluate
from openane.ops.halves import LARGEST

EXACT_INTEGERS = 2048
"""Integers are fp16 on the engine, exact to here; larger ones with few digits may be exact too."""
LARGEST_SHIFT = 0.25
"""How far rounding an input to fp16 may move it: from 1024 on what lies between integers is lost."""
UNCERTAIN = 2 * ULP
"""How far a computed number may be off, relative to it, before it is rounded to an integer."""


def check_numbers(graph: Graph, inputs: Mapping[str, np.ndarray]) -> None:
    """UnsupportedError for the first number fp16 or the engine does not hold when `graph` is computed on `inputs`: the
    operations' references are evaluated in float32 and watched.

    Refused are finite results beyond 65504, sums of products from 2^15 on, NaN in outputs, integers that fp16 rounds,
    periodic functions of what lies outside the domain of their table, and numbers to round so near to a tie that fp16
    may round them to the other side.
    """
    def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> None:
        x, unary = node.get("x"), get_op(node.op).unary
        if unary is not None and x is not None and id(x) in arrays:
            if unary.periodic:
                _check_domain(node, unary.bound, arrays[id(x)])
            if unary.ties:
                _check_ties(node, arrays[id(x)])
        for value in node.outputs:
            _check_result(node, arrays[id(value)])
    for name, array in evaluate(graph, inputs, seen).items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise UnsupportedError(f"output {name!r}", "the engine has no NaN",
                                   remedy="keep inputs where results are defined")


def _check_domain(node: Node, bound: Bound, array: np.ndarray) -> None:
    size = float(np.abs(array).max(initial=0))
    if size > bound.high:
        raise UnsupportedError(node.label, "the input leaves the domain of the function's table", limit=bound.high,
                               found=f"{size:g}", remedy="scale or clip the input")


def _check_ties(node: Node, array: np.ndarray) -> None:
    """Numbers fp16 holds are taken to be exact."""
    wide = array.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        held = wide.astype(np.float16) == wide
        tie = np.abs(wide - np.floor(wide) - 0.5)
    doubtful = ~held & (tie < UNCERTAIN * np.abs(wide))
    if doubtful.any():
        raise UnsupportedError(node.label, "a number to round is so near to a tie that fp16 cannot tell its side",
                               found=f"{wide[doubtful][0]:g}", remedy="round on the host")


def _check_result(node: Node, array: np.ndarray) -> None:
    if array.dtype.kind in "iu":
        if not held_exactly(array):
            raise UnsupportedError(node.label, "integers are held as fp16", limit=f"exact to {EXACT_INTEGERS}",
                                   found=f"{np.abs(array).max()}", remedy="compute large integers on the host")
        return
    if array.dtype.kind != "f":
        return
    size = np.abs(array)
    limit = SUM_LIMIT if get_op(node.op).sums_products else LARGEST + 15
    largest = float(size.max(initial=0, where=np.isfinite(size)))
    if largest > limit:
        raise UnsupportedError(node.label, "results become infinite on the engine", limit=limit, found=f"{largest:g}",
                               remedy="scale the input down")


def held_exactly(array: np.ndarray) -> bool:
    """Whether fp16 holds every one of these numbers."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(np.float16).astype(np.float64), array.astype(np.float64)))


def check_input(name: str, array: np.ndarray) -> None:
    """UnsupportedError for numbers the engine does not hold: NaN, magnitudes beyond fp16, integers that it rounds."""
    if array.dtype.kind in "iu":
        if not held_exactly(array):
            raise UnsupportedError(f"input {name!r}", "integers are held as fp16", limit=f"exact to {EXACT_INTEGERS}",
                                   found=f"{array.min()}..{array.max()}", remedy="scale them on the host")
    elif array.dtype.kind != "b":
        wide = array.astype(np.float64)
        if np.isnan(wide).any():
            raise UnsupportedError(f"input {name!r}", "the engine has no NaN", remedy="replace them on the host")
        finite = wide[np.isfinite(wide)]
        with np.errstate(over="ignore"):
            moved = np.abs(finite.astype(np.float16) - finite)
        if finite.size and np.abs(finite).max() <= LARGEST and moved.max() > LARGEST_SHIFT:
            raise UnsupportedError(f"input {name!r}", "rounding to fp16 would move a number too far",
                                   limit=LARGEST_SHIFT, found=f"{moved.max():g}", remedy="scale the input down")
        finite = np.abs(finite)
        if finite.size and finite.max() > LARGEST:
            raise UnsupportedError(f"input {name!r}", "real numbers are held as fp16", limit=LARGEST,
                                   found=f"{finite.max():g}", remedy="scale the input down")
