"""Whether attesting finds what is true of an engine: every hypothesis of every experiment, planted in turn.

    python benchmarks/planted.py [--route linux|macos|compiler] [--chip m4] [--only NAME] [--plain]

`linux` is the simulated driver, `macos` the stand-in's precompiled route, `compiler` the stand-in of Apple's compiler,
which is given a file whose tasks state what the hypothesis says. Without --plain times scatter by 5 % and one run in
ten fails. Prints what was not found, and how many were.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.planted_engines import NOISE, linux, macos, stated, verdict

from openane.chips.machines import find
from openane.devices.macos import apple_compiler
from openane.devices.macos.graph_program import dialect, graph_program
from openane.experiments import Experiment, Hypothesis, Kind, experiments
from openane.experiments.attest.route import COMPILER
from openane.experiments.programs import model_of
from openane.formats.hwx import write_hwx


def planted_files(experiment: Experiment, hypothesis: Hypothesis, generation: str, folder: Path) -> None:
    """What Apple's compiler would write for each trial if the hypothesis were true."""
    for trial in experiment.trials:
        text = graph_program(model_of(trial, generation), dialect("26.0")).text.encode()
        name = f"{hashlib.sha256(text).hexdigest()[:16]}-{generation}.hwx"
        (folder / name).write_bytes(write_hwx(stated(trial, hypothesis, generation), "macos26"))


def ask_here(_name: str, folder: Path, _timeout: float) -> None:
    """Has the stand-in of Apple's compiler compile in this process; one for every question takes seconds."""
    apple_compiler.serve(str(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--route", choices=("linux", "macos", "compiler"), default="linux")
    parser.add_argument("--chip", default="m1")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    generation, noise = find(options.chip).generation, "" if options.plain else NOISE
    chosen = [each.name for each in experiments()]
    found = missed = 0
    apple_compiler._ask = ask_here
    for experiment in experiments():
        carried = (experiment.kind is Kind.WORDS) is (options.route == "compiler")
        if not carried or generation not in experiment.asked_of or experiment.name not in (options.only or chosen):
            continue
        for number, hypothesis in enumerate(experiment.hypotheses):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                if options.route == "compiler":
                    planted_files(experiment, hypothesis, generation, folder)
                    inject = quote(f"hwx={folder}")
                    said = verdict(f"{COMPILER}?runtime=simulated&inject={inject}", experiment, folder, options.chip)
                else:
                    device = linux(hypothesis.engine, noise, number) if options.route == "linux" else \
                        macos(hypothesis.engine, options.chip, noise, number)
                    said = verdict(device, experiment, folder)
            found += said.named == hypothesis.name
            if said.named != hypothesis.name:
                missed += 1
                print(f"{experiment.name}: {hypothesis.name!r} is true, {said.named or 'nothing'!r} is named "
                      f"{said.why_not}", flush=True)
    print(f"{options.route}, {options.chip}: {found} hypotheses of {found + missed} found")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
