"""List generations of the engine with their chips and machines, or show one: limits, clocks, registers, arithmetic.

A NAME is a generation (h13), a chip (m2) or a machine ('MacBook Air 2022').
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from openane.chips import DEFAULT_TARGET, compiled_generations, generations, get_chip
from openane.chips.attested import agreed_times, attested, machines
from openane.chips.machines import SOCS, Figure, Found, Soc, chips_of, find, machines_with
from openane.chips.runs import VIRTUAL
from openane.cli.output import say, say_json, table
from openane.registers import Block, Field, Register

Document = dict[str, Any]

FIGURES = ("clock", "l2_clock", "fabric_clock", "peak", "kernel", "tile", "dispatch")
HEADING = ("chip", "engine", "cores", "GHz", "L2 GHz", "fabric GHz", "peak TFLOPS", "kernel GB/s", "tile GB/s",
           "call us")
MARKS = {"stated": "", "table": "", "measured": "", "derived": "~", "guess": "?"}
LEGEND = "~ derived or fitted, ? guessed, - not known; clocks from compiler tables, the others measured"
PREAMBLE = (
    "Evidence: *proved*, Apple's programs compute the right thing only with this meaning; *seen*, read in programs of",
    "Apple's compiler; *inferred*, named by public register maps or concluded from neighbours, no sample decides.",
    "Kinds: `x64` counts in units of 64, `+ 1` is stored less one. Words and bits that are not listed have no",
    "description; they travel along unchanged.", "",
    "This page is generated: `ane chips NAME --registers --markdown`.",
)
ROW = ("block", "address", "register", "field", "bits", "kind", "evidence", "meaning")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a generation, chip or machine; all without it")
    parser.add_argument("--registers", action="store_true", help="print the register page of the generation")
    parser.add_argument("--arithmetic", action="store_true",
                        help="print the rules of the arithmetic, how each is known, and where")
    parser.add_argument("--support", action="store_true",
                        help="print what works for each generation, and what of it is inferred")
    parser.add_argument("--markdown", action="store_true", help="with --registers or --support: as Markdown")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Prints the list, one generation, its register page, the rules of its arithmetic, or what works."""
    found = find(options.name) if options.name else None
    lines: Iterator[str]
    document: Document | list[Document]
    if options.arithmetic:
        lines, document = _arithmetic(found)
    elif options.support:
        lines, document = _support(found, options.markdown)
    elif options.registers:
        generation = found.generation if found else DEFAULT_TARGET
        lines = _markdown(generation) if options.markdown else _register_lines(generation)
        document = register_document(generation) if options.json else []
    elif found is None:
        lines, document = _overview(), [describe_generation(Found(name, chips_of(name))) for name in generations()]
    else:
        document = describe_generation(found)
        lines = _one(found, document)
    say_json(document) if options.json else say("\n".join(lines))
    return 0


def _arithmetic(found: Found | None) -> tuple[Iterator[str], list[Document]]:
    from openane.cli.arithmetic import rule_document, rule_lines  # needs numpy, the rest of this verb does not

    name = found.generation if found else None
    return rule_lines(name), rule_document(name)


def _support(found: Found | None, markdown: bool) -> tuple[Iterator[str], list[Document]]:
    from openane.cli.support import support_document, support_lines, support_page  # needs numpy too

    names = (found.generation,) if found else generations()
    return support_page(names) if markdown else support_lines(names), support_document(names)


def describe_generation(found: Found) -> Document:
    """A generation as plain data: chips with their figures, machines, limits, what is known."""
    chip = get_chip(found.generation)
    facts = chip.facts
    evidence = Counter(str(f.evidence) for _, _, r in _registers(found.generation) for f in r.fields)
    assumed = chip.limits.assumed
    return {
        "generation": found.generation, "isa": facts.isa, "subtype": facts.subtype,
        "compiled": facts.compiled, "tasks": facts.tasks, "operations": facts.operations,
        "inferred": list(facts.inferred), "attested": _attested(found),
        "attested_times": [asdict(each) for soc in found.chips for each in agreed_times(soc.name)],
        "chips": [_soc(soc) for soc in found.chips], "machines": list(machines_with(found.chips)),
        "limits": {name: {"value": value, "assumed": name.partition(".")[0] in assumed}
                   for name, value in _flat(asdict(chip.limits)) if name != "assumed"},
        "registers": sum(r.count for _, address, r in _registers(found.generation) if address < VIRTUAL),
        "fields": dict(evidence),
    }


def _attested(found: Found) -> str:
    """How many facts of a generation and its chips owners of engines have proved, seen or refuted."""
    owners = {found.generation, *(soc.name for soc in found.chips)}
    levels = Counter(each["level"] for name, said in attested().items() if name.split("/")[1] in owners
                     for each in said[:1])
    return ", ".join(f"{count} facts {level}" for level, count in levels.items())


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers of nested records under dotted names."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def register_document(generation: str) -> list[Document]:
    """The register page as plain data, one record per field; registers without fields have one with none."""
    return [dict(zip(ROW, row, strict=True)) for row in _rows(generation)]


def _soc(soc: Soc) -> Document:
    document: Document = {"name": soc.name, "engine": soc.variant, "engines": soc.engines}
    for name in ("cores", *FIGURES):
        figure: Figure = getattr(soc, name)
        document[name] = {"value": figure.value, "known": figure.known and str(figure.known)}
    return document


# Text


def _overview() -> Iterator[str]:
    for name in generations():
        facts = get_chip(name).facts
        state = "compiled for and simulated" if facts.compiled else f"operations {facts.operations}"
        yield f"{name}  {', '.join(soc.name for soc in chips_of(name))}"
        yield f"     {state}"
    yield ""
    yield from table([_figures(soc) for soc in SOCS], heading=HEADING)
    yield LEGEND
    yield "'ane chips NAME' shows one generation, chip or machine, '--registers' its registers, '--support' what works"


def _figures(soc: Soc) -> list[str]:
    cores = f"{soc.cores}" if soc.engines == 1 else f"{soc.engines}x{soc.cores}"
    return [soc.name, soc.variant or "-", cores, *(_figure(getattr(soc, name)) for name in FIGURES)]


def _figure(figure: Figure) -> str:
    return "-" if figure.known is None else f"{MARKS[figure.known]}{figure}"


def _one(found: Found, document: Document) -> Iterator[str]:
    yield f"{found.generation}: instruction set {document['isa']}, CPU subtype {document['subtype']} in HWX files"
    yield f"tasks       {document['tasks']}"
    yield f"operations  {document['operations']}"
    others = f"no: programs are compiled for {', '.join(compiled_generations())}"
    yield f"compiled    {'yes' if document['compiled'] else others}"
    yield from (f"inferred    {text}" for text in document["inferred"])
    yield f"attested    {document['attested'] or 'nothing yet: ane attest'}"
    yield from (f"attested    {each.owner}: {each}" for soc in found.chips for each in agreed_times(soc.name))
    if document["registers"]:
        known = ", ".join(f"{count} {name}" for name, count in document["fields"].items())
        yield f"registers   {document['registers']} words, {sum(document['fields'].values())} fields: {known}"
    yield f"machines    {', '.join(document['machines']) or 'none known'}"
    yield ""
    yield from table([_figures(soc) for soc in found.chips], heading=HEADING)
    yield LEGEND
    yield ""
    yield from table([(name.replace("_", " "), limit["value"], "assumed" if limit["assumed"] else "")
                      for name, limit in document["limits"].items()], heading=("limit", "value", ""))


# Registers


def _registers(generation: str) -> Iterator[tuple[Block, int, Register]]:
    chip = get_chip(generation)
    for bank in (chip.header, chip.bank):
        for block in bank.blocks:
            for register in block.registers:
                yield block, block.base + register.offset, register


def _rows(generation: str) -> Iterator[tuple[str, ...]]:
    for block, address, register in _registers(generation):
        name = register.name if register.count == 1 else f"{register.name}[0..{register.count - 1}]"
        place = (block.name, _place(address, register), name)
        if not register.fields:
            yield *place, "-", "-", "-", str(register.evidence), register.doc
        for field in register.fields:
            known = machines(f"field/{generation}/{block.name}.{register.name}.{field.name}") or str(field.evidence)
            yield *place, field.name, field.bits, _kind(field), known, _meaning(field, register)


def _place(address: int, register: Register) -> str:
    if address >= VIRTUAL:
        return "run head"
    end = address + (register.count - 1) * register.step
    return f"{address:#x}" if register.count == 1 else f"{address:#x}..{end:#x}"


def _kind(field: Field) -> str:
    unit = "" if not field.shift else f" x{2 ** field.shift}" if field.shift < 10 else f" x2^{field.shift}"
    return f"{field.kind}{unit}{f' + {field.minus}' if field.minus else ''}"


def _meaning(field: Field, register: Register) -> str:
    names = ", ".join(f"{number} {name}" for name, number in field.values.items())
    return "; ".join(part for part in (names, field.doc or register.doc) if part)


def _register_lines(generation: str) -> Iterator[str]:
    rows = list(_rows(generation))
    if not rows:
        yield f"{generation}: no register is known"
    yield from table(rows, heading=ROW if rows else ())


def _markdown(generation: str) -> Iterator[str]:
    document = describe_generation(Found(generation, chips_of(generation)))
    yield f"# Registers of {generation}"
    yield ""
    yield f"Chips: {', '.join(soc.name.upper() for soc in chips_of(generation))}. Tasks: {document['tasks']}."
    yield f"Operations: {document['operations']}."
    yield ""
    yield from PREAMBLE
    block = ""
    docs = {b.name: b.doc for b, _, _ in _registers(generation)}
    for row in _rows(generation):
        if row[0] != block:
            block = row[0]
            yield from ("", f"## {block}", "", f"{docs[block]}.", "", f"| {' | '.join(ROW[1:])} |",
                        f"|{'---|' * (len(ROW) - 1)}")
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row[1:])} |"
