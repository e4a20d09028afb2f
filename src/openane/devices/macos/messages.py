"""What a device and its worker say to each other.

A request is a tuple that begins with a `WorkerRequest`; a loading request is followed by the descriptor of the tensors'
memory. The worker answers with any number of (NOTE, directory) and then (DONE, value) or (ERROR, facts).
"""

from __future__ import annotations

import traceback
from enum import StrEnum
from typing import Any

from openane import errors
from openane.errors import AneError, DeviceError

NOTE, DONE, ERROR = "note", "done", "error"


class WorkerRequest(StrEnum):
    """What a worker is asked."""

    OPEN = "open"      # options -> Platform
    LOAD = "load"      # number, program, bytes -> None
    RUN = "run"        # number -> RunFacts
    UNLOAD = "unload"  # number -> None
    CLOSE = "close"    # -> None, and the worker ends


ErrorState = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Class, arguments and attributes of an exception: constructors with keywords cannot be pickled."""


def error_state(error: BaseException) -> ErrorState:
    """An exception to be sent; what is no `AneError` is a defect and becomes a DeviceError with its traceback."""
    if isinstance(error, AneError) and hasattr(errors, type(error).__name__):
        return type(error).__name__, error.args, dict(vars(error))
    return DeviceError.__name__, ("the worker failed: " + "".join(traceback.format_exception(error)),), {}


def received_error(state: ErrorState) -> AneError:
    """The exception again."""
    name, arguments, attributes = state
    kind = getattr(errors, name)
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(attributes)
    assert isinstance(error, AneError)
    return error
