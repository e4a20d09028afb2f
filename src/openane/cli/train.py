"""Train a network on a device: CONFIG.toml says what, on which data, how, and where checkpoints go.

    ane train examples/digits/train_digits.toml --output build/digits --device simulator
    mpirun -n 4 ane train CONFIG.toml --output FOLDER        # every rank has a device of its own

--device reference computes in fp32 on the host: what a training on the engine is compared with. OUTPUT gets
checkpoints, a record of every step (log.jsonl) and the loss curve (loss.svg). The last line of --json holds
test_accuracy, or validation_loss where the data are tokens.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openane.cli.output import say
from openane.cli.train_display import Display, open_display
from openane.cli.train_stopping import Stopping
from openane.cli.train_sweep import listing, train_all
from openane.errors import AneError, BudgetExhausted, FormatError

if TYPE_CHECKING:
    from openane.training.parallel import RankGroup

Event = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help="the configuration")
    parser.add_argument("--output", metavar="DIR", type=Path, help="folder for checkpoints and the record")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --output, if any")
    parser.add_argument("--device", metavar="D", help="device instead of engine.device; 'reference': fp32 on the host")
    parser.add_argument("--json", action="store_true", help="one JSON object per event and line")


def run(options: argparse.Namespace) -> int:
    """Trains every configuration the file stands for."""
    from openane.configuration import as_table, read_file
    from openane.training.checkpoint import library
    from openane.training.parallel import open_group
    from openane.training.settings import settings, variants

    if options.resume and options.output is None:
        raise AneError("--resume needs --output: the folder with the checkpoints")
    if options.output is not None:
        library()  # now, not when the first checkpoint is due
    content = read_file(options.config)
    try:
        if options.device is not None:
            content["engine"] = {**as_table(content.get("engine", {}), "engine"), "device": options.device}
        several = variants(content)
        checked = [settings(each, options.config.parent) for _, each in several]
    except FormatError as error:
        raise FormatError(f"{options.config}: {error}") from None
    group = open_group(checked[0].parallel.timeout)
    try:
        if len(several) > 1:
            return _sweep(several, options, group)
        display = open_display(options.json, group.rank)
        _train(several[0][1], options, options.output, group, display, group.size == 1)
        return 0
    except BaseException as error:
        if group.size > 1 and not isinstance(error, SystemExit):
            say(f"ane: error: rank {group.rank} of {group.size}: {error}", file=sys.stderr, flush=True)
            group.abort(str(error))
        raise


def _check_unused(output: Path | None, checkpoints: str, resume: bool) -> None:
    """AneError where a folder holds checkpoints that are not gone on from."""
    if output is not None and not resume and (output / checkpoints).exists():
        raise AneError(f"{output} has checkpoints already; go on with --resume, or give another --output")


def _train(content: Event, options: argparse.Namespace, output: Path | None, group: RankGroup, display: Display,
           alone: bool) -> Event:
    """One training, told of to the display and to the record; its last event. `alone`: no other process waits for this
    one."""
    from openane.training.journal import Journal
    from openane.training.settings import settings
    from openane.training.trainer import FOLDER, Training

    if group.rank == 0:
        _check_unused(output, FOLDER, options.resume)
    group.share(None)
    event: Event = {}
    display.preparing()
    with Training(settings(content, options.config.parent), output, group) as training:
        if options.resume:
            training.resume()
        journal = Journal(output, training.state.step) if output is not None and group.rank == 0 else None
        try:
            with Stopping(alone) as stopping:
                for event in training.run():
                    display.show(event)
                    if journal is not None:
                        journal.write(event)
                    if stopping.asked and event["event"] != "end":
                        training.save()
                        stopping.stop(training.state.step, output)
        except BudgetExhausted as error:
            _start_again(training.progressed and output is not None and alone, display, error)
        finally:
            display.close()
            if journal is not None:
                display.plotted(journal.close(str(options.config)))
    return event


def _start_again(possible: bool, display: Display, error: BudgetExhausted) -> None:
    """Replaces this process by one that goes on from the checkpoint; the error itself where that leads nowhere."""
    if not possible:
        raise error
    display.close()
    say(f"ane: {error}\nane: starting again from the checkpoint", file=sys.stderr, flush=True)
    if sys.stdout is not None:
        sys.stdout.flush()
    again = [argument for argument in sys.argv[1:] if argument != "--resume"]
    os.execv(sys.executable, [sys.executable, "-m", "openane", *again, "--resume"])


def _sweep(several: list[tuple[str, Event]], options: argparse.Namespace, group: RankGroup) -> int:
    """Every combination, each on one rank; rank 0 prints what became of all. 1 where one of them failed."""
    from openane.training.parallel import Alone

    own = several[group.rank::group.size]

    def train(number: int, output: Path | None) -> Event:
        display = open_display(options.json, group.rank, quiet=True)
        return _train(own[number][1], options, output, Alone(), display, group.size == 1)

    rows = train_all([name for name, _ in own], train, options.output, group.rank)
    found = [row for rank in group.share(rows) for row in rank]
    if group.rank == 0:
        found.sort(key=lambda row: [name for name, _ in several].index(row["variant"]))
        display = open_display(options.json, 0)
        if options.json:
            for row in found:
                display.show(row)
        else:
            say(listing(found))
    return int(any("error" in row for row in found))
