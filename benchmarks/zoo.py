"""Models people have, tried one after another: networks of torchvision, timm, transformers and other libraries as these
build them (random weights, exported by torch.export), and published networks with their own weights.

    python benchmarks/zoo.py [NAME]... [--again] [--write] [--seconds 600] [--results FILE] [--packages FOLDER]

A NAME is `library/name`, or part of several; without names all. Every model is loaded, compiled, verified and run on
the simulator in a process of its own, and its outputs are compared with fp32's. The verdicts:

- `engine`: everything runs on the engine. `lookups`: all but lookups at computed positions and arithmetic on integers,
  which the host does and lists. `host`: some operations had to be given to the host. `refused`, `unloaded`: by the
  compiler or the importer, with a message. `unbuilt`: its library could not make it here; it does not count.
- `wrong`: the error of an output is more than 0.05 of its largest number, and more than three times what PyTorch errs
  in fp16. `crash`: it ended with anything but a typed error. `late`: it took longer than --seconds.

Results are kept in a file, and models it has are not tried again without --again. `--write` puts them into
benchmarks/zoo_models/results.jsonl, which has the last of every model, and writes docs/zoo.md from that: a few models
can be tried again without the others. benchmarks/zoo_models/known_failures.txt and reasons.txt (why models err more
than four times as much as in fp16) are written anew where they shrink. Exit code 1 when a model fails, or errs so much,
that is not listed there.

It needs PyTorch, torchvision, timm and transformers (`pip install -e '.[dev,full]' torchvision timm`), and libraries
that benchmarks/zoo_models/other_libraries.toml names; where one is missing its models are `unbuilt`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo_models.libraries import Described, described
from zoo_models.page import beyond_limit, page, row
from zoo_models.record import RECORD, kept, merged, write_record

Document = dict[str, Any]
HERE = Path(__file__).parent
KNOWN = HERE / "zoo_models" / "known_failures.txt"
REASONS = HERE / "zoo_models" / "reasons.txt"
PAGE = HERE.parent / "docs" / "zoo.md"
KEPT = HERE.parent / "build" / "zoo"
LARGEST_ERROR = 0.05
TIMES_HALF = 3
GOOD = ("engine", "lookups", "unbuilt")


def main() -> int:
    """Tries models and prints what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a model's library/name")
    parser.add_argument("--again", action="store_true", help="try models again that the results hold")
    parser.add_argument("--write", action="store_true", help="write docs/zoo.md and the list of known failures")
    parser.add_argument("--seconds", type=float, default=600, help="for one model (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=KEPT / "results.jsonl", help="(default: build/zoo)")
    parser.add_argument("--packages", type=Path, default=KEPT / "packages", help="wheels of published networks")
    options = parser.parse_args()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results = kept(options.results)
    every = list(described())
    whole = {model.key for model in every}.intersection(options.names)
    wanted = [model for model in every if not options.names or model.key in whole
              or any(name in model.key for name in options.names if name not in whole)]
    for number, model in enumerate(wanted, 1):
        if options.again or model.key not in results:
            results[model.key] = tried(model, options.seconds, options.packages)
            with options.results.open("a") as file:
                file.write(json.dumps(results[model.key]) + "\n")
        print(f"{number}/{len(wanted)} {row(results[model.key])}", flush=True)
    found = [results[model.key] for model in wanted]
    print(summary(found))
    if options.write:
        record = merged(kept(RECORD), found, [model.key for model in every])
        write_record(RECORD, record)
        PAGE.write_text(page(record, reasons()))
        write_known(found)
        write_reasons(found)
    return int(bool(unlisted(found)))


def tried(model: Described, seconds: float, packages: Path) -> Document:
    """What became of a model in a process of its own."""
    words = [sys.executable, "-m", "zoo_models.trial", model.key, "--packages", str(packages)]
    places = os.pathsep.join([str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": places, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return {"model": model.key, "verdict": "late", "message": f"more than {seconds:g} s"}
    if done.returncode or not done.stdout.strip():
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"model": model.key, "verdict": "crash", "message": last}
    return judged(json.loads(done.stdout.splitlines()[-1]))


def judged(document: Document) -> Document:
    """The document, `wrong` where its numbers are."""
    error, half = document.get("error"), document.get("half_error")
    allowed = max(LARGEST_ERROR, TIMES_HALF * half if half is not None else 0)
    if error is not None and not error <= allowed:
        return document | {"ran_on": document["verdict"], "verdict": "wrong",
                           "message": f"an error of {error:.3g}, where {allowed:.3g} is allowed"}
    return document


def summary(found: Iterable[Document]) -> str:
    """How many models had which verdict, library by library."""
    libraries: dict[str, Counter[str]] = {}
    for document in found:
        for name in (document["model"].partition("/")[0], "all"):
            libraries.setdefault(name, Counter())[document["verdict"]] += 1
    lines = [f"{name}: {sum(counts.values())} models, " + ", ".join(f"{n} {verdict}" for verdict, n in
                                                                   counts.most_common())
             for name, counts in sorted(libraries.items(), key=lambda each: (each[0] == "all", each[0]))]
    return "\n".join(lines)


def known() -> dict[str, str]:
    """The failures that are known: the verdict by model."""
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else ()
    said = [line.split() for line in lines if line and line[0] != "#"]
    return {line[0]: line[1] for line in said}


def unlisted(found: Iterable[Document]) -> list[str]:
    """Says which models fail that the list does not know, or in another way, or err more than in fp16 for no reason
    that is stated."""
    listed = known()
    wrong = [document["model"] for document in found
             if document["verdict"] not in GOOD and listed.get(document["model"]) != document["verdict"]]
    for model in wrong:
        print(f"not a known failure: {model}")
    unexplained = [model for model in beyond_limit(found) if model not in reasons() and model not in wrong]
    for model in unexplained:
        print(f"no reason is known: {model}")
    return wrong + unexplained


def reasons() -> dict[str, str]:
    """Why models err more than in fp16, by model."""
    lines = REASONS.read_text().splitlines() if REASONS.exists() else ()
    said = [line.partition(" ") for line in lines if line and line[0] != "#"]
    return {model: reason for model, _, reason in said}


def write_reasons(found: Sequence[Mapping[str, Any]]) -> None:
    """The reasons without those of models that no longer need one; nothing is added."""
    seen = {document["model"] for document in found}
    beyond = beyond_limit(found)
    left = {model: reason for model, reason in reasons().items() if model not in seen or model in beyond}
    lines = ["# Why models of the zoo err more than four times as much as in fp16. benchmarks/zoo.py --write takes out "
             "those", "# that no longer do.", *(f"{model} {reason}" for model, reason in sorted(left.items()))]
    REASONS.write_text("\n".join(lines) + "\n")


def write_known(found: Sequence[Mapping[str, Any]]) -> None:
    """The list without what passes now; nothing is added unless there is no list yet."""
    new = not KNOWN.exists()
    listed, now = known(), {document["model"]: document["verdict"] for document in found}
    if new:
        listed = {model: verdict for model, verdict in now.items() if verdict not in GOOD}
    left = {model: verdict for model, verdict in listed.items() if now.get(model, verdict) not in GOOD}
    lines = ["# Models of the zoo that fail, and how. benchmarks/zoo.py --write takes out those that pass.",
             *(f"{model} {verdict}" for model, verdict in sorted(left.items()))]
    KNOWN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
