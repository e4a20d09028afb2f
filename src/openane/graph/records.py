"""Work that makes many records and no circles of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def many_records() -> Iterator[None]:
    """While this lasts Python does not look for circles of objects that nobody needs. Graphs, operations and tasks are
    trees: it would walk all of them again and again, a fifth of the time of a compilation, and find nothing. Objects
    that are no part of a circle are given back as ever. Of several threads the first to end lets it look again."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()
