"""A progress bar on stderr: rich where it is installed, plain text otherwise, nothing when stderr is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")

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
                full = WIDTH * done // max(total, 1)
                sys.stderr.write(f"\r{label} [{'#' * full}{'.' * (WIDTH - full)}] {done}/{total}")
                sys.stderr.flush()
                drawn = now
            yield item
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
