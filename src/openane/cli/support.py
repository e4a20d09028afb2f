"""What works for each generation, for `ane chips --support`: all of it is found in what generations declare.

A time is *modelled* on a chip whose clocks and bandwidths are known, *extrapolated* where one of them is a guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from openane.chips import described_generations, get_chip
from openane.chips.machines import chips_of
from openane.cli.output import table, wrapped
from openane.engine.forms import FORMS
from openane.timing import rates

HEADING = ("generation", "chips", "read", "compiled", "verified", "simulated", "times modelled", "times extrapolated",
           "Linux driver")
NOTES = (
    "`read`: tasks are decoded, printed and assembled again. `compiled`: `ane compile --target` makes programs and",
    "files for it. `verified`: the rules that the verifier holds its programs to are known. `simulated`: the simulator",
    "executes its programs. Times are modelled for chips whose clocks and bandwidths are known, and extrapolated where",
    "one of them is a guess. The Linux driver runs programs of one generation; macOS takes models of all and compiles",
    "them itself.", "",
    "No program that was compiled here has run on hardware. What is compiled for a generation was compared with the",
    "records of Apple's compiler that are at hand; what they do not show is inferred, and listed below the table.",
)
RECORDS = (
    "A task of a form marked *record* stands in programs that Apple's compiler made for the generation: what is "
    "emitted for it was held to those words. One marked *-* is carried over from a generation that has a record, or "
    "where none has, composed from what public register maps and drivers say. [evidence.md](evidence.md) lists the "
    "forms of every MIL operation, and for which generations records show all of them.")
SEVERAL = (
    "`ane compile MODEL --target all` compiles for every generation that can be compiled for, and `--target "
    "m1,\"m4 max\"` for those of some chips or machines. It shows what each makes of the model: tasks, bytes, "
    "operations on the host, the time of an inference, and the operations that run in different places or in "
    "different numbers of tasks. A generation that refuses the model is a row with the reason; the command "
    "fails only where all of them do. `--json` has the same for programs, `--page FILE.html` for browsers. "
    "From Python it is `openane.compile_for(graph, \"m1,m4\")`.",
    "One bundle holds the programs of all of them; the model, its weights, and constants that are equal byte "
    "for byte are in it once. (Those of H14 to H18 mostly are: `programs/2.part` is an HWX file without its "
    "constants.) A device takes the programs of its own generation. Where there are none for it, it says which "
    "there are, and which command adds them. `ane info` lists the targets of a bundle. A `.hwx` or `.anec` "
    "file holds the program of one.",
)


def support_document(names: Sequence[str]) -> list[dict[str, Any]]:
    """What works, one record per generation."""
    return [_generation(name) for name in names]


def _generation(name: str) -> dict[str, Any]:
    chip, known = get_chip(name), name in described_generations()
    guessed = {soc.name: bool(rates(soc).guessed) for soc in chips_of(name)}
    return {"generation": name, "chips": list(guessed), "read": known, "compiled": chip.facts.compiled,
            "verified": known and bool(chip.rules), "simulated": known,
            "modelled": [soc for soc, guess in guessed.items() if not guess],
            "extrapolated": [soc for soc, guess in guessed.items() if guess],
            "driver": chip.facts.driver, "shown": [form for form in FORMS if form in chip.facts.shown],
            "inferred": list(chip.facts.inferred),
            "assumed_limits": list(chip.limits.assumed) if known else []}


def support_lines(names: Sequence[str]) -> Iterator[str]:
    """The same for people."""
    documents = support_document(names)
    yield from table([_cells(document) for document in documents], heading=HEADING)
    yield "no program compiled here has run on hardware; inferred, since no record shows it:"
    for document in documents:
        for text in _inferred(document):
            yield from wrapped(f"{document['generation']}  {text}", " " * 5)


def support_page(names: Sequence[str]) -> Iterator[str]:
    """The page in docs."""
    documents = support_document(names)
    yield from ("# Generations", "", f"| {' | '.join(HEADING)} |", f"|{'---|' * len(HEADING)}")
    yield from (f"| {' | '.join(_cells(document))} |" for document in documents)
    yield from ("", *NOTES)
    yield from ("", "## What records show", "", *wrapped(RECORDS), "")
    yield from _shown_rows([each for each in documents if each["compiled"]])
    for document in documents:
        stated = list(_inferred(document))
        if stated:
            yield from ("", f"## {document['generation'].upper()}", "")
            for text in stated:
                yield from wrapped(f"- {text}", "  ")
    yield from ("", "## Several at once")
    for paragraph in SEVERAL:
        yield from ("", *wrapped(paragraph))
    yield from ("", "This page is generated: `ane chips --support --markdown`.")


def _shown_rows(documents: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The table of forms, a column per generation."""
    yield f"| form of a task | {' | '.join(each['generation'] for each in documents)} |"
    yield f"|{'---|' * (len(documents) + 1)}"
    for form in FORMS:
        yield f"| {form} | {' | '.join('record' if form in each['shown'] else '-' for each in documents)} |"


def _cells(document: dict[str, Any]) -> list[str]:
    return [document["generation"], ", ".join(document["chips"]),
            *("yes" if document[key] else "-" for key in ("read", "compiled", "verified", "simulated")),
            ", ".join(document["modelled"]) or "-", ", ".join(document["extrapolated"]) or "-",
            "yes" if document["driver"] else "-"]


def _inferred(document: dict[str, Any]) -> Iterator[str]:
    yield from document["inferred"]
    if document["assumed_limits"]:
        limits = ", ".join(name.replace("_", " ").replace("l2", "L2") for name in document["assumed_limits"])
        yield f"Limits carried over from an earlier generation, or read off the width of a field: {limits}."
