"""The configuration of a training: a TOML file, read whole and checked before anything else happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from openane.chips import DEFAULT_TARGET, machines
from openane.configuration import as_table, read, read_choice, within
from openane.errors import FormatError
from openane.training.data import SOURCES, DataSource
from openane.training.networks import NETWORKS, Description
from openane.training.optimisers import OPTIMISERS, Optimiser
from openane.training.runners import ROUTES
from openane.training.scaling import Scaling
from openane.training.schedules import SCHEDULES, ConstantSchedule, Schedule

Table = Mapping[str, Any]
REFERENCE = "reference"
"""The device that is none: graphs are evaluated in fp32 on the host."""


@dataclass(frozen=True)
class RunSettings:
    """[training]: how long, in which portions. `micro_batch` examples are computed at a time and `batch` of them make
    a step, on however many ranks (0: a rank's whole part). `clip` limits the global norm of the gradient (0: not). A
    training may be resumed with other `epochs` and `steps`, which the schedule then follows."""

    epochs: int = within(1, low=1, high=1_000_000)
    steps: int = within(0, low=0)
    """Ends earlier, after so many steps (0: not)."""
    batch: int = within(32, low=1, high=1 << 20)
    micro_batch: int = within(0, low=0, high=1 << 20)
    seed: int = within(0, low=0)
    clip: float = within(0.0, low=0)
    evaluate: int = within(1, low=0)
    """Epochs between two evaluations; the end is always one. 0: at the end alone."""


@dataclass(frozen=True)
class EngineSettings:
    """[engine]: where and how it is computed. `{rank}` in `device` is the rank's number; `target` is a machine, chip or
    generation, UnsupportedError where no program is compiled for that."""

    device: str = "simulator"
    route: str = within("inputs", choices=ROUTES)
    target: str = DEFAULT_TARGET
    allow_host: bool = False

    def __post_init__(self) -> None:
        machines.target(self.target)


@dataclass(frozen=True)
class Checkpoints:
    """[checkpoints]: one every `every` steps, and one at the end; the last `keep` are kept."""

    every: int = within(100, low=1)
    keep: int = within(3, low=1)


@dataclass(frozen=True)
class Parallel:
    """[parallel]: seconds a rank waits for the others."""

    timeout: float = within(600.0, low=0.1)


@dataclass(frozen=True)
class TrainingSettings:
    """Everything about a training. `base` is the folder its relative paths begin at, `table` the file's contents."""

    data: DataSource
    model: Description
    optimiser: Optimiser
    schedule: Schedule = field(default_factory=ConstantSchedule)
    training: RunSettings = field(default_factory=RunSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    scaling: Scaling = field(default_factory=Scaling)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    parallel: Parallel = field(default_factory=Parallel)
    base: Path = Path()
    table: Table = field(default_factory=dict)

    def meaning(self) -> dict[str, Any]:
        """What two runs must have in common so that one may go on where the other stopped: plain data, defaults
        included, so that stating one changes nothing."""
        chosen = {name: {"kind": kind, **asdict(getattr(self, name))} for name, kinds in CHOICES.items()
                  for kind, made in kinds.items() if type(getattr(self, name)) is made}
        run = {key: each for key, each in asdict(self.training).items() if key not in ("evaluate", "epochs", "steps")}
        scaling = {key: each for key, each in asdict(self.scaling).items() if key != "watch"}
        whole = {**chosen, "training": run, "scaling": scaling, "engine": {"route": self.engine.route}}
        return {name: {key: list(each) if isinstance(each, tuple) else each for key, each in part.items()}
                for name, part in whole.items()}


TABLES = {"training": RunSettings, "engine": EngineSettings, "scaling": Scaling, "checkpoints": Checkpoints,
          "parallel": Parallel}
CHOICES: Mapping[str, Mapping[str, type[Any]]] = {"data": SOURCES, "model": NETWORKS, "optimiser": OPTIMISERS,
                                                  "schedule": SCHEDULES}


def settings(table: Table, base: Path) -> TrainingSettings:
    """The settings a file's tables state. FormatError names what is unknown, missing or wrong."""
    known = (*CHOICES, *TABLES)
    for name in table:
        if name not in known:
            raise FormatError(f"the configuration has no table [{name}]; it has {', '.join(known)}, sweep")
    missing = [name for name in ("data", "model", "optimiser") if name not in table]
    if missing:
        raise FormatError(f"the configuration must have a table [{missing[0]}], whose kind is one of "
                          f"{', '.join(CHOICES[missing[0]])}")
    parts: dict[str, Any] = {name: read_choice(kinds, table[name], name) for name, kinds in CHOICES.items()
                             if name in table}
    parts |= {name: read(kind, table[name], name) for name, kind in TABLES.items() if name in table}
    return TrainingSettings(**parts, base=base, table=table)


def _check_sweep(key: str, values: object) -> None:
    """FormatError unless `values` are what a setting can be in turn."""
    if key.count(".") != 1 or not isinstance(values, list) or not values:
        raise FormatError(f"sweep.{key!r} must be \"TABLE.KEY\" = [VALUE, ...]: a setting and what it is in turn")
    twice = [each for number, each in enumerate(values) if each in values[:number]]
    if twice:
        raise FormatError(f"sweep.{key!r} has {twice[0]!r} twice: each value would be trained into one folder")


def variants(table: Table) -> list[tuple[str, dict[str, Any]]]:
    """The configurations a file stands for: itself, or with a table [sweep] (`"optimiser.rate" = [1e-3, 1e-2]`) one
    for each combination, with a name. FormatError when a key of the sweep names no setting."""
    plain = {name: part for name, part in table.items() if name != "sweep"}
    if "sweep" not in table:
        return [("", plain)]
    axes = as_table(table["sweep"], "sweep")
    for key, values in axes.items():
        _check_sweep(key, values)
    made = []
    for chosen in product(*axes.values()):
        changed = {name: dict(part) if isinstance(part, Mapping) else part for name, part in plain.items()}
        for key, value in zip(axes, chosen, strict=True):
            name, _, entry = key.partition(".")
            as_table(changed.setdefault(name, {}), name)
            changed[name][entry] = value
        made.append((",".join(f"{key}={value}" for key, value in zip(axes, chosen, strict=True)), changed))
    return made
