"""Run experiments on your engine, and write one file that says what it did.

Safe ones come first: what Apple's own programs do. Then, with --new, forms that were never seen, each alone. Nothing
the verifier refuses is run, and nothing is sent anywhere: the file is yours. The same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from openane.cli.numbers import real
from openane.cli.output import say
from openane.errors import AneError, DeviceError
from openane.experiments import experiments, find_experiment
from openane.experiments.attest.journal import AttestJournal
from openane.experiments.attest.route import Place, TrialRunner, find_place
from openane.experiments.attest.session import Plan, attest, head_of, plan
from openane.experiments.attest.worker import PATIENCE, TrialWorker
from openane.experiments.evidence_file import write_evidence
from openane.formats.files import write_atomically
from openane.wording import plural

PAUSE = 1.0
"""Seconds between trials of forms that were never seen."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--device", default="linux:0", metavar="NAME",
                        help="linux:0 (default), macos?route=precompiled, or apple-compiler, which runs nothing")
    parser.add_argument("--chip", default="", help="the machine's chip (m1, m4 max), where it does not tell")
    parser.add_argument("--generation", default="", help="with apple-compiler: whose programs (h16)")
    parser.add_argument("--new", action="store_true", help="also run forms that were never seen")
    parser.add_argument("--only", action="append", default=[], metavar="EXPERIMENT", help="only this one; repeatable")
    parser.add_argument("-o", "--output", type=Path, default=Path("attested.ane-evidence"), metavar="FILE")
    parser.add_argument("--pause", type=real(0), default=PAUSE, help=f"seconds before a new form (default {PAUSE:g})")
    parser.add_argument("--patience", type=real(0, above=True), default=PATIENCE,
                        help=f"seconds after which a trial counts as hung (default {PATIENCE:g})")
    parser.add_argument("--in-process", action="store_true", help="run trials here, without a watch-dog")
    parser.add_argument("--yes", action="store_true", help="do not ask before running, nor before writing")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run and how long it takes, no more")
    parser.add_argument("--list", action="store_true", help="list all experiments and run none")


def run(options: argparse.Namespace) -> int:
    """Says what will be done, does it, shows the file's beginning, writes it."""
    chosen = [find_experiment(name) for name in options.only] or list(experiments())
    if options.list:
        for each in chosen:
            say(f"{each.name:26}  {each.risk:4}  {each.kind:9}  {each.question}")
        return 0
    place = find_place(options.device, options.chip, options.generation)
    planned = plan(place, chosen, options.new or bool(options.only))
    _announce(place, planned)
    if not planned.steps:
        raise DeviceError("there is nothing this device can be asked")
    if options.dry_run:
        return 0
    if not options.yes and not _agreed("Run them?"):
        return 1
    journal = options.output.with_name(f"{options.output.name}.journal")
    stopped = _carry_out(place, planned, journal, options)
    with AttestJournal(journal, head_of(place, planned.steps)) as kept:
        data = write_evidence(head_of(place, planned.steps), list(kept.results().values()))
    first, *lines = data.decode().splitlines()
    say(first)
    say(f"This, and {plural(len(lines) - 1, 'line')} of digests, seconds and outputs, {len(data)} bytes.")
    if not options.yes and not _agreed(f"Write {options.output.name}?"):
        return 1
    write_atomically(options.output, data)
    if stopped:
        say("The engine hung. Restart the machine; the same command then goes on behind the trial that hung it.")
        return 1
    say(f"{options.output}: whole. Sending it is up to you: the project's page has a form for it.")
    return 0


def _announce(place: Place, planned: Plan) -> None:
    say(f"{place.about['device']}: {place.about['description']}; {place.generation}, {place.chip}")
    for name, why in planned.left_out:
        say(f"  left out  {name}: {why}")
    say(f"{plural(len(planned.steps), 'trial')}, at most {max(planned.seconds, 0.1):.1f} s of the engine by the timing "
        f"model, and a file of at most {planned.bytes / 1e6:.2g} MB")


def _carry_out(place: Place, planned: Plan, journal: Path, options: argparse.Namespace) -> bool:
    """Runs the plan. True when a hang stopped it."""
    made = (lambda: TrialRunner(place)) if options.in_process else (lambda: TrialWorker(place, options.patience))
    total = len(planned.steps)
    for each in attest(place, planned.steps, journal, made, options.pause):
        say(f"{each.number + 1:3}/{total}  {each.step.experiment.name}: {each.step.trial.name}: {each.ending}",
              flush=True)
        if each.stop:
            return True
    return False


def _agreed(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        raise AneError("nobody is there to answer; --yes answers everything with yes") from None
