"""A file of evidence, and files that are not quite one: bytes and values changed, lines sealed again, and results that
an engine might have given and did not."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from openane.experiments.attest.journal import as_line
from openane.experiments.evidence_file import ABOUT, write_evidence
from openane.experiments.outcome import Ending, Run, Shown, digest
from openane.experiments.shelf import library_digest

VALUES: tuple[Any, ...] = (None, True, -1, 10**400, 1e308, "", "x" * 300, "0" * 64, [], {}, [[]], {"a": {}}, "done",
                           "row_sums", "4096 numbers", 3.5, "\x00", "../..", "h13", "linux", "m1")


def example() -> bytes:
    """Two trials that ended well."""
    good = (Run(Ending.DONE, digest(b"outputs"), 0.5), Run(Ending.FAILED), Run(Ending.DONE, digest(b"outputs"), 0.25))
    shown = [Shown("row_sums", name, "0" * 64, good, {digest(b"outputs"): b"outputs"}) for name in ("first", "second")]
    head = {"about": dict.fromkeys(ABOUT, "a text"), "generation": "h13", "chip": "m1", "route": "linux",
            "library": library_digest(), "trials": 2}
    return write_evidence(head, [as_line(each) for each in shown])


def mutants(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Files with bytes changed, cut out, doubled or put in."""
    generator = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            place = generator.randrange(len(changed))
            kind = generator.randrange(4)
            if kind == 0:
                changed[place] = generator.randrange(256)
            elif kind == 1:
                del changed[place:place + generator.randint(1, 50)]
            elif kind == 2:
                changed[place:place] = changed[place:place + generator.randint(1, 50)]
            else:
                changed[place:place] = generator.randbytes(generator.randint(1, 8))
            if not changed:
                break
        yield bytes(changed)


def resealed(data: bytes, generator: random.Random) -> bytes:
    """A forged file: values of records are others, and its last line says that it is whole."""
    lines = _records(data)
    for _ in range(generator.randint(1, 3)):
        _change(generator.choice(lines), generator)
    return _sealed(lines)


def forged(data: bytes, generator: random.Random) -> bytes:
    """A forged file that looks true: another engine, other endings and times, outputs of other trials, trials that are
    missing or called otherwise."""
    lines = _records(data)
    for _ in range(generator.randint(1, 4)):
        head, *trials = lines
        if not trials:
            break
        trial, other = generator.choice(trials), generator.choice(trials)
        run = generator.choice(trial["runs"])
        match generator.randrange(7):
            case 0:
                head |= generator.choice(ENGINES)
            case 1:
                head["about"]["engine"] = generator.choice(("real", "none", "simulated"))
            case 2:
                run["seconds"] *= generator.choice((0.0, 1e-3, 0.5, 2.0, 1e3))
            case 3:
                ending = str(generator.choice(list(Ending)))
                trial["runs"] = [{"ending": ending, "digest": "", "seconds": 0.0}] * generator.randint(1, 4)
                trial["contents"] = {}
            case 4:
                trial["runs"], trial["contents"] = other["runs"], other["contents"]
            case 5:
                lines.remove(trial)
            case 6:
                trial["trial"], trial["experiment"] = other["trial"], generator.choice(trials)["experiment"]
    return _sealed(lines)


ENGINES = ({"generation": "h14", "chip": "m2"}, {"generation": "h17", "chip": "m5"}, {"chip": "m4 max"},
           {"generation": "h11"}, {"route": "macos"}, {"route": ""}, {"generation": "h13", "chip": "m1 max"})


def _records(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()[:-1]]


def _sealed(lines: list[Any]) -> bytes:
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    return body + json.dumps({"lines": len(lines), "sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n"


def _change(record: Any, generator: random.Random) -> None:
    while True:
        keys = list(record) if isinstance(record, dict) else list(range(len(record)))
        if not keys:
            return
        key = generator.choice(keys)
        if isinstance(record[key], dict | list) and generator.random() < 0.7:
            record = record[key]
            continue
        if generator.random() < 0.2:
            del record[key]
        else:
            record[key] = deepcopy(generator.choice(VALUES))
        return
