"""Progress on stderr: a bar (rich where it is installed, plain text otherwise) or a line that says what is being done;
nothing when stderr is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")

CLEAR = "\r\x1b[K"
WIDTH = 32
REFRESH = 0.1  # seconds between two drawings


def progress(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """The items, one by one, while a bar shows how many of `total` are done."""
    if not sys.stderr.isatty():
        return iter(items)
    return _rich(items, total, label) if find_spec("rich") else _plain(items, total, label)


def _rich(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(WIDTH), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, total=total, description=label)


def _plain(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    drawn = 0.0
    try:
        for done, item in enumerate(items):
            now = time.monotonic()
            if now - drawn >= REFRESH:
                _draw(f"\r{_bar(label, done, total)}")
                drawn = now
            yield item
    finally:
        _draw(CLEAR)


@contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that shows what the function given was last told: how many are done, and of how many."""
    shown = sys.stderr.isatty()

    def told(done: int, total: int) -> None:
        if shown:
            _draw(f"\r{_bar(label, done, total)}")

    try:
        yield told
    finally:
        if shown:
            _draw(CLEAR)


def _bar(label: str, done: int, total: int) -> str:
    full = WIDTH * done // max(total, 1)
    return f"{label} [{'#' * full}{'.' * (WIDTH - full)}] {done}/{total}"


@contextmanager
def status(label: str) -> Iterator[Callable[[str], None]]:
    """A line that says `label` and what the function given was last told; it is gone afterwards."""
    shown = sys.stderr.isatty()

    def told(text: str) -> None:
        if shown:
            _draw(f"{CLEAR}{label}: {text}")

    try:
        yield told
    finally:
        if shown:
            _draw(CLEAR)


def _draw(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
