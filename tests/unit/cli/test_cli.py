"""The command line: exit statuses, where text goes, and that nothing ends in a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import openane
from openane.cli import FAILED, PIPE_CLOSED, USAGE, VERBS, main
from openane.cli.parsers import verb_parser
from openane.errors import VerifyError

SOURCE = Path(openane.__file__).parents[1]
WITHOUT_NUMPY = "import sys; sys.modules['numpy'] = None; from openane.cli import main; sys.exit(main(sys.argv[1:]))"


def ane(*arguments: str | Path, code: str | None = None) -> subprocess.CompletedProcess[str]:
    start = ["-c", code] if code else ["-m", "openane"]
    return subprocess.run([sys.executable, *start, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False)


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert f"ane {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["disassemble"], ["dis"], ["--what"], ["info", "--yaml", "x"]])
def test_wrong_usage_is_status_2_and_says_so_on_stderr(arguments: list[str],
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == USAGE
    captured = capsys.readouterr()
    assert not captured.out
    assert "usage: ane" in captured.err


def test_a_misspelt_verb_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complie", "x.onnx"]) == USAGE
    assert "did you mean 'compile'" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "meant"), [(["compile", "m.onnx", "--optimize", "2"], "--optimise"),
                                                  (["check", "m.onnx", "--sampel", "x"], "--sample"),
                                                  (["profile", "m.onnx", "--preccision=safe"], "--precision")])
def test_a_misspelt_option_gets_a_suggestion_in_three_lines(arguments: list[str], meant: str,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == USAGE
    usage, error, hint = capsys.readouterr().err.splitlines()
    assert usage.startswith(f"usage: ane {arguments[0]} [options] ")
    assert error.endswith(f"; did you mean {meant}?")
    assert f"ane {arguments[0]} --help" in hint


def test_a_report_is_asked_for_by_either_name() -> None:
    for verb in ("check", "compile", "profile"):
        parse = verb_parser(verb).parse_args
        assert parse(["m", "--html", "r.html"]) == parse(["m", "--page", "r.html"])


def test_a_refusal_of_many_reasons_fits_a_screen() -> None:
    error = VerifyError([f"reason {number}" for number in range(1000)], hint="look")
    assert len(error.violations) == 1000
    lines = str(error).splitlines()
    assert lines[-2:] == ["  and 990 more, which 'ane verify' lists", "hint: look"]
    assert len(lines) < 24


@pytest.mark.parametrize("verb", ["info", "dis", "compile", "run"])
@pytest.mark.parametrize("content", [None, b"", b"\xce\xfa\xef\xbe", b"\0" * 5000, b"not a model at all\n"])
def test_files_that_cannot_be_read_are_one_line_of_error(verb: str, content: bytes | None, tmp_path: Path,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file.bin"
    if content is not None:
        file.write_bytes(content)
    assert main([verb, str(file)]) == FAILED
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err.startswith("ane: error: ")
    assert "Traceback" not in captured.err


def test_apple_programs_are_described(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(corpus / "apple/anec/softmax.anec"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    program = document["programs"][0]
    assert (document["kind"], program["chip"], program["tasks"]) == ("anec", "h13", 5)
    assert [b["role"] for b in program["buffers"]] == ["scratch", "output", "input"]
    assert main(["info", str(corpus / "apple/hwx/concat.hwx")]) == 0
    text = capsys.readouterr().out
    assert "2 PassThrough" in text
    assert "zin_ane_compiler v4.2.1" in text


def test_disassembly_can_be_written_to_a_file(corpus: Path, tmp_path: Path,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    program, target = corpus / "apple/hwx/conv.hwx", tmp_path / "conv.s"
    assert main(["dis", str(program)]) == 0
    printed = capsys.readouterr().out
    assert main(["dis", str(program), "-o", str(target)]) == 0
    assert not capsys.readouterr().out
    assert target.read_text() == printed
    assert printed.startswith("openane 1 hwx h13\n")
    assert "; Convolution 1x1: image 1x3x1x1 -> probs@output 1x3x1x1" in printed


@pytest.mark.parametrize("verb", ["info", "dis"])
def test_looking_into_programs_needs_no_numpy(verb: str, corpus: Path) -> None:
    result = ane(verb, corpus / "apple/hwx/conv.hwx", code=WITHOUT_NUMPY)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_reader_that_leaves_is_no_error(corpus: Path) -> None:
    command = [sys.executable, "-m", "openane", "dis", str(corpus / "apple/anec/softmax.anec")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                          pipesize=4096,  # smaller than the listing, so that it cannot all be written before
                          env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(20)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == PIPE_CLOSED


def test_a_warning_says_what_it_warns_of_and_not_which_line_does() -> None:
    result = ane(code="import sys, warnings; import openane.cli.ops as ops; from openane.cli import main\n"
                      "ops.run = lambda options: warnings.warn('rows hold\\x1b -1', RuntimeWarning) or 0\n"
                      "sys.exit(main(['ops']))")
    assert (result.returncode, result.stderr) == (0, "ane: warning: rows hold\\x1b -1\n")


def test_evidence_of_nothing_is_told_what_it_wants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence"]) == 1
    assert "hint: name files of ane attest, or --facts" in capsys.readouterr().err
