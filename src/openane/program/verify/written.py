"""Which bytes of a memory hold something: regions added as tasks write, taken out as they are overwritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openane.program.verify.regions import Effort, Region, meets, subtract

PAGE = 1 << 16
WIDE = 64
"""Regions over more pages than this are kept in one list."""


class Written:
    """A set of bytes. `everything`: a memory that is filled from outside and always counts as written."""

    def __init__(self, everything: bool = False) -> None:
        self.everything = everything
        self._pages: dict[int, dict[Region, None]] = {}
        self._wide: dict[Region, None] = {}

    def missing(self, region: Region) -> int | None:
        """The first byte of `region` that nothing was written to, or that could not be shown to be written."""
        if self.everything:
            return None
        left, effort = [region], Effort()
        for known in self._near(region):
            left = [piece for part in left for piece in subtract(part, known, effort)]
            if not left:
                return None
        return min(piece.offset for piece in left)

    def add(self, region: Region) -> None:
        """Every byte of `region` is written."""
        if self.everything:
            return
        if self._is_wide(region):
            self._wide[region] = None
            return
        for page in self._page_range(region):
            self._pages.setdefault(page, {})[region] = None

    def remove(self, region: Region) -> None:
        """No byte of `region` is written any more. What cannot be taken apart is given up as a whole."""
        for known in self._near(region):
            if not meets(known, region):
                continue
            effort = Effort()
            pieces = subtract(known, region, effort)
            self._discard(known)
            for piece in pieces if effort.left >= 0 else ():
                self.add(piece)

    def _near(self, region: Region) -> Iterable[Region]:
        if self._is_wide(region):
            found: dict[Region, None] = dict(self._wide)
            for page in self._pages.values():
                found |= page
            return reversed(found)
        found = {}
        for index in self._page_range(region):
            found |= self._pages.get(index, {})
        return (*reversed(found), *reversed(self._wide))

    def _discard(self, region: Region) -> None:
        self._wide.pop(region, None)
        if not self._is_wide(region):
            for page in self._page_range(region):
                self._pages[page].pop(region, None)

    def _is_wide(self, region: Region) -> bool:
        return region.end - region.offset > WIDE * PAGE

    def _page_range(self, region: Region) -> Iterator[int]:
        return iter(range(region.offset // PAGE, (region.end - 1) // PAGE + 1))
