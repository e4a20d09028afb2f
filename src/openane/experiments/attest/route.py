"""Ways to an engine for experiments: a device that takes programs, or Apple's compiler, which runs nothing."""

from __future__ import annotations

import platform as python_platform
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from openane.chips import compiled_generations
from openane.chips.machines import chips_of, find
from openane.devices import Device, Executable, open_device
from openane.devices.macos.apple_compiler import compile_by_apple
from openane.devices.macos.graph_program import dialect, graph_program
from openane.devices.options import parts
from openane.errors import AneError, BudgetExhausted, DeviceError, DeviceHung, DeviceRejected, UnsupportedError
from openane.experiments.outcome import Ending, Run, Shown, digest, packed
from openane.experiments.programs import decoys, inputs_of, model_of, program_digest, program_of, words_content
from openane.experiments.record import Experiment, Kind, Trial
from openane.formats.hwx import read_hwx
from openane.simulator.variation import STANDARD
from openane.timing import SubmissionRoute
from openane.version import __version__

DEFAULT_CHIP = "m1"
SIMULATED = "simulated"
"""What a file says of an engine that is none; it proves nothing."""
COMPILER = "apple-compiler"
"""The name of the route that asks Apple's compiler."""
ENOUGH, MOST = 3, 6
"""Runs of a trial that ended as they should, and runs at most."""
DEVICE_TREE = Path("/proc/device-tree/compatible")
TREES = {"apple,t8103": "m1", "apple,t6000": "m1 pro", "apple,t6001": "m1 max", "apple,t6002": "m1 ultra"}
"""Chips by what the device tree calls them."""
Text = dict[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """What experiments are run on: `about` is everything that the file will say of the machine."""

    device: str
    generation: str
    chip: str
    route: SubmissionRoute
    about: Text

    @property
    def compiler(self) -> bool:
        """Whether nothing is run, and Apple's compiler is asked."""
        return self.device.partition("?")[0] == COMPILER

    def kinds(self) -> tuple[Kind, ...]:
        """The experiments it can carry."""
        return (Kind.WORDS,) if self.compiler else (Kind.VALUES, Kind.TIMES, Kind.INTERFACE)


def find_place(device: str, chip: str = "", generation: str = "") -> Place:
    """The place behind a device name (`linux:0`, `macos?route=precompiled`), or of Apple's compiler
    (`apple-compiler`), for `generation` where it is asked for several. DeviceError where experiments cannot be run
    there."""
    about: Text = {"openane": __version__, "system": python_platform.system(), "release": python_platform.release(),
                   "processor": python_platform.machine(), "python": python_platform.python_version()}
    if device.partition("?")[0] == COMPILER:
        return _compiler(device, chip, generation, about)
    kind = parts(device)[0]
    if kind not in ("linux", "macos"):
        raise DeviceError(f"{device[:80]!r} is no engine: experiments run on linux:0, macos?route=precompiled, or "
                          f"{COMPILER}")
    with open_device(device) as opened:
        info = opened.info
    if "program" not in info.takes:
        raise DeviceError(f"{info.name} takes graphs, and experiments are engine programs: use route=precompiled, or "
                          f"{COMPILER}, which runs nothing")
    found = info.chip if info.chip in compiled_generations() else generation
    name = chip or _soc(info.description) or _first_chip(found)
    found = found or find(name).generation
    if find(name).generation != found:
        raise DeviceError(f"the engine is {found}, and {name} has {find(name).generation}: name its chip with --chip")
    route = SubmissionRoute.LINUX if kind == "linux" else SubmissionRoute.MACOS
    return Place(device, found, name, route,
                 about | {"device": info.name.partition("?")[0], "description": _public(info.description),
                          "engine": "real" if info.engine else SIMULATED})


def _compiler(device: str, chip: str, generation: str, about: Text) -> Place:
    target = generation or find(chip or DEFAULT_CHIP).generation
    return Place(device, target, chip or chips_of(target)[0].name, SubmissionRoute.MACOS,
                 about | {"device": COMPILER, "description": "Apple's compiler; nothing is run",
                          "engine": SIMULATED if "runtime=simulated" in device else "none"})


def _first_chip(generation: str) -> str:
    """The chip of a generation that a computer is likely to have."""
    return next((soc.name for soc in chips_of(generation) if soc.name.startswith("m")), DEFAULT_CHIP)


def _soc(description: str) -> str:
    """The chip, where the machine tells."""
    with suppress(OSError):
        for word in DEVICE_TREE.read_bytes().decode(errors="replace").split("\0"):
            if word in TREES:
                return TREES[word]
    for word in description.replace(",", " ").split("Apple ")[1:]:
        with suppress(UnsupportedError):
            return find(word.partition(" ")[0]).chips[0].name
    return ""


def _public(description: str) -> str:
    """A description without what looks like a path."""
    return " ".join(word for word in description.split() if "/" not in word)[:200]


class TrialRunner:
    """Runs trials on a place. The device stays open from trial to trial."""

    def __init__(self, place: Place) -> None:
        """Nothing is opened yet."""
        self._place = place
        self._device: Device | None = None

    def run_trial(self, experiment: Experiment, trial: Trial) -> Shown:
        """Runs a trial until `ENOUGH` runs ended as runs should, at most `MOST` times; never again after a hang."""
        program = program_digest(experiment, trial, self._place.generation)
        found: list[Run] = []
        contents: dict[str, bytes] = {}
        with ExitStack() as held:
            once = self._attempt(experiment, trial, held)
            while sum(run.ending is Ending.DONE for run in found) < ENOUGH and len(found) < MOST:
                run, content = once()
                found.append(run)
                if content:
                    contents[run.digest] = content
                if run.ending is Ending.HUNG:
                    break
        return Shown(experiment.name, trial.name, program, tuple(found), contents)

    def close(self) -> None:
        """Closes the device."""
        device, self._device = self._device, None
        if device is not None:
            device.close()

    def _attempt(self, experiment: Experiment, trial: Trial, held: ExitStack) -> Callable[[], tuple[Run, bytes]]:
        """A run that can be asked for again."""
        timed = experiment.kind is Kind.TIMES
        loaded: list[Executable] = []

        def once() -> tuple[Run, bytes]:
            try:
                if self._place.compiler:
                    content, seconds = self._stated(trial), 0.0
                else:
                    content, seconds = self._executed(trial, loaded, held, experiment.kind is Kind.VALUES)
            except (DeviceRejected, UnsupportedError, BudgetExhausted):
                return Run(Ending.REFUSED), b""
            except DeviceHung:
                return Run(Ending.HUNG), b""
            except AneError:
                return Run(Ending.FAILED), b""
            return Run(Ending.DONE, "" if timed else digest(content), seconds), b"" if timed else content
        return once

    def _executed(self, trial: Trial, loaded: list[Executable], held: ExitStack, mislead: bool) -> tuple[bytes, float]:
        verified = program_of(trial, self._place.generation)
        if not loaded:
            self._device = self._device or open_device(self._place.device)
            loaded.append(held.enter_context(self._device.load(verified)))
        for _ in range(decoys(verified.program) if mislead else 0):
            _again(lambda: loaded[0].run(inputs_of(trial, verified.program, decoy=True)))
        outputs = loaded[0].run(inputs_of(trial, verified.program))
        return packed(outputs), loaded[0].report.seconds

    def _stated(self, trial: Trial) -> bytes:
        """What Apple's compiler states in the trial's fields."""
        options = parts(self._place.device)[2]
        model = model_of(trial, self._place.generation)
        made = compile_by_apple(graph_program(model, dialect(options.get("version", "26.0"))), self._place.generation,
                                runtime=options.get("runtime", "system"), inject=options.get("inject", ""))
        return words_content(read_hwx(made), trial.fields, STANDARD)


def _again(run: Callable[[], object]) -> None:
    """Runs until it succeeds, a few times at most. DeviceHung at once."""
    for _ in range(MOST):
        try:
            run()
        except DeviceHung:
            raise
        except DeviceError:
            continue
        return


__all__ = ["COMPILER", "ENOUGH", "MOST", "SIMULATED", "Place", "TrialRunner", "find_place"]
