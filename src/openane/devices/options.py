"""The options of a device name: `KIND:TARGET?NAME=VALUE&NAME=VALUE`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from openane.errors import DeviceError


def parts(name: str) -> tuple[str, str, dict[str, str]]:
    """Kind, target and options of a device name. DeviceError when the options are not written so."""
    place, _, query = name.partition("?")
    kind, _, target = place.partition(":")
    try:
        return kind, target, dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise DeviceError(f"the options of device {name!r} must be written ?NAME=VALUE&NAME=VALUE") from None


def refuse_unknown(device: str, options: Mapping[str, str], known: Sequence[str]) -> None:
    """DeviceError for an option the device does not have; it lists those it has."""
    unknown = [name for name in options if name not in known]
    if unknown:
        raise DeviceError(f"{device} has no option {unknown[0]!r}; it has {', '.join(known)}")


def choose(options: Mapping[str, str], name: str, known: Sequence[str], default: str) -> str:
    """One of several words. DeviceError lists them."""
    value = options.get(name, default)
    if value not in known:
        raise DeviceError(f"{name}={value} is not known; there are {', '.join(known)}")
    return str(value)


def seconds(options: Mapping[str, str], name: str, default: float) -> float:
    """A time above zero, in seconds. DeviceError for anything else."""
    text = options.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise DeviceError(f"{name}={text} must be a number of seconds above 0")
    return value


def whole(options: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """A whole number from `low` to `high`. DeviceError for anything else."""
    text = options.get(name)
    if text is None:
        return default
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1
    if not low <= value <= high:
        raise DeviceError(f"{name}={text} must be a whole number from {low} to {high}")
    return value
