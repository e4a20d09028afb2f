"""A process of its own that runs trials, and a watch-dog that ends it when a trial does not come back."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

from openane.errors import DeviceError, DeviceHung
from openane.experiments.attest.journal import as_line
from openane.experiments.attest.route import Place, TrialRunner
from openane.experiments.evidence_file import shown_of
from openane.experiments.outcome import Shown
from openane.experiments.record import Experiment, Trial
from openane.experiments.shelf import find_experiment
from openane.timing import SubmissionRoute

PATIENCE = 60.0
"""Seconds a trial may take with its compilation before it counts as hung."""
_CHILD = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); " \
         "from openane.experiments.attest.worker import serve; serve(sys.argv[2])"


class TrialWorker:
    """See `session.RunsTrials`."""

    def __init__(self, place: Place, patience: float = PATIENCE) -> None:
        """Starts the process. It runs in a session of its own, so that a key pressed here does not end it."""
        self._patience = patience
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, json.dumps(sys.path), json.dumps(asdict(place))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def run_trial(self, experiment: Experiment, trial: Trial) -> Shown:
        """Runs a trial there. DeviceHung when it takes too long, DeviceError when the process ends."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps([experiment.name, trial.name]).encode() + b"\n")
            process.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            if not waiting.select(self._patience):
                self.close()
                raise DeviceHung(f"trial {trial.name!r} of {experiment.name!r}", self._patience)
        answer = process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise DeviceError(f"the process that ran trial {trial.name!r} of {experiment.name!r} ended")
        return shown_of(json.loads(answer))

    def close(self) -> None:
        """Ends the process. One that hangs inside the kernel stays there until that lets it go."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def serve(text: str) -> None:
    """Runs the trials that are asked for; what the process does."""
    given = json.loads(text)
    place = Place(**(given | {"route": SubmissionRoute(given["route"])}))
    runner = TrialRunner(place)
    answers = sys.stdout.buffer
    for line in sys.stdin.buffer:
        name, trial = json.loads(line)
        experiment = find_experiment(name)
        shown = runner.run_trial(experiment, experiment.trial(trial))
        answers.write(json.dumps(as_line(shown)).encode() + b"\n")
        answers.flush()
    runner.close()


__all__ = ["PATIENCE", "TrialWorker", "serve"]
