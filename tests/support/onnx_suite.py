"""ONNX's own node cases, run on the backend and judged: computed, constant, refused, wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper

from openane import onnx_backend
from openane.chips import DEFAULT_TARGET
from openane.errors import AneError, UnsupportedError

KNOWN = Path(__file__).parents[1] / "onnx_known.txt"
"""Cases that do not run, with reasons: `case: reason`. It only shrinks."""


@dataclass(frozen=True)
class Verdict:
    """What became of one case. `kind`: engine (computed wholly there, within tolerance), host (with steps of the host
    besides), constant (the result depends on constants of the run alone), refused, wrong. `digest`: SHA-256 of all
    results of a case that ran."""

    name: str
    kind: str
    reason: str = ""
    digest: str = ""

    @property
    def expanded(self) -> bool:
        """Whether ONNX made the case from the body of another one's operator."""
        return "_expanded" in self.name


@cache
def cases() -> tuple[Any, ...]:
    """Every node case of the installed onnx package, by name."""
    from onnx.backend.test.loader import load_model_tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package computes overflows on purpose
        return tuple(sorted(load_model_tests(kind="node"), key=lambda case: case.name))


def judge(case: Any, target: str = DEFAULT_TARGET) -> Verdict:
    """Runs one case, compiled for a target. Errors that are no AneError escape."""
    digest = sha256()
    try:
        prepared = onnx_backend.prepare(case.model, target=target)
        for inputs, expected in case.data_sets:
            results = prepared.run([_array(each) for each in inputs])
            for result in results:
                digest.update(np.ascontiguousarray(result).tobytes())
            wrong = _difference(prepared.last.tolerance, results, expected)
            if wrong:
                return Verdict(case.name, "wrong", wrong, digest.hexdigest())
    except AneError as error:
        return Verdict(case.name, "refused", _reason(error))
    kind = "host" if prepared.last.model.host_operations else "constant" if prepared.last.constant else "engine"
    return Verdict(case.name, kind, "", digest.hexdigest())


def _array(given: Any) -> Any:
    plain = given is None or isinstance(given, np.ndarray | np.generic | list)
    return given if plain else numpy_helper.to_array(given)


def _difference(tolerance: onnx_backend.Tolerance, results: Sequence[Any], expected: Sequence[Any]) -> str:
    if len(results) != len(expected):
        return f"{len(results)} results, not {len(expected)}"
    for place, (result, given) in enumerate(zip(results, expected, strict=True)):
        wanted = np.asarray(_array(given))
        if not tolerance.allows(result, wanted):
            return f"output {place}: {result.dtype} {result.ravel()[:4]}, not {wanted.dtype} {wanted.ravel()[:4]}"
    return ""


def _reason(error: AneError) -> str:
    """One line: the operator or port, the rule, what was found."""
    if not isinstance(error, UnsupportedError):
        return " ".join(f"{type(error).__name__}: {error}".split())[:160]
    operation = error.operation.removeprefix("ONNX ").split(" (node")[0].split(" (from")[0]
    found = "" if error.found is None else f" (found {error.found})"
    return " ".join(f"{operation}: {error.rule}{found}".split())[:160]


def read_known() -> dict[str, str]:
    """Reason by case."""
    lines = (line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#"))
    return {name: reason for name, _, reason in (line.partition(": ") for line in lines)}


def written(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The lines of onnx_known.txt."""
    yield "# ONNX node cases the backend does not run, and why: refused, or out of tolerance. The list only shrinks:"
    yield "# python benchmarks/onnx_suite.py --write makes it anew and refuses to lengthen it."
    yield from (f"{verdict.name}: {verdict.reason}" for verdict in verdicts if verdict.kind in ("refused", "wrong"))
