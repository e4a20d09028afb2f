"""What owners of engines have attested and somebody has accepted: by fact, the files that say so.

`attested.json` is changed by a patch that `ane evidence --prepare` makes and a person reads; see docs/attesting.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ATTESTED = Path(__file__).with_name("attested.json")

Said = Mapping[str, Sequence[Mapping[str, str]]]


@cache
def attested() -> Said:
    """By the name of a fact (`field/h17/PE.Cfg.Root`) what each accepted file says: its digest (`file`), `experiment`,
    `hypothesis`, and `level` (proved, seen, refuted)."""
    said: Said = json.loads(ATTESTED.read_text())
    return said


def machines(fact: str) -> str:
    """By how many machines a fact is proved, seen or refuted; empty where nobody has attested it."""
    levels = [each["level"] for each in attested().get(fact, ())]
    return ", ".join(f"{level} by {levels.count(level)} machine{'s' if levels.count(level) > 1 else ''}"
                     for level in dict.fromkeys(levels))
