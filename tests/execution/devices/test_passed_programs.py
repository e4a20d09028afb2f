"""Programs that passed the verifier on this machine: which are known again, and which never are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.verifier_programs import base_programs

import openane as ane
import openane.program.verify as verifier
from openane.cache import VARIABLE, Cache
from openane.cli import main, passed_programs
from openane.cli.passed_programs import PassedPrograms
from openane.errors import VerifyError
from openane.program import Program
from openane.program.verify import verify


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own cache."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Program]]:
    """The programs of which rules were asked."""
    seen: list[Program] = []
    ask = verifier._violations
    monkeypatch.setattr(verifier, "_violations", lambda context: (seen.append(context.program), ask(context))[1])
    return seen


@pytest.fixture
def program() -> Program:
    return base_programs()["convolution"]


def test_rules_are_asked_once_of_a_program(folder: Path, asked: list[Program], program: Program) -> None:
    first, second = (verify(program, PassedPrograms()) for _ in range(2))
    assert len(asked) == 1
    assert second.digest == first.digest
    assert second.operations == first.operations


def test_whatever_differs_is_another_program(folder: Path, asked: list[Program], program: Program) -> None:
    verify(program, PassedPrograms())
    buffer = program.buffers[0]
    others = (replace(program, constants=bytes(program.constants) + bytes(64)),
              replace(program, buffers=(replace(buffer, size=buffer.size + 64), *program.buffers[1:])),
              replace(program, tasks=tuple(replace(task, offset=task.offset + 0x100) for task in program.tasks)))
    for other in others:
        with_rules = len(asked)
        with contextlib.suppress(VerifyError):
            verify(other, PassedPrograms())
        assert len(asked) == with_rules + 1


def test_what_was_refused_is_refused_again(folder: Path, program: Program) -> None:
    small = replace(program, buffers=tuple(replace(buffer, size=1, layout=None) for buffer in program.buffers))
    for _ in range(2):
        with pytest.raises(VerifyError):
            verify(small, PassedPrograms())


def test_another_verifier_asks_again(folder: Path, asked: list[Program], program: Program,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    verify(program, PassedPrograms())
    monkeypatch.setattr(passed_programs, "source_digest", lambda rooms: "another")
    verify(program, PassedPrograms())
    assert len(asked) == 2


def test_an_entry_speaks_for_its_own_program_alone(folder: Path, asked: list[Program], program: Program) -> None:
    verify(program, PassedPrograms())
    other = replace(program, constants=bytes(program.constants) + bytes(64))
    [entry] = Cache().entries()
    Cache().put(passed_programs._key(verifier.digest(other)), Cache().get(entry.key) or {})
    verify(other, PassedPrograms())
    assert len(asked) == 2


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_others_may_write_to_is_not_believed(folder: Path, asked: list[Program], program: Program,
                                                      mode: int) -> None:
    verify(program, PassedPrograms())
    folder.chmod(mode)
    verify(program, PassedPrograms())
    assert len(asked) == 2


def test_the_command_knows_what_it_ran_before(folder: Path, asked: list[Program], tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openane.devices.simulator.WORTH", 1)
    digits = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
    file = tmp_path / "digits.ane"
    ane.compile(ane.load_graph(digits)).save(file)
    assert [main(["run", str(file), *more]) for more in ([], [], ["--no-cache"])] == [0, 0, 0]
    assert len(asked) == 2
    assert main(["run", str(file), "--device", "linux?driver=simulated"]) == 0
    assert len(asked) > 2
