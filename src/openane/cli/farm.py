"""Compile, check or profile many models in many ways, in parallel, with all results in one file.

    ane farm zoo.toml                          # as many workers as this machine has processors
    ane farm zoo.toml --scheduler tcp://HOST:8786
    ane farm zoo.toml --report --json          # what is known so far

    [farm]                                     # zoo.toml: for every entry that says nothing else
    actions = ["compile", "check", "profile"]
    targets = ["h13", "m4"]

    [[models]]
    files = "networks/*.onnx"                  # from this file's folder
    optimise = [0, 2]
    shapes = { image = [1, 3, 224, 224] }

Each model with each target and level is a job. What the file of results holds is not done again, as long as the
model's bytes, its options and openane itself are the same. A model that fails is a row with the type of its error. A
worker that is lost loses nothing: another does its job. The exit status is 1 where a model failed or is wrong.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from openane.cli.numbers import whole
from openane.cli.output import say, say_json, table
from openane.cli.progress import progress

if TYPE_CHECKING:
    from openane.farm import FarmJob, Results

MOST_WORKERS = 1024


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help="what is to be done")
    parser.add_argument("-o", "--output", metavar="RESULTS.sqlite", type=Path,
                        help="the file of results (default: CONFIG's name with .sqlite, in this folder)")
    parser.add_argument("--workers", metavar="N", type=whole(0, MOST_WORKERS), default=os.cpu_count() or 1,
                        help="processes on this machine; 0: everything in this one (default: one for each processor)")
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="give the jobs to the workers of this dask scheduler; models they do not see are sent")
    parser.add_argument("--retry", action="store_true", help="do again what ended with an error")
    parser.add_argument("--report", action="store_true", help="do nothing: report what the file of results holds")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Does what is left to do, and reports everything."""
    from openane.farm import Results, document, lines, read_jobs
    from openane.farm.report import rows

    jobs = read_jobs(options.config)
    with Results(options.output or Path(f"{options.config.stem}.sqlite")) as results:
        if not options.report:
            _work(jobs, results, options)
        known = [(job, results.of(job)) for job in jobs]
    heading, cells = rows(known)
    if options.json:
        say_json(document(known))
    else:
        say("\n".join([*lines(known), *table(cells, heading=heading)]))
    return int(any(each.error_type or each.found.get("right") is False for _, found in known
                   for each in found.values()))


def _work(jobs: list[FarmJob], results: Results, options: argparse.Namespace) -> None:
    """Does what the file of results lacks, each thing once, and keeps it as it comes."""
    from openane.farm import spread

    left: dict[str, FarmJob] = {}
    for job in jobs:
        known = results.of(job)
        wanted = tuple(action for action in job.actions
                       if action not in known or (options.retry and known[action].error_type))
        wanted += tuple(action for action in left[job.key].actions if action not in wanted) if job.key in left else ()
        if wanted:
            left[job.key] = replace(job, actions=wanted)
    done = spread(list(left.values()), options.workers, options.scheduler)
    for job, found in progress(done, len(left), "jobs"):
        results.add(job, found)
