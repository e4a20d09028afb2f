"""Giving back several things, whichever of them fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def every(actions: Iterable[Callable[[], object]]) -> None:
    """Runs all of them, whichever fails; then raises the first error, or what interrupted one of them."""
    errors: list[BaseException] = []
    for action in actions:
        try:
            action()
        except BaseException as error:
            errors.append(error)
    try:
        if errors:
            raise next((error for error in errors if not isinstance(error, Exception)), errors[0])
    finally:
        errors.clear()  # their tracebacks hold this frame
