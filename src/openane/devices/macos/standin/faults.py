"""What the stand-in does differently from a healthy system: failures to inject, limits, and variants of behaviour.

They are written as one text, `WORD[=VALUE],WORD[=VALUE]...`, so that they can be part of a device's name:
`macos?runtime=simulated&inject=evaluate=0x1d,after=3`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields

from openane.errors import DeviceError
from openane.record_classes import dataclass

COMPILES = 119
"""Programs one process may compile. Inferred: three projects met the limit at about this number."""
REQUESTS = ("evaluate", "compile", "load", "unload")
ROW_ALIGNMENT = 64
"""Bytes that the rows of a surface are rounded up to. Inferred from the smallest surfaces that work."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Every field is a word of the text, with `-` for `_`. The defaults are a healthy system."""

    compile: str = ""
    """"failed" (the compiler's back end, with an empty text) or "invalid" (its front end)."""
    load: bool = False
    """Loading a compiled model fails."""
    evaluate: int = 0
    """Status with which runs fail, such as 0x1d."""
    after: int = 0
    """Runs that succeed before the failures of runs begin."""
    hang: float = 0.0
    """Seconds a run takes; `hang` alone never ends."""
    exception: bool = False
    """A run throws an NSException, which ends the process."""
    crash: bool = False
    """A run ends the process without a word."""
    at: str = "evaluate"
    """What hangs, throws or crashes: evaluate, compile, load or unload. `after` counts these."""
    missing_class: tuple[str, ...] = ()
    """Classes the system does not have, separated by `+`."""
    missing_selector: tuple[str, ...] = ()
    """Selectors no class responds to, separated by `+`."""
    missing_function: tuple[str, ...] = ()
    """C functions the libraries do not export, separated by `+`."""
    missing_library: tuple[str, ...] = ()
    """Libraries that do not load, separated by `+`."""
    encoding: tuple[str, ...] = ()
    """Selectors whose argument types have changed, separated by `+`."""
    nil: tuple[str, ...] = ()
    """Selectors and C functions that do nothing and give nil, NULL or 0, separated by `+`."""
    lock: bool = False
    """Surfaces cannot be locked."""
    refuse_files: bool = False
    """Precompiled programs are not loaded; whether the system loads those it did not sign is not known."""
    budget: int = COMPILES
    """Programs that can be compiled."""
    live_budget: bool = False
    """Whether unloading gives room for another compilation; sources disagree."""
    equal_sizes: bool = False
    """Whether all inputs must have surfaces of one size, and all outputs too; sources disagree."""
    row_alignment: int = ROW_ALIGNMENT
    """Bytes that rows of surfaces are rounded up to."""
    statistics: bool = False
    """A request tells how long the engine took. No source has seen that."""
    no_attributes: bool = False
    """A loaded model does not tell its layout."""
    version: str = "26.5"
    """Version of the system."""
    machine: str = "arm64"
    """Processor of the machine."""
    temporary: str = ""
    """What NSTemporaryDirectory gives; by default Python's."""
    hwx: str = ""
    """The file Apple's compiler would write, or a folder of such files, called by the first 16 digits of their MIL
    text's SHA-256 and by their target; without one every compilation by it fails, for it is not simulated."""
    engine: str = ""
    """How the engine that runs precompiled programs differs (`openane.simulator.variation`);
    it then has a clock of its own."""
    chip: str = "m1"
    """Whose clocks that engine has, and what the machine says it is."""
    report: str = ""
    """File to which the problems found are appended when the symbols are closed."""


def parse_faults(text: str) -> Faults:
    """The faults of a text. DeviceError lists the words when one is not known or its value does not fit."""
    found: dict[str, object] = {}
    for part in filter(None, text.split(",")):
        word, _, value = part.partition("=")
        name = word.strip().replace("-", "_")
        if name not in _READERS:
            raise DeviceError(f"the stand-in knows no fault {word!r}; it knows "
                              f"{', '.join(known.replace('_', '-') for known in _READERS)}")
        try:
            found[name] = _READERS[name](value)
        except ValueError as error:
            raise DeviceError(f"fault {part!r}: {error}") from None
    return Faults(**found)  # type: ignore[arg-type]


def _flag(text: str) -> bool:
    if text not in ("", "1", "0"):
        raise ValueError("it takes no value, or 0 or 1")
    return text != "0"


def _number(text: str) -> int:
    value = int(text, 0) if text else 0
    if not 0 <= value < 2**31:
        raise ValueError("it takes a whole number from 0 to 2147483647")
    return value


def _alignment(text: str) -> int:
    value = _number(text)
    if not 2 <= value <= 4096:
        raise ValueError("rows are aligned to 2 to 4096 bytes")
    return value


def _status(text: str) -> int:
    return _number(text or "0x1d")


def _seconds(text: str) -> float:
    value = float(text) if text else math.inf
    if not value > 0:
        raise ValueError("it takes a number of seconds above 0")
    return value


def _compile(text: str) -> str:
    if text not in ("", "failed", "invalid"):
        raise ValueError("it takes failed or invalid")
    return text or "failed"


def _request(text: str) -> str:
    if text not in REQUESTS:
        raise ValueError(f"it takes {', '.join(REQUESTS)}")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split("+")))


_SPECIAL: Mapping[str, Callable[[str], object]] = {
    "compile": _compile, "evaluate": _status, "hang": _seconds, "at": _request, "row_alignment": _alignment}
_BY_TYPE: Mapping[str, Callable[[str], object]] = {
    "bool": _flag, "int": _number, "str": str, "tuple[str, ...]": _names}
_READERS: Mapping[str, Callable[[str], object]] = {
    each.name: _SPECIAL.get(each.name) or _BY_TYPE[str(each.type)] for each in fields(Faults)}
