"""Small trainings for tests: a classifier of digits that takes milliseconds a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from openane.training.settings import settings
from openane.training.trainer import Training

Table = dict[str, Any]


def small(**tables: Table) -> Table:
    """The configuration of a small classifier; `tables` are merged into its own."""
    base: dict[str, Table] = {
        "data": {"kind": "digits"},
        "model": {"kind": "layers", "layers": ["flatten", "linear 12", "relu", "linear 10"]},
        "optimiser": {"kind": "adamw", "rate": 3e-3},
        "schedule": {"kind": "cosine", "warm_up": 2},
        "training": {"epochs": 1, "steps": 6, "batch": 32, "seed": 3},
        "checkpoints": {"every": 2},
    }
    for name, table in tables.items():
        base[name] = table if "kind" in table else base.get(name, {}) | table
    return base


def training(table: Table, output: Path | None = None) -> Training:
    """The training of a configuration."""
    return Training(settings(table, Path(__file__).parent), output)


def trained(table: Table, output: Path | None = None) -> list[dict[str, Any]]:
    """Trains to the end, and gives every event."""
    with training(table, output) as made:
        return list(made.run())


def toml(table: Table) -> str:
    """A configuration as the text of a file."""
    lines = []
    for name, part in table.items():
        lines += [f"[{name}]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in part.items())]
    return "\n".join(lines) + "\n"


def endless(folder: Path, every: int) -> Table:
    """A training that ends when it is ended, in fp32 on the host, on numbers drawn for it, with a checkpoint every so
    many steps."""
    path = folder / "numbers.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        np.savez(path, inputs=rng.standard_normal((400, 20)), labels=np.arange(400) % 10)
    return small(data={"kind": "arrays", "file": str(path)},
                 training={"epochs": 100_000, "steps": 0, "evaluate": 0}, engine={"device": "reference"},
                 checkpoints={"every": every, "keep": 2})
