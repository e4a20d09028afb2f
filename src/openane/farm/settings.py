"""The file of a farm: which models, with which options, and what is done with each.

    [farm]                              # for every entry that says nothing else
    actions = ["compile", "profile"]
    targets = ["h13", "m4"]

    [[models]]
    files = "networks/*.onnx"           # from this file's folder; a pattern or one model
    optimise = [0, 2]                   # each with each target
    shapes = { image = [1, 3, 224, 224] }
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from openane.chips import DEFAULT_TARGET, machines
from openane.compiler.precision import require_known
from openane.configuration import as_table, read, read_file, value, within
from openane.errors import AneError, FormatError
from openane.farm.files import model_digest
from openane.farm.job import ACTIONS, FarmJob, JobOptions, package_digest

LEVELS = range(4)
"""What `optimise` may be."""


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """[farm]: what is done, and options, each combination of `targets` and levels of `optimise` being a job."""

    actions: tuple[str, ...] = ("compile",)
    targets: tuple[str, ...] = (DEFAULT_TARGET,)
    optimise: tuple[int, ...] = (0,)
    precision: str = "safe"
    on_host: str = "lookups"


@dataclass(frozen=True, kw_only=True)
class ModelEntry(Defaults):
    """[[models]]: `files` is a path or a pattern, from the folder of the configuration."""

    files: str = within()
    function: str = ""


def read_jobs(path: Path) -> list[FarmJob]:
    """The jobs that a configuration stands for, in its order. FormatError names what is unknown, missing or wrong,
    UnsupportedError a target for which no program is compiled, OSError what cannot be read."""
    table = read_file(path)
    try:
        return list(_jobs(table, path.parent))
    except FormatError as error:
        raise error.within(path) from None


def _jobs(table: Mapping[str, Any], base: Path) -> Iterator[FarmJob]:
    for name in table:
        if name not in ("farm", "models"):
            raise FormatError(f"the configuration has no table [{name}]; it has farm, models")
    shared = as_table(table.get("farm", {}), "farm")
    _check(read(Defaults, shared, "farm"), "farm")
    entries = table.get("models")
    if not isinstance(entries, list) or not entries:
        raise FormatError('the configuration must have [[models]] with files = "..."')
    source = package_digest()
    for number, entry in enumerate(entries):
        place = f"models[{number}]"
        own = dict(as_table(entry, place))
        shapes = _shapes(own.pop("shapes", {}), f"{place}.shapes")
        settings = read(ModelEntry, {**shared, **own}, place)
        _check(settings, place)
        for file in _found(base, settings.files, place):
            digest = model_digest(base / file)
            for target, level in product(settings.targets, settings.optimise):
                machines.target(target)  # an unknown one is wrong in the file, not in a model
                options = JobOptions(target, level, settings.precision, settings.on_host,
                                  settings.function, shapes)
                yield FarmJob(file, str((base / file).absolute()), digest, options, _ordered(settings.actions), source)


def _check(settings: Defaults, place: str) -> None:
    """FormatError for a word or level that is none."""
    for key, given, known in (("actions", settings.actions, ACTIONS), ("optimise", settings.optimise, LEVELS)):
        wrong = [each for each in given if each not in known]
        if wrong or not given:
            raise FormatError(f"{place}.{key} must be some of {', '.join(map(str, known))}, not {wrong or 'none'}")
    if not settings.targets:
        raise FormatError(f"{place}.targets must name at least one machine, chip or generation")
    try:
        require_known(settings.precision)
    except AneError as error:
        raise FormatError(f"{place}.precision: {error}") from None


def _shapes(table: object, place: str) -> dict[str, tuple[int, ...]]:
    return {name: value(tuple[int, ...], shape, f"{place}.{name}") for name, shape in as_table(table, place).items()}


def _found(base: Path, files: str, place: str) -> list[str]:
    """The models that a path or pattern names, from `base` on. FormatError where there is none, and for what is neither
    a file nor a folder: a pipe would be waited for."""
    found = sorted(glob.glob(files, root_dir=base, recursive=True))
    if not found:
        raise FormatError(f"{place}.files: nothing in {base} is called {files!r}")
    other = [each for each in found if not (base / each).is_file() and not (base / each).is_dir()]
    if other:
        raise FormatError(f"{place}.files: {other[0]} is neither a file nor a folder")
    return found


def _ordered(actions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(action for action in ACTIONS if action in actions)
