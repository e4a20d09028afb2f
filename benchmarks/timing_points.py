"""Published timing points as they are written: what a file of them states, in one form.

A point is {source, chip, generation, kind, params, value, unit, notes}. Times may be in any unit of time; a rate
(TFLOPS, GMAC/s, GB/s) is a time once its program's work is known. What cannot be read is refused point by point, with
the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from pathlib import Path
from typing import Any

import openane as ane
from openane.chips.machines import SOCS, Soc, find

TIMES = {"s": 1e3, "sec": 1e3, "second": 1e3, "seconds": 1e3, "ms": 1.0, "msec": 1.0, "millisecond": 1.0,
         "milliseconds": 1.0, "us": 1e-3, "usec": 1e-3, "µs": 1e-3, "μs": 1e-3, "microsecond": 1e-3,
         "microseconds": 1e-3, "ns": 1e-6, "nanoseconds": 1e-6}
"""Unit of time to milliseconds."""
RATES = {"tflops": ("operations", 1e12), "tflop/s": ("operations", 1e12), "tops": ("operations", 1e12),
         "gflops": ("operations", 1e9), "gflop/s": ("operations", 1e9), "gops": ("operations", 1e9),
         "tmac/s": ("multiplications", 1e12), "gmac/s": ("multiplications", 1e9), "gb/s": ("bytes", 1e9),
         "mb/s": ("bytes", 1e6)}
"""Unit of a rate to what it counts, and how many a second."""
KINDS = {"sram_cliff": "conv", "chain": "conv", "convolution": "conv", "conv2d": "conv", "depthwise": "conv",
         "gemm": "matmul", "linear": "matmul", "attention": "matmul", "mha": "matmul", "softmax": "elementwise",
         "unary": "elementwise", "binary": "elementwise", "activation": "elementwise", "reduce": "reduction"}
"""Kind of a point to the kind it is listed under; layers of a working-set sweep are convolutions."""
OTHER = {"dispatch_floor", "compile_time", "training_step", "model"}
"""Kinds that are no time of one program."""
LEAST = 1e-9
"""Values below it, or above its inverse, are mistakes in any unit."""
LABEL = re.compile(r"(?P<depth>\d+)x (?P<op>conv1x1|conv3x3) C(?P<C>\d+) (?:sp(?P<W>\d+)|(?P<H>\d+)x(?P<wide>\d+))\b")
"""A chain as peak figures name it: `128x conv1x1 C512 sp64`. Their harness gives all layers one block of weights."""


class UnknownPointError(Exception):
    """A point nobody can compute from what it states."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point in one form. `chip` is a name of `chips.machines`; `value` is in milliseconds, or in `per_second` of what
    `counts` names."""

    source: str
    chip: str
    generation: str
    kind: str
    params: Mapping[str, Any]
    notes: str
    value: float
    counts: str = "milliseconds"
    per_second: float = 0.0

    @property
    def group(self) -> str:
        """Generation and kind."""
        return f"{self.generation} {self.kind}"


def load(path: Path) -> list[Any]:
    """The entries of a file: a JSON list, or an object with a list `points`. ValueError says what is wrong."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    points = document.get("points") if isinstance(document, dict) else document
    if not isinstance(points, list):
        raise ValueError(f"{path} holds no list of points")
    return points


def point(entry: object) -> Point:
    """An entry in one form. UnknownPointError says what it lacks."""
    if not isinstance(entry, Mapping):
        raise UnknownPointError("the entry is no object")
    params = entry.get("params") or {}
    if not isinstance(params, Mapping):
        raise UnknownPointError("params is no object")
    kind = _text(entry.get("kind")).lower() or _kind_of(params)
    unit = _text(entry.get("unit"))
    params = _named(params, kind)
    if kind in OTHER or (kind in ("bandwidth", "peak") and "op" not in params):
        raise UnknownPointError(f"{kind} in {unit or 'no unit'} is no time of a program")
    counts, scale = _unit(unit, kind)
    soc = _chip(_text(entry.get("chip")), _text(entry.get("generation")))
    chain = kind == "peak" and str(params["op"]).startswith("chain_conv")
    kind = "conv" if chain or "conv" in kind else KINDS.get(kind, kind)
    value = _value(entry.get("value"))
    return Point(_text(entry.get("source")) or "no source", soc.name, soc.generation, kind, params,
                 _text(entry.get("notes")), value * scale if counts == "milliseconds" else value, counts,
                 0.0 if counts == "milliseconds" else scale)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _kind_of(params: Mapping[Any, Any]) -> str:
    """The kind of a point that states none: its operation."""
    return _text(params.get("op")).lower() or "no kind"


def _named(params: Mapping[Any, Any], kind: str) -> dict[str, Any]:
    """Parameters by name, with the kind as the operation where none is stated; a chain that is named by a label as its
    parameters."""
    named = {str(key): value for key, value in params.items()}
    if named and not {"op", "path"} & set(named) and kind not in ("bandwidth", "peak"):
        named["op"] = kind
    label = LABEL.match(_text(named.get("op")))
    if label is None:
        return named
    found = label.groupdict()
    sizes = {"depth": int(found["depth"]), "C": int(found["C"]), "H": int(found["H"] or 1),
             "W": int(found["W"] or found["wide"]), "shared_weights": 1}
    return {**named, **sizes, "op": f"chain_{found['op']}"}


def _unit(unit: str, kind: str) -> tuple[str, float]:
    plain = unit.lower().replace(" ", "")
    if plain in TIMES:
        return "milliseconds", TIMES[plain]
    if plain in RATES:
        return RATES[plain]
    raise UnknownPointError(f"{kind} in {unit or 'no unit'} is no time of a program")


def _value(value: object) -> float:
    """A positive number; the geometric mean of a range."""
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return exp(sum(log(_value(each)) for each in value) / len(value))
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    if not isfinite(number) or number <= 0:
        raise UnknownPointError("its value is no positive number")
    if not LEAST < number < 1 / LEAST:
        raise UnknownPointError("its value is of no program and no engine")
    return number


def _chip(name: str, generation: str) -> Soc:
    """The chip a point names, else the first of its generation. Words behind a chip's name (`M1 Air`) do not matter."""
    for candidate in _names(name or generation):
        alike = [soc for soc in SOCS if candidate in (soc.name, soc.variant.lower(), soc.generation)]
        if not alike:
            try:
                alike = list(find(candidate).chips)
            except ane.UnsupportedError:
                continue
            if len(alike) > 1:
                raise UnknownPointError(f"{candidate!r} was made with {', '.join(soc.name for soc in alike)}")
        return next((soc for soc in alike if soc.clock.value), alike[0])
    raise UnknownPointError(f"no chip is known by the name {name or generation or 'of nothing'!r}")


def _names(name: str) -> Iterator[str]:
    words = name.lower().removeprefix("apple ").split()
    for count in range(len(words), 0, -1):
        yield " ".join(words[:count])
