"""Hangs, crashes and power cuts: whatever ends a run, the file is whole, nothing is lost, nothing that hung comes
again."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.planted_engines import linux

from openane.errors import DeviceError, DeviceHung
from openane.experiments import Experiment, Risk, Trial, find_experiment
from openane.experiments.attest import journal as journals
from openane.experiments.attest.journal import AttestJournal
from openane.experiments.attest.route import TrialRunner, find_place
from openane.experiments.attest.session import attest, head_of, plan
from openane.experiments.attest.worker import TrialWorker
from openane.experiments.evidence_file import read_evidence, write_evidence
from openane.experiments.outcome import Ending, Shown

CHOSEN = [find_experiment(name) for name in
          ("conv_stride", "subtraction", "pool_padding", "signed_zero", "pool_stride", "not_a_number")]
HANGING = "hang Pooling;noise 0.02"


class Noted:
    """Runs trials and writes down in a file, at once, which one it begins."""

    def __init__(self, inner: TrialRunner, path: Path) -> None:
        self._inner, self._path = inner, path

    def run_trial(self, experiment: Experiment, trial: Trial) -> Shown:
        with self._path.open("a") as file:
            file.write(f"{experiment.name} {trial.name}\n")
        return self._inner.run_trial(experiment, trial)

    def close(self) -> None:
        self._inner.close()


def session(folder: Path, deadly: int | None, torn: bool) -> int:
    """A process that attests and is killed when it appends to its journal for the `deadly`-th time, before, or in the
    middle of the line. The status it ends with."""
    place = find_place(linux(HANGING, noise=""))
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        count = 0
        real = AttestJournal.append

        def append(self: AttestJournal, line: journals.Line) -> None:
            nonlocal count
            count += 1
            if count == deadly:
                if torn:
                    self._file.write(b'{"ended": {"experiment": "half a li')
                    self._file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, line)

        AttestJournal.append = append  # type: ignore[method-assign]
        steps = plan(place, CHOSEN).steps
        list(attest(place, steps, folder / "journal", lambda: Noted(TrialRunner(place), folder / "begun"), pause=0))
    finally:
        os._exit(0)


def results(folder: Path):
    place = find_place(linux(HANGING, noise=""))
    steps = plan(place, CHOSEN).steps
    head = head_of(place, steps)
    with AttestJournal(folder / "journal", head) as kept:
        return steps, read_evidence(write_evidence(head, list(kept.results().values())))


@pytest.mark.parametrize("points", [2, pytest.param(50, marks=pytest.mark.needs("minutes"))])
def test_killed_at_many_points(points, tmp_path):
    generator = random.Random(3)
    for point in range(points):
        folder = tmp_path / str(point)
        folder.mkdir()
        before: dict[tuple[str, str], Shown] = {}
        steps = ()
        for _ in range(20):
            status = session(folder, generator.randint(1, 12), generator.random() < 0.5)
            steps, evidence = results(folder)
            now = {(shown.experiment, shown.trial): shown for shown in evidence.trials}
            assert all(now.get(name) == shown for name, shown in before.items()), "nothing is lost"
            before = now
            if len(now) == len(steps) and not status:
                break
        begun = Counter((folder / "begun").read_text().splitlines())
        assert len(before) == len(steps)
        for step in steps:
            name = step.experiment.name, step.trial.name
            most = 2 if step.experiment.risk is Risk.SAFE else 1
            assert begun[" ".join(name)] <= most, f"{name} was begun {begun[' '.join(name)]} times"
            if step.experiment.risk is Risk.SAFE and begun[" ".join(name)] < 2:
                assert before[name].runs[-1].ending is Ending.DONE


def test_a_hang_stops_everything_until_it_is_started_again(tmp_path):
    place = find_place(linux(HANGING, noise=""))
    steps = plan(place, CHOSEN).steps
    first = list(attest(place, steps, tmp_path / "journal", lambda: TrialRunner(place), pause=0))
    assert first[-1].stop
    assert first[-1].step.experiment.name in ("pool_padding", "pool_stride")
    ended = [first[-1].ending]
    while ended[-1] == "hung":
        again = list(attest(place, steps, tmp_path / "journal", lambda: TrialRunner(place), pause=0))
        assert again[0].ending == "done before"
        ended.append(again[-1].ending)
    _, evidence = results(tmp_path)
    assert sum(shown.runs[-1].ending is Ending.HUNG for shown in evidence.trials) == len(ended) - 1


class Ends:
    """A worker that ends, or never comes back, in one trial."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run_trial(self, experiment: Experiment, trial: Trial) -> Shown:
        raise self._error

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("error", "ending"), [(DeviceError("gone"), Ending.CRASHED),
                                               (DeviceHung("a trial", 1.0), Ending.HUNG)])
def test_what_a_worker_did_not_survive_is_written_down(error, ending, tmp_path):
    place = find_place(linux(""))
    steps = plan(place, CHOSEN[:1]).steps
    list(attest(place, steps, tmp_path / "journal", lambda: Ends(error), pause=0))
    with AttestJournal(tmp_path / "journal", head_of(place, steps)) as kept:
        (line, *_) = kept.results().values()
    assert line["runs"][-1]["ending"] == ending


def test_a_worker_runs_trials_in_a_process_of_its_own():
    place = find_place(linux("reset Convolution.stride"))
    worker = TrialWorker(place)
    try:
        experiment = CHOSEN[0]
        shown = worker.run_trial(experiment, experiment.trials[0])
        assert shown.runs[-1].ending is Ending.DONE
        impatient = TrialWorker(place, patience=0.01)
        with pytest.raises(DeviceHung):
            impatient.run_trial(experiment, experiment.trials[0])
        worker._process.kill()
        with pytest.raises(DeviceError):
            worker.run_trial(experiment, experiment.trials[0])
    finally:
        worker.close()


def test_a_journal_of_something_else_is_not_continued(tmp_path):
    place = find_place(linux(""))
    steps = plan(place, CHOSEN[:1]).steps
    with AttestJournal(tmp_path / "journal", head_of(place, steps)):
        pass
    with pytest.raises(DeviceError, match="another machine"):
        AttestJournal(tmp_path / "journal", head_of(replace(place, chip="m1 max"), steps))
