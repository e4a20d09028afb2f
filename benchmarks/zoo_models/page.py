"""What became of the zoo's models, as lines for a terminal and as a page of the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf, isinf, log
from typing import Any

Document = Mapping[str, Any]
HEAD = """# Models that were tried

Written by `python benchmarks/zoo.py --write`. Networks of torchvision, timm, transformers and libraries for diffusion,
segmentation, medical images, restoration, detection and sound are built by these libraries with random weights and
exported with `torch.export`; published networks have the weights they were published with, inside of Python packages.
Each is loaded, compiled for H13 with the precision `safe`, on drawn inputs, verified, and run on the simulator in exact
arithmetic.

- *engine*: everything runs on the engine. *lookups*: but for lookups at computed positions (embeddings) and arithmetic
  on integers, which the host does and lists. *host*: operations beside these had to be given to the host. *refused*,
  *unloaded*: by the compiler or the importer. *wrong*: the error is above 0.05 and above three times PyTorch's in fp16.
- The error is the largest difference to fp32, over the largest number of that output; beside it that of PyTorch in fp16
  with the same weights. Networks with random weights often make outputs that differ little from each other, so that
  this says more of arithmetic than of answers.
- *Times* is our error over that in fp16, neither taken as smaller than 2^-11, which is what rounding the output to fp16
  costs by itself.
- *Rescaled* is what holding tensors times powers of two costs, where tensors need it: tasks more, and the share by
  which the time modelled for an M1 is longer, than with the same functions and every tensor as it is.
- Seconds are the processor's, for loading and compiling, the first in a process (of older rows those of a clock). A
  row is of the last time its model was tried.
"""


def row(document: Document) -> str:
    """One model in a line."""
    words = [f"{document['model']:44}", f"{document['verdict']:9}"]
    if "tasks" in document:
        words.append(f"{document['tasks']:5} tasks, error {error(document.get('error'))}"
                     f" (fp16 {error(document.get('half_error'))}), {seconds(document):.1f} s"
                     + (f", host: {on_host(document)}" if document.get("host") else ""))
    if "message" in document:
        words.append(document["message"].split("\n")[0][:160])
    return " ".join(words).rstrip()


def page(found: Sequence[Document], reasons: Mapping[str, str]) -> str:
    """All models as a page in Markdown, with why those err that err more than in fp16, as far as `reasons` says."""
    lines = [HEAD]
    libraries = dict.fromkeys(document["model"].partition("/")[0] for document in found)
    lines += ["| Library | Models | " + " | ".join(VERDICTS) + " |", "| --- " * (2 + len(VERDICTS)) + "|"]
    for name in libraries:
        counts = Counter(d["verdict"] for d in found if d["model"].startswith(f"{name}/") and d["verdict"] != "unbuilt")
        lines.append(f"| {name} | {sum(counts.values())} | " + " | ".join(str(counts[v]) for v in VERDICTS) + " |")
    lines += ["", *_means(found, libraries, reasons)]
    for name in libraries:
        lines += ["", f"## {name}", "", "| Model | Verdict | Tasks | Host | Error | In fp16 | Times | Rescaled "
                  "| Seconds |", "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"]
        lines += [_cells(document) for document in found
                  if document["model"].startswith(f"{name}/") and document["verdict"] != "unbuilt"]
        lines += _messages([document for document in found if document["model"].startswith(f"{name}/")])
    return "\n".join(lines) + "\n"


ROUNDING = 2.0 ** -11
"""By how much rounding to fp16 changes a number at most, over the number."""
LARGEST_TIMES = 4
LARGEST_COST = 0.05
"""By how much longer a model should take at most for being rescaled."""
VERDICTS = ("engine", "lookups", "host", "refused", "unloaded", "wrong", "crash", "late")


def _cells(document: Document) -> str:
    cells = [document["model"].partition("/")[2], document["verdict"], str(document.get("tasks", "")),
             on_host(document), error(document.get("error")), error(document.get("half_error")), error(times(document)),
             _rescaled(document), f"{seconds(document):.1f}" if "seconds" in document else ""]
    return f"| {' | '.join(cells)} |"


def _rescaled(document: Document) -> str:
    """What holding tensors times powers of two costs; empty where none is."""
    cost = document.get("rescaled")
    return "" if cost is None else f"{cost['tasks']:+}, {cost['time']:+.1%}"


def _costs(found: Sequence[Document]) -> list[str]:
    """What rescaling costs altogether, in a sentence."""
    costs = [document["rescaled"]["time"] for document in found if "rescaled" in document]
    if not costs:
        return []
    mean = exp(sum(log(1 + cost) for cost in costs) / len(costs)) - 1
    above = sum(cost > LARGEST_COST for cost in costs)
    return ["", f"Of those tried since this is measured, {len(costs)} hold tensors times powers of two: their modelled "
            f"time is {mean:+.2%} (geometric mean), {max(costs):+.1%} at most, and above {LARGEST_COST:+.0%} in "
            f"{above}."]


def times(document: Document) -> float | None:
    """A model's error over that in fp16, both at least the rounding of an output; None where one is not known."""
    ours, half = document.get("error"), document.get("half_error")
    return None if ours is None or half is None else max(ours, ROUNDING) / max(half, ROUNDING)


def beyond_limit(found: Iterable[Document]) -> dict[str, float]:
    """The models that err more than LARGEST_TIMES as much as in fp16, the worst first."""
    known = {document["model"]: number for document in found if (number := times(document)) is not None}
    return {model: known[model] for model in sorted(known, key=lambda model: -known[model])
            if known[model] > LARGEST_TIMES}


def _means(found: Sequence[Document], libraries: Iterable[str], reasons: Mapping[str, str]) -> list[str]:
    """The geometric mean of `times` by library, and the models beyond the limit."""
    known = {document["model"]: number for document in found if (number := times(document)) is not None}
    finite = {model: number for model, number in known.items() if number < inf}
    if not finite:
        return []
    lines = ["| Library | Models with an error in fp16 | Times, geometric mean |", "| --- | ---: | ---: |"]
    for name in (*libraries, ""):
        numbers = [number for model, number in finite.items() if model.startswith(name)]
        if numbers:
            lines.append(f"| {name or 'all'} | {len(numbers)} | {exp(sum(map(log, numbers)) / len(numbers)):.2f} |")
    beyond = beyond_limit(found)
    if beyond:
        lines += ["", f"{len(beyond)} models err more than {LARGEST_TIMES} times as much as in fp16:", "",
                  "| Model | Times | Why |", "| --- | ---: | --- |",
                  *(f"| {model} | {error(number)} | {reasons.get(model, 'not known')} |"
                    for model, number in beyond.items())]
    return lines + _costs(found)


def _messages(found: Sequence[Document]) -> list[str]:
    said = [document for document in found if "message" in document and document["verdict"] != "unbuilt"]
    if not said:
        return []
    lines = ["", "What was said of those that are not compiled without leave, or are wrong:", ""]
    return lines + [f"- {document['model'].partition('/')[2]}: {' '.join(document['message'].split())[:400]}"
                    for document in said]


def on_host(document: Document) -> str:
    """The host's operations, each with how often it is there."""
    return ", ".join(f"{name} {count}" for name, count in sorted(document.get("host", {}).items()))


def error(value: float | None) -> str:
    """An error in two digits."""
    return "" if value is None else "infinite" if isinf(value) else f"{value:.2g}"


def seconds(document: Document) -> float:
    """What loading and compiling took."""
    taken: Mapping[str, float] = document.get("seconds", {})
    return taken.get("load", 0.0) + taken.get("compile", 0.0)
