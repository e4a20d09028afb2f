"""Files of evidence: read strictly, whatever they hold."""

from __future__ import annotations

import base64
import json
import random
import zlib

import pytest
from support.evidence_mutants import example, mutants, resealed

from openane.errors import FormatError
from openane.experiments.evidence_file import LARGEST, read_evidence, write_evidence
from openane.experiments.judge.odds import verdicts


def test_a_file_is_read_as_it_was_written():
    found = read_evidence(example())
    assert [shown.trial for shown in found.trials] == ["first", "second"]
    assert found.trials[0].contents == {found.trials[0].runs[0].digest: b"outputs"}


def test_mutants_raise_nothing_but_format_errors():
    for data in mutants(example(), 2000, seed=1):
        with_typed_errors(data)


def test_forged_files_raise_nothing_but_format_errors():
    generator = random.Random(2)
    for _ in range(1000):
        with_typed_errors(resealed(example(), generator))


def with_typed_errors(data: bytes) -> None:
    try:
        found = read_evidence(data)
    except FormatError:
        return
    verdicts(found)


@pytest.mark.parametrize("line", [
    b"[" * 100_000, b'{"a": ' * 50_000, b"9" * 10_000, b"\xff\xfe", b"NaN", b'{"__class__": "os.system"}', b""])
def test_lines_that_are_no_record_are_refused(line):
    first, *_ = example().split(b"\n")
    with pytest.raises(FormatError):
        read_evidence(first + b"\n" + line + b"\n{}\n")


def test_a_file_beyond_its_bounds_is_refused_before_it_is_looked_at():
    with pytest.raises(FormatError, match="at most"):
        read_evidence(b"x" * (LARGEST + 1))


def test_outputs_that_unpack_to_more_than_allowed_are_refused():
    lines = [json.loads(line) for line in example().splitlines()]
    bomb = base64.b64encode(zlib.compress(bytes(1 << 26), 9)).decode()
    name = next(iter(lines[1]["contents"]))
    lines[1]["contents"][name] = bomb
    with pytest.raises(FormatError, match="digest says"):
        write_evidence({key: value for key, value in lines[0].items() if key not in ("format", "version")}, lines[1:-1])


@pytest.mark.parametrize("text", ["/somewhere/else", "C:\\Users", "~root", "tab\there", "x" * 300])
def test_nothing_about_the_machine_looks_like_a_path(text):
    lines = [json.loads(line) for line in example().splitlines()]
    head = {key: value for key, value in lines[0].items() if key not in ("format", "version")}
    head["about"]["description"] = text
    with pytest.raises(FormatError):
        write_evidence(head, lines[1:-1])
