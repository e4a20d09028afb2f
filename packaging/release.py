"""What `make release` does: builds wheel and sdist, checks them, and tries the wheel where nothing else is installed.

    python packaging/release.py [--python python3.12]... [--extras all|light|none|NAMES]... [--output dist]
    python packaging/release.py --wheel openane-1.0-py3-none-any.whl     # no build: elsewhere, a wheel made here

1. Wheel and sdist are built twice, from the time of the newest commit, and must be the same bytes.
2. `twine check --strict`; the wheel holds the package, completion of shells and manual pages, and nothing else.
3. On every Python from 3.11 on that is found (or those of --python), the wheel alone is installed into a fresh
   environment: importing it needs numpy alone, and every command that needs no extra does what it should.
4. On each of them, each extra is installed into an environment of its own, then all together, where the demo runs and
   every command answers. packaging/extras.py uses what an extra brings. `light` leaves out extras with PyTorch or an
   MPI, `none` all of them; of extras that are named (A,B go into one environment) only these are tried.

Only wheels are installed. Where a package has none for a Python, its extra is left out there, which is said; one that
is left out on every Python is a failure. pip's own variables count: with PIP_CONSTRAINT a file can ask for a build of
PyTorch without CUDA; all extras are 2.3 GB then instead of 7. Sizes and times of import are printed. Exit code 1 where
anything fails, with what the failing command printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parent.parent
MODEL = Path(__file__).with_name("model.mil")
EXTRAS = Path(__file__).with_name("extras.py")
LARGEST_WHEEL = 1_500_000
"""Bytes a core wheel should have at most; a larger one is said, as its size is no fault of the build. Of 2.26 MB 1,105
modules that are deflated one by one are 1.96, the archive's own headers 0.16, digests 0.05, completion and manual pages
0.05, pages for browsers 0.03. What compresses better and pip reads saves 0.1 % (zlib's level 9) to 2.6 % (zopfli, in 40
s), and only all files in one, 1.2 MB as LZMA, would be small enough, which a wheel cannot be."""
PYTHONS = tuple(f"python3.{minor}" for minor in range(11, 20))
HEAVY = ("mpi", "pretrained", "torch")
"""Extras that bring PyTorch, or are compiled against an MPI of the system."""
DEVELOPMENT = ("dev", "docs", "full", "release")
CORE = (
    "--version", "chips", "ops", "devices", "doctor", "cache", "completion bash",
    "compile model.mil -o model.hwx", "info model.hwx", "dis model.hwx -o model.ane.s",
    "asm model.ane.s -o again.hwx", "diff model.hwx again.hwx", "verify model.hwx", "run model.hwx", "run model.mil",
    "profile model.hwx", "explain model.mil", "check model.mil", "compile model.mil --target all -o model.ane",
    "info model.ane",
)
"""Commands that need no extra, in an order in which each finds its files."""
HELP = """
from openane.cli import VERBS
from openane.cli.parsers import verb_parser
for verb in VERBS:
    assert verb_parser(verb).format_help()
print(*VERBS)
"""
"""Code that prints every verb once its help is there."""


NO_WHEEL = re.compile(r"^ERROR: No matching distribution found for ([^;\s]+)", re.MULTILINE)
"""What pip prints of a package that has no wheel for a Python."""


class Failed(Exception):
    """A step that failed, with what it printed."""


class NoWheelError(Exception):
    """A package, named by the text, that has no wheel for a Python."""


def main() -> int:
    """Goes through the steps; 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", metavar="PYTHON", help="try it on this one; may be repeated")
    parser.add_argument("--extras", action="append", metavar="EXTRAS",
                        help="all (the default), light, none, or names; may be repeated")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--wheel", type=Path, help="try this wheel instead of building one")
    options = parser.parse_args()
    pythons = options.python or list(found_pythons())
    try:
        named = named_extras(options.extras or ["all"])
        wheel = options.wheel.resolve() if options.wheel else built(options.output)
        check_contents(wheel)
        say(f"Trying {wheel.name} on {', '.join(pythons)}")
        for python in pythons if named is None else ():
            try_core(python, wheel)
        left_out = try_every(pythons, wheel, named or wanted_extras(options.extras[0] if options.extras else "all"))
    except (Failed, NoWheelError) as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    say("Everything passed" + (f", but for what has no wheel: {'; '.join(left_out)}" if left_out else ""))
    return 0


def built(output: Path) -> Path:
    """The wheel, beside the sdist in `output`, once two builds made the same bytes and twine found no fault."""
    say("Building twice")
    moment = run(["git", "log", "-1", "--format=%ct"]).strip()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second"):
            run([sys.executable, "-m", "build", "--outdir", f"{folder}/{name}", "."], SOURCE_DATE_EPOCH=moment)
        first, second = ({path.name: path.read_bytes() for path in sorted(Path(folder, name).iterdir())}
                         for name in ("first", "second"))
    for name, data in first.items():
        if second.get(name) != data:
            raise Failed(f"{name}: two builds of one commit differ")
        output.mkdir(parents=True, exist_ok=True)
        (output / name).write_bytes(data)
        say(f"  {name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")
    run([sys.executable, "-m", "twine", "check", "--strict", *(str(output / name) for name in first)])
    wheel = next(output / name for name in first if name.endswith(".whl"))
    if wheel.stat().st_size > LARGEST_WHEEL:
        say(f"  the wheel is larger than the {LARGEST_WHEEL:,} bytes that were aimed at")
    return wheel


def check_contents(wheel: Path) -> None:
    """Holds the wheel to what may be in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    stem = wheel.name.removesuffix("-py3-none-any.whl")
    allowed = ("openane/", f"{stem}.dist-info/", f"{stem}.data/data/share/")
    stray = [name for name in names if not name.startswith(allowed) or "test" in name.split("/")[1]]
    package = [name for name in names if name.startswith("openane/")
               and not name.endswith((".py", "py.typed", ".c", ".h", ".m", ".html", ".css", ".js", ".json"))]
    if stray or package:
        raise Failed(f"{wheel.name} holds what it should not: {', '.join((stray + package)[:5])}")
    if not any(name.endswith("man1/ane-compile.1") for name in names):
        raise Failed(f"{wheel.name} holds no manual page of ane compile")
    say(f"  {len(names)} files: the package, completion of shells and manual pages")


def try_core(python: str, wheel: Path) -> None:
    """The wheel alone: what it imports, and its commands."""
    with tempfile.TemporaryDirectory() as folder:
        binaries = installed(python, str(wheel), Path(folder))
        listed = run([str(binaries / "python"), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"])
        names = {line.partition("==")[0] for line in listed.split()} - {"pip", "setuptools"}
        if names != {"numpy", "openane"}:
            raise Failed(f"{python}: the wheel alone brings {', '.join(sorted(names))}; it should bring numpy")
        took = import_time(binaries)
        commands(binaries, Path(folder), CORE)
        say(f"  {python}, no extras: {len(CORE)} commands, import openane {took:.0f} ms")


def try_every(pythons: Sequence[str], wheel: Path, wanted: Sequence[tuple[str, ...]]) -> list[str]:
    """Tries extras on every Python; those that were left out. Failed where one is left out on all of them."""
    left_out: dict[str, list[str]] = {}
    for python in pythons:
        missing: set[str] = set()
        for extras in wanted:
            here = tuple(name for name in extras if name not in missing)
            try:
                if here:
                    try_extras(python, wheel, here)
            except NoWheelError as error:
                say(f"  {python}, {plural(here)}: left out, as {error} has no wheel for it")
                missing |= set(here) if len(here) == 1 else set()
                left_out.setdefault(",".join(here), []).append(f"{python} ({error})")
    for names, places in left_out.items():
        if len(places) == len(pythons):
            raise Failed(f"{names} cannot be installed on any Python that was tried: {', '.join(places)}")
    return [f"{names} on {', '.join(places)}" for names, places in left_out.items()]


def try_extras(python: str, wheel: Path, extras: Sequence[str]) -> None:
    """The wheel with extras: each does what it is for, the commands work; several together run the demo as well."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        binaries = installed(python, f"{wheel}[{','.join(extras)}]", Path(folder))
        size = sum(path.lstat().st_size for path in Path(folder).rglob("*"))
        commands(binaries, Path(folder), CORE)
        every = run([str(binaries / "python"), "-c", HELP]).split()
        run([str(binaries / "python"), str(EXTRAS), *extras], Path(folder) / "work",
            XDG_CACHE_HOME=f"{folder}/cache", PATH=f"{binaries}{os.pathsep}{os.environ['PATH']}")
        demo = ""
        if len(extras) > 1 and "onnx" in extras:
            run([str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 "onnxruntime", "scikit-learn"])  # what the demo compares with
            run([str(binaries / "python"), str(ROOT / "examples/digits/demo.py")], folder)
            demo = ", and the demo"
        say(f"  {python}, {plural(extras)}{demo}: {len(CORE)} commands, help of {len(every)}, and its use; "
            f"{size / 1e6:,.0f} MB installed, {time.perf_counter() - start:.0f} s")


def plural(extras: Sequence[str]) -> str:
    """One extra by its name, several by their number."""
    return f"extra {extras[0]}" if len(extras) == 1 else f"{len(extras)} extras together"


def every_extra() -> dict[str, list[str]]:
    """What each extra installs."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, list[str]] = tomllib.load(file)["project"]["optional-dependencies"]
    return found


def named_extras(stated: Sequence[str]) -> list[tuple[str, ...]] | None:
    """The extras of each environment where they are stated by name; None for a word for many. Failed for others."""
    if len(stated) == 1 and stated[0] in ("all", "light", "none"):
        return None
    found = [tuple(names.split(",")) for names in stated]
    if unknown := {name for names in found for name in names} - every_extra().keys():
        raise Failed(f"no extra is called {', '.join(sorted(unknown))}; there are {', '.join(every_extra())}")
    return found


def wanted_extras(which_ones: str) -> list[tuple[str, ...]]:
    """Each extra a user may ask for, then all of them."""
    every = every_extra()
    left_out = {"all": DEVELOPMENT, "light": (*DEVELOPMENT, *HEAVY), "none": tuple(every)}[which_ones]
    names = [name for name in every if name not in left_out]
    together = tuple(name for name in names if name != "mpi")
    return [*((name,) for name in names), *([together] if together else [])]


def found_pythons() -> Iterator[str]:
    """Interpreters from 3.11 on that are on the path and start."""
    for name in PYTHONS:
        if which(name) and subprocess.run([name, "-c", ""], capture_output=True, check=False).returncode == 0:
            yield name


def installed(python: str, requirement: str, folder: Path) -> Path:
    """The folder of programs of a new environment that has the requirement. NoWheelError names what has no wheel."""
    run([python, "-m", "venv", str(folder / "venv")])
    binaries = folder / "venv" / "bin"
    try:
        run([str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--only-binary", ":all:", requirement])
    except Failed as failure:
        if missing := NO_WHEEL.search(str(failure)):
            raise NoWheelError(missing[1]) from None
        raise
    return binaries


def commands(binaries: Path, folder: Path, lines: Sequence[str]) -> None:
    """Runs `ane` with each line in a folder of its own that has a model."""
    place = folder / "work"
    place.mkdir(exist_ok=True)
    (place / MODEL.name).write_bytes(MODEL.read_bytes())
    for line in lines:
        run([str(binaries / "ane"), *shlex.split(line)], place, XDG_CACHE_HOME=str(folder / "cache"))


def import_time(binaries: Path) -> float:
    """Milliseconds of `import openane` beyond starting Python: the least of five."""
    took = []
    for code in ("pass", "import openane"):
        moments = []
        for _ in range(5):
            start = time.perf_counter()
            run([str(binaries / "python"), "-c", code])
            moments.append(time.perf_counter() - start)
        took.append(min(moments))
    return 1e3 * (took[1] - took[0])


def run(command: Sequence[str], folder: str | Path = ROOT, **variables: str) -> str:
    """What a command prints. Raises Failed, with the end of it, when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=folder, env=environment | variables, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise Failed(f"{shlex.join(command)} ended with {done.returncode}:\n{last}")
    return done.stdout


def say(text: str) -> None:
    """Prints a line at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
