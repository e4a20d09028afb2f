"""Giving back several things, whichever of them fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


def every(actions: Iterable[Callable[[], object]]) -> None:
    """Runs all of them, whichever fails; then raises what failed."""
    _rest(iter(actions))


def _rest(actions: Iterator[Callable[[], object]]) -> None:
    for action in actions:
        try:
            action()
        except BaseException:
            _rest(actions)
            raise
