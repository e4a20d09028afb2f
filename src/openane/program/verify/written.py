"""Keeps account of which bytes of a memory hold something: regions are added as tasks write, and taken out as they are
overwritten.

Tensors are often written in parts (rows, channels, tiles). A part that continues a known region is merged into it, so
that what is read later is usually one region.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openane.program.verify.regions import Effort, Loops, Region, nested, split, subtract

PAGE = 1 << 16
WIDE = 64
"""Regions over more pages than this are kept in one list."""
PIECES = 1 << 12
"""What is left of a region while it is looked up may fall into this many pieces; then it counts as missing."""

_Key = tuple[int, Loops, int]
"""Where a piece must start, its loops and its run, to continue a region. Run 0: any run."""


class Written:
    """A set of bytes. `everything`: a memory that is filled from outside and always counts as written."""

    def __init__(self, everything: bool = False) -> None:
        self.everything = everything
        self._pages: dict[int, dict[Region, None]] = {}
        self._wide: dict[Region, None] = {}
        self._awaited: dict[_Key, tuple[Region, int]] = {}
        self._latest: dict[tuple[Loops, int], Region] = {}

    def missing(self, region: Region) -> int | None:
        """The first byte of `region` that nothing was written to, or that could not be shown to be written."""
        if self.everything:
            return None
        left = [region]
        # The largest first: what remains of overwritten tensors, in the gaps of the latest, would only cut it up.
        for known in sorted(self._near(region), key=lambda known: -known.size):
            effort = Effort()
            left = [piece for part in left for piece in subtract(part, known, effort)]
            if not left:
                return None
            if len(left) > PIECES:
                break
        return min(piece.offset for piece in left)

    def add(self, region: Region) -> None:
        """Every byte of `region` is written. It has no byte in common with what is known."""
        if self.everything:
            return
        known, merged = self._merged(region)
        if known is not None and merged is not None:
            self._discard(known)
            region = merged
        self._keep(region)

    def remove(self, region: Region) -> None:
        """No byte of `region` is written any more. What cannot be taken apart within its reach is given up."""
        for known in self._near(region):
            within, left = split(known, region.offset, region.end)
            for part in within if region.loops else ():
                effort = Effort()
                pieces = subtract(part, region, effort)
                left += pieces if effort.left >= 0 else ()
            if sum([piece.size for piece in left]) == known.size:
                continue
            self._discard(known)
            for piece in left:
                self._keep(piece)

    def _merged(self, piece: Region) -> tuple[Region | None, Region | None]:
        """A known region that `piece` continues, and both as one."""
        known, loop = self._awaited.get((piece.offset, piece.loops, piece.run), (None, 0))
        if known is not None:
            extent, stride = known.loops[loop]
            loops = (*known.loops[:loop], (extent + 1, stride), *known.loops[loop + 1:])
            return known, _checked(known.offset, loops, known.run)
        known, _ = self._awaited.get((piece.offset, piece.loops, 0), (None, 0))
        if known is not None:
            return known, _checked(known.offset, known.loops, known.run + piece.run)
        known = self._latest.get((piece.loops, piece.run))
        if known is None or known.offset >= piece.offset:
            return None, None
        return known, _checked(known.offset, (*known.loops, (2, piece.offset - known.offset)), known.run)

    def _keep(self, region: Region) -> None:
        for key, loop in _continuations(region):
            self._awaited[key] = region, loop
        self._latest[region.loops, region.run] = region
        if self._is_wide(region):
            self._wide[region] = None
            return
        for page in self._page_range(region):
            self._pages.setdefault(page, {})[region] = None

    def _discard(self, region: Region) -> None:
        for key, _ in _continuations(region):
            if self._awaited.get(key, (None, 0))[0] is region:
                del self._awaited[key]
        if self._latest.get((region.loops, region.run)) is region:
            del self._latest[region.loops, region.run]
        if self._is_wide(region):
            self._wide.pop(region, None)
            return
        for page in self._page_range(region):
            self._pages[page].pop(region, None)

    def _near(self, region: Region) -> Iterable[Region]:
        """Known regions that may have bytes in common with `region`."""
        found: dict[Region, None] = dict(self._wide)
        if self._is_wide(region):
            for page in self._pages.values():
                found |= page
        else:
            for index in self._page_range(region):
                found |= self._pages.get(index, {})
        return [known for known in found if known.offset < region.end and region.offset < known.end]

    def _is_wide(self, region: Region) -> bool:
        return region.end - region.offset > WIDE * PAGE

    def _page_range(self, region: Region) -> Iterator[int]:
        return iter(range(region.offset // PAGE, (region.end - 1) // PAGE + 1))


def _continuations(region: Region) -> Iterator[tuple[_Key, int]]:
    """What pieces would continue a region: one more step of a loop, or more bytes of every run."""
    yield (region.offset + region.run, region.loops, 0), 0
    for loop, (extent, stride) in enumerate(region.loops):
        yield (region.offset + extent * stride, region.loops[:loop] + region.loops[loop + 1:], region.run), loop


def _checked(offset: int, loops: Loops, run: int) -> Region | None:
    """These loops as a region, when they nest and name no byte twice."""
    region, once = nested(offset, loops, run)
    return region if once else None
