"""What leaves the repository: completion, manual pages, the version, and what the workflows ask make for."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from openane.cli import VERBS, main
from openane.cli.completion import INSTALLED, completion
from openane.cli.parsers import verb_parser
from openane.version import __version__

ROOT = Path(__file__).parents[2]


def module_at(path: Path) -> ModuleType:
    """A file of the repository that no package holds, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def long_options(verb: str) -> set[str]:
    """What `ane VERB --help` shows: options whose help is not suppressed."""
    return {option for action in verb_parser(verb)._actions if action.help != argparse.SUPPRESS
            for option in action.option_strings if option.startswith("--")}


@pytest.mark.parametrize("shell", INSTALLED)
def test_completion_knows_every_verb_and_option(shell: str) -> None:
    text = completion(shell)
    for verb in VERBS:
        assert verb in text
        missing = {option for option in long_options(verb) if option.removeprefix("--") not in text}
        assert not missing, f"{shell} does not complete {missing} of ane {verb}"


def test_bash_completes_a_verb_and_its_option(tmp_path: Path) -> None:
    script = tmp_path / "ane.bash"
    script.write_text(completion("bash"))
    function = re.findall(r"complete .*-F (\S+)", script.read_text())[0]
    for words, found in ((("ane", "ver"), "verify"), (("ane", "verify", "--js"), "--json")):
        lines = (f"source {script}", f"COMP_WORDS=({' '.join(words)})", f"COMP_CWORD={len(words) - 1}",
                 f"{function} ane {words[-1]} {words[-2]}",
                 'echo "${COMPREPLY[@]}"')
        made = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
        assert found in made.stdout.split()


def test_an_unknown_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcl"]) == 2
    assert "bash" in capsys.readouterr().err


def test_every_verb_has_a_manual_page_with_its_options() -> None:
    pages = module_at(ROOT / "hatch_build.py")._manual_pages()
    assert set(pages) == {f"share/man/man1/{name}.1" for name in ("ane", *(f"ane-{verb}" for verb in VERBS))}
    for verb in VERBS:
        text = pages[f"share/man/man1/ane-{verb}.1"].replace("\\-", "-")
        assert VERBS[verb] in text
        missing = {option for option in long_options(verb) - {"--help"} if option not in text}
        assert not missing, f"the page of ane {verb} lacks {missing}"


def test_the_first_page_names_those_of_the_verbs_and_repeats_none() -> None:
    page = module_at(ROOT / "hatch_build.py")._manual_pages()["share/man/man1/ane.1"]
    for verb, line in VERBS.items():
        assert f".BR ane\\-{verb} (1)\n{line}\n".replace("-", "\\-").replace("\\\\-", "\\-") in page
    assert "optimise" not in page
    assert "completion of ane" in page


def test_manual_pages_have_no_date() -> None:
    page = module_at(ROOT / "hatch_build.py")._manual_pages()["share/man/man1/ane-info.1"]
    assert page.startswith(f'.TH ANE\\-INFO "1" "" "openane {__version__}" "OpenANE"')


def test_the_version_is_stated_once_and_cited() -> None:
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_workflows_call_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {target for path in (ROOT / ".github/workflows").glob("*.yml")
              for target in re.findall(r"\bmake ([a-z-]+)", path.read_text())}
    assert called
    assert called <= targets


def test_a_wheel_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    release = module_at(ROOT / "packaging/release.py")
    inside = tmp_path / "openane-1-py3-none-any"
    for name in ("openane/a.py", "openane-1.dist-info/RECORD", "openane-1.data/data/share/man/man1/ane-compile.1"):
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_text("")
    wheel = tmp_path / "openane-1-py3-none-any.whl"

    def packed() -> Path:
        return Path(shutil.make_archive(str(inside), "zip", inside)).rename(wheel)

    release.check_contents(packed())
    for stray in ("tests/test_a.py", "openane/weights.bin"):
        path = inside / stray
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        with pytest.raises(release.Failed, match=stray):
            release.check_contents(packed())
        path.unlink()


def test_an_extra_without_a_wheel_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    """A package with no wheel for one Python leaves the others to be tried; with none at all it is a failure."""
    release, tried = module_at(ROOT / "packaging/release.py"), []

    def found(python: str, wheel: Path, extras: tuple[str, ...]) -> None:
        if python in lacking and "fast" in extras:
            raise release.NoWheelError("numba>=0.61")
        tried.append((python, extras))

    monkeypatch.setattr(release, "try_extras", found)
    wanted, lacking = [("cli",), ("fast",), ("cli", "fast")], {"b"}
    left_out = release.try_every(["a", "b"], tmp_path, wanted)
    assert tried == [("a", each) for each in wanted] + [("b", ("cli",)), ("b", ("cli",))]
    assert left_out == ["fast on b (numba>=0.61)"]
    assert "b, extra fast: left out, as numba>=0.61 has no wheel for it" in capsys.readouterr().out
    lacking.add("a")
    with pytest.raises(release.Failed, match="fast cannot be installed on any Python"):
        release.try_every(["a", "b"], tmp_path, wanted)


def test_what_pip_says_of_a_missing_wheel_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = module_at(ROOT / "packaging/release.py")
    said = ("ERROR: Could not find a version that satisfies the requirement numba>=0.61; extra == \"fast\" (from "
            "openane[fast]) (from versions: none)\nERROR: No matching distribution found for numba>=0.61; extra == ...")

    def failing(command: list[str], *_: object, **__: str) -> str:
        if "pip" in command:
            raise release.Failed(f"pip ended with 1:\n{said}")
        return ""

    monkeypatch.setattr(release, "run", failing)
    with pytest.raises(release.NoWheelError, match=r"^numba>=0\.61$"):
        release.installed("python3", "openane[fast]", tmp_path)
    said = "ERROR: ResolutionImpossible"
    with pytest.raises(release.Failed, match="ResolutionImpossible"):
        release.installed("python3", "openane[fast]", tmp_path)


def test_every_extra_for_users_is_tried_by_its_use() -> None:
    release, extras = (module_at(ROOT / f"packaging/{name}.py") for name in ("release", "extras"))
    assert set(extras.TRIED) == release.every_extra().keys() - set(release.DEVELOPMENT)
