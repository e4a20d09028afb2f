"""Several ranks: the weights of one rank with the whole batch; a lost rank is reported and the training goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.killing import ENVIRONMENT
from support.needs import lacking
from support.trainings import endless, toml, trained

from openane.training import checkpoint
from openane.training.lock import FolderLock

needs_mpi = pytest.mark.needs("mpirun", "mpi4py")
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def started(tmp_path: Path, table: dict[str, Any], ranks: int, output: str, *more: str) -> subprocess.Popen[str]:
    """`ane train` on so many ranks."""
    path = tmp_path / "config.toml"
    path.write_text(toml(table))
    front = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    line = [*front, sys.executable, "-m", "openane", "train", str(path), "--json", "--output", str(tmp_path / output)]
    return subprocess.Popen([*line, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=ENVIRONMENT | ROOT)


def finished(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Its events."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def weights(folder: Path) -> dict[str, np.ndarray]:
    found, _ = checkpoint.latest(folder / "checkpoints")
    assert found is not None
    return found.weights


@needs_mpi
def test_ranks_give_the_weights_of_one(tmp_path: Path) -> None:
    table = endless(tmp_path, 2)
    table["training"] |= {"steps": 4, "batch": 32, "micro_batch": 8}
    alone = trained(table, tmp_path / "1")[-1]
    one = weights(tmp_path / "1")
    last = finished(started(tmp_path, table, 4, "4"))[-1]
    other = weights(tmp_path / "4")
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=1e-6, atol=1e-7)
    assert last["test_loss"] == pytest.approx(alone["test_loss"], rel=1e-6)


@needs_mpi
def test_ranks_on_engines_give_the_same_bits(tmp_path: Path) -> None:
    table = endless(tmp_path, 2) | {"engine": {"device": "simulator"}}
    table["training"] |= {"steps": 4, "batch": 32, "micro_batch": 8}
    trained(table, tmp_path / "1")
    for ranks in (2, 4):
        finished(started(tmp_path, table, ranks, str(ranks)))
        other = weights(tmp_path / str(ranks))
        for name, array in weights(tmp_path / "1").items():
            np.testing.assert_array_equal(other[name], array)  # sums of fp16 gradients are exact in fp64


@needs_mpi
def test_a_lost_rank_is_reported_and_the_training_goes_on(tmp_path: Path) -> None:
    table = endless(tmp_path, 2)
    table["training"] |= {"batch": 100, "micro_batch": 50}
    process = started(tmp_path, table, 2, "out")
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["event"] != "step":
        pass
    time.sleep(0.2)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        lacking("/proc", "this system does not list the children of a process")
    os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "signal 9" in err or "rank" in err
    found, refused = checkpoint.latest(tmp_path / "out" / "checkpoints")
    assert found is not None
    assert not refused
    again = started(tmp_path, table, 1, "out", "--resume")
    assert again.stdout is not None
    events = [json.loads(again.stdout.readline()) for _ in range(3)]
    again.kill()
    again.communicate()
    assert events[0]["step"] == found.step
    assert events[1]["step"] == found.step + 1


@needs_mpi
def test_a_mistake_is_said_once_by_each_rank(tmp_path: Path) -> None:
    table = endless(tmp_path, 2)
    table["training"] |= {"batch": 32, "micro_batch": 5}
    process = started(tmp_path, table, 2, "out")
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "of 2: training.batch 32 must be a multiple of 5 examples at a time (micro_batch) times 2 ranks" in err


def test_one_rank_needs_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    from openane.training import parallel

    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    group = parallel.open_group(1.0)
    assert isinstance(group, parallel.Alone)
    assert group.share(3) == [3]
    assert group.sum({"a": np.ones(2)})["a"].tolist() == [1, 1]
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert parallel.launched()


@needs_mpi
@pytest.mark.parametrize("variables", [{"SLURM_STEP_NUM_TASKS": "4"}, {"PMIX_NAMESPACE": "job"}])
def test_launchers_that_are_no_mpirun(variables: dict[str, str]) -> None:
    """MPI is asked; where a launcher says that there are several and MPI knows of one, nobody trains by himself."""
    code = "from openane.training.parallel import open_group; print(type(open_group(1.0)).__name__)"
    made = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT | ROOT | variables, capture_output=True,
                          text=True, check=False, timeout=60)
    if "PMIX_NAMESPACE" in variables:
        assert made.stdout == "Alone\n", made.stderr
    else:
        assert "4 ranks were started, and MPI knows of one" in made.stderr


@needs_mpi
def test_ranks_share_one_lock(tmp_path: Path) -> None:
    """The first rank asks for the folder; when another training has it all of them end, and say why."""
    table = endless(tmp_path, 2)
    table["training"] |= {"steps": 2, "batch": 16}
    lock = FolderLock(tmp_path / "out")
    refused = started(tmp_path, table, 2, "out")
    _, told = refused.communicate(timeout=120)
    assert refused.returncode != 0
    assert f"rank 0 of 2: {tmp_path / 'out'} is in use: process {os.getpid()} on" in told
    lock.close()
    assert finished(started(tmp_path, table, 2, "out"))[-1]["step"] == 2
