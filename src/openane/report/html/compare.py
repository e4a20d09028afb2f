"""Two profiles side by side: totals and the time of every operation of the model.

The other one is read from a file of `ane profile --json` or from a report; nothing in it is believed to be of the right
type before it is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from openane.errors import FormatError

Document = Mapping[str, Any]
DATA_ID = "data"
LARGEST = 256 << 20
"""Bytes of a file that is read at all."""
TOTALS = (("time_us", "one inference", "us"), ("engine_us", "engine", "us"), ("dispatch_us", "dispatch", "us"),
          ("inferences_per_second", "inferences a second", ""), ("tasks", "tasks", ""), ("programs", "programs", ""),
          ("multiplies", "multiplications", ""), ("l2_high", "highest byte of L2", "bytes"),
          ("efficiency", "share of the roofline", ""))
TIMES = "time_by_node_us"
NAMED = ("name", "chip", "generation", "target", "route", "clock_state")
GROUPS = (("bytes", "moved: "), ("memory", "memory: "))


class _Data(HTMLParser):
    """Collects the text of the element that holds a report's data."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.inside, self.parts = False, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        self.inside = tag == "script" and ("id", DATA_ID) in attrs

    def handle_endtag(self, tag: str) -> None:
        """See HTMLParser."""
        self.inside = False

    def handle_data(self, data: str) -> None:
        """See HTMLParser."""
        if self.inside:
            self.parts.append(data)


def read(path: Path) -> Document:
    """The profile in a JSON document or a report. FormatError when there is none, or the file is too large."""
    size = path.stat().st_size
    if size > LARGEST:
        raise FormatError(f"{path} is too large to be a profile", expected=f"at most {LARGEST} bytes", found=size)
    try:
        text = path.read_bytes().decode()
        if text.lstrip().startswith("<"):
            parser = _Data()
            parser.feed(text)
            text = "".join(parser.parts)
        found = json.loads(text)
    except (ValueError, RecursionError, AssertionError) as error:
        raise FormatError(f"{path} is neither a profile nor a report: {error}",
                          expected="a file of 'ane profile --json' or 'ane profile --html'") from None
    profile = found.get("profile", found) if isinstance(found, dict) else None
    if not isinstance(profile, dict) or not isinstance(profile.get(TIMES), dict) or not number(profile.get("time_us")):
        raise FormatError(f"{path} holds no profile",
                          expected="a file of 'ane profile --json' or 'ane profile --html'")
    return profile


def compared(mine: Document, other: Document) -> dict[str, Any]:
    """`totals` ([what, unit, other, mine]) and `nodes` ([operation, other us, mine us]; None where one has no such
    operation), the largest difference first, and what the other is called."""
    totals = [[title, unit, other[key], mine[key]] for key, title, unit in TOTALS
              if number(mine.get(key)) and number(other.get(key))]
    for group, prefix in GROUPS:
        theirs = _numbers(other.get(group))
        own = _numbers(mine.get(group))
        totals += [[prefix + name, "bytes", theirs.get(name), own.get(name)] for name in {**own, **theirs}]
    theirs, own = _numbers(other[TIMES]), _numbers(mine[TIMES])
    names = sorted({**own, **theirs}, key=lambda name: -abs(own.get(name, 0.0) - theirs.get(name, 0.0)))
    nodes = [[name, theirs.get(name), own.get(name)] for name in names]
    kinds = other.get("kinds")
    return {"totals": totals, "nodes": nodes,
            **{key: str(other.get(key, "")) for key in NAMED},
            "times": str(kinds.get("times", "")) if isinstance(kinds, dict) else ""}


def number(value: object) -> bool:
    """Whether something read is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _numbers(values: object) -> dict[str, Any]:
    return {str(name): value for name, value in values.items() if number(value)} if isinstance(values, dict) else {}
