"""The file that an owner of an engine sends: lines of JSON, written and read strictly.

    first line   format, version, what is known of the machine, generation, chip, route, the library's digest
    a line each  a trial: program, runs (ending, digest, seconds), and the compressed outputs behind every digest
    last line    how many lines there are, and the SHA-256 of them

Reading bounds everything before it takes memory, decompresses with a limit, and executes nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openane.errors import FormatError
from openane.experiments.outcome import Ending, Run, Shown, digest

FORMAT, VERSION = "openane evidence", 1
LARGEST, LONGEST, MOST_LINES, MOST_RUNS = 5_000_000, 1_000_000, 2000, 16
MOST_SECONDS = 1e4
CONTENT = 1 << 22
"""Bytes of one trial's outputs."""
ABOUT = ("openane", "system", "release", "processor", "python", "device", "description", "engine")
"""What may be said of a machine: no names, no serial numbers, no paths."""
HEAD = {"about": dict, "generation": str, "chip": str, "route": str, "library": str, "trials": int}
TRIAL = {"experiment": str, "trial": str, "program": str, "runs": list, "contents": dict}
RUN = {"ending": str, "digest": str, "seconds": (int, float)}
HEX = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[\w .,:;()+*/=-]{1,80}")
PLAIN = re.compile(r"[^\x00-\x1f\x7f/\\~]{0,200}")


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file that was read: what it says of the machine, and its trials. `identity` is the file's digest."""

    head: Mapping[str, Any]
    trials: tuple[Shown, ...]
    identity: str

    @property
    def generation(self) -> str:
        """The engine's."""
        return str(self.head["generation"])

    @property
    def chip(self) -> str:
        """The chip's name."""
        return str(self.head["chip"])


def write_evidence(head: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> bytes:
    """The file of a head and of trials as `journal.as_line` has them. FormatError where it would not be read again."""
    lines = [json.dumps({"format": FORMAT, "version": VERSION, **head}, sort_keys=True)]
    lines += [json.dumps(dict(each), sort_keys=True) for each in results]
    body = "".join(f"{line}\n" for line in lines).encode()
    data = body + json.dumps({"lines": len(lines), "sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n"
    read_evidence(data)
    return data


def read_evidence(data: bytes) -> EvidenceFile:
    """The evidence of a file. FormatError says what is wrong, and in which line."""
    if len(data) > LARGEST:
        raise FormatError(f"evidence has at most {LARGEST} bytes", found=str(len(data)))
    body, mark, last = data.rstrip(b"\n").rpartition(b"\n")
    lines = body.split(b"\n") if mark else []
    if not 1 <= len(lines) <= MOST_LINES:
        raise FormatError(f"evidence has 2 to {MOST_LINES} lines", found=str(len(lines)))
    end = _checked(_parsed(last, len(lines)), {"lines": int, "sha256": str}, len(lines))
    if end["lines"] != len(lines) or end["sha256"] != hashlib.sha256(body + b"\n").hexdigest():
        raise FormatError("the file is not whole: its last line says another number of lines or another digest")
    head = _head(_parsed(lines[0], 0))
    trials = []
    for number, line in enumerate(lines[1:], 1):
        try:
            trials.append(shown_of(_parsed(line, number)))
        except FormatError as error:
            raise FormatError(f"line {number + 1}: {error}") from None
    names = [(shown.experiment, shown.trial) for shown in trials]
    if len(set(names)) != len(names):
        raise FormatError("a trial is there twice")
    return EvidenceFile(head, tuple(trials), hashlib.sha256(data).hexdigest())


def shown_of(line: Any) -> Shown:
    """A trial of plain data. FormatError where it is none."""
    known = _checked(line, TRIAL, 0)
    for name in ("experiment", "trial"):
        _fits(NAME, known[name], name)
    _fits(HEX, known["program"], "program")
    if not 1 <= len(known["runs"]) <= MOST_RUNS or len(known["contents"]) > MOST_RUNS:
        raise FormatError(f"a trial has 1 to {MOST_RUNS} runs")
    runs = tuple(map(_run, known["runs"]))
    contents = {name: _content(name, text) for name, text in known["contents"].items()}
    said = {run.digest for run in runs if run.digest}
    if set(contents) != said:
        raise FormatError("the outputs are not those that the runs name")
    return Shown(known["experiment"], known["trial"], known["program"], runs, contents)


def _head(given: Any) -> dict[str, Any]:
    head = _checked(given, HEAD | {"format": str, "version": int}, 0)
    if head.pop("format") != FORMAT or head.pop("version") != VERSION:
        raise FormatError(f"this is no {FORMAT!r} of version {VERSION}")
    about = _checked(head["about"], dict.fromkeys(ABOUT, str), 0)
    for text in (*about.values(), head["generation"], head["chip"], head["route"]):
        _fits(PLAIN, text, "the machine")
    _fits(HEX, head["library"], "the library")
    if not 0 <= head["trials"] <= MOST_LINES:
        raise FormatError("a number of trials")
    return head


def _run(given: Any) -> Run:
    known = _checked(given, RUN, 0)
    if known["ending"] not in list(Ending):
        raise FormatError("a run ends in no such way", found=str(known["ending"])[:80])
    if not 0 <= known["seconds"] < MOST_SECONDS:  # false of what is no number
        raise FormatError("the seconds of a run are none")
    seconds = float(known["seconds"])
    if known["digest"]:
        _fits(HEX, known["digest"], "digest")
    ending = Ending(known["ending"])
    if ending is not Ending.DONE and (known["digest"] or seconds):
        raise FormatError("a run that did not end well has outputs")
    return Run(ending, known["digest"], seconds)


def _content(name: Any, text: Any) -> bytes:
    """Outputs, decompressed with a limit, and equal to their digest."""
    _fits(HEX, name, "digest")
    if not isinstance(text, str):
        raise FormatError("outputs are text")
    try:
        packed = base64.b64decode(text, validate=True)
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(packed, CONTENT)
    except (binascii.Error, ValueError, zlib.error):
        raise FormatError("outputs that cannot be unpacked") from None
    if not unpacker.eof or unpacker.unused_data or digest(content) != name:
        raise FormatError("outputs are not what their digest says")
    return content


def _parsed(line: bytes, number: int) -> Any:
    if len(line) > LONGEST:
        raise FormatError(f"line {number + 1} has more than {LONGEST} bytes")
    try:
        return json.loads(line.decode(), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"line {number + 1} is no JSON: {str(error)[:80]}") from None


def _refused(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _checked(given: Any, wanted: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A record with exactly these entries of these types. FormatError says which is not so."""
    if not isinstance(given, dict) or set(given) != set(wanted):
        found = ", ".join(map(str, sorted(given)))[:200] if isinstance(given, dict) else type(given).__name__
        raise FormatError(f"a record of line {number + 1} has {', '.join(sorted(wanted))}", found=found)
    for name, kind in wanted.items():
        if not isinstance(given[name], kind) or isinstance(given[name], bool):
            raise FormatError(f"{name} is of another type", found=type(given[name]).__name__)
    return dict(given)


def _fits(pattern: re.Pattern[str], text: Any, what: str) -> None:
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise FormatError(f"{what} is not written so", found=str(text)[:80])


__all__ = ["EvidenceFile", "read_evidence", "shown_of", "write_evidence"]
