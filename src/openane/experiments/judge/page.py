"""The state of knowledge by chip and field, as Markdown and as a page for browsers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape

from openane.chips import compiled_generations, get_chip
from openane.chips.attested import UNITS, agreed_times, machines
from openane.experiments.facts import Fact, deciders, open_facts, reason

KINDS = {"field": "register fields", "limit": "limits", "inferred": "forms of tasks", "figure": "clocks and bandwidths",
         "rule": "rules of arithmetic"}
NO_TIMES = "No parameter of the timing model is attested yet"
STYLE = """
:root { color-scheme: light dark; --ink: #1b1d21; --paper: #fff; --line: #d5d8dd; --weak: #5a6068; --bar: #2f6fb0;
  --rest: #e6e9ed; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ec; --paper: #15171a; --line: #383c42; --weak: #a3a9b1;
  --bar: #6aa9e6; --rest: #2a2e33; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
p, .weak { color: var(--weak); }
caption { text-align: left; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
td:first-child { font-family: ui-monospace, monospace; overflow-wrap: anywhere; width: 24rem; }
.bar { display: flex; height: .9rem; background: var(--rest); border-radius: .2rem; overflow: hidden;
  min-width: 12rem; }
.bar span { background: var(--bar); }
@media (max-width: 48rem) { body { margin: 1rem auto; } .bar { min-width: 3rem; }
  th, td { padding: .3rem .25rem; overflow-wrap: anywhere; } td:first-child { width: auto; } }
details { margin: .5rem 0; } summary { cursor: pointer; padding: .3rem 0; }
"""


def owners() -> dict[str, list[Fact]]:
    """Open facts by the generation or chip they are of."""
    found: dict[str, list[Fact]] = {}
    for fact in open_facts():
        found.setdefault(fact.owner, []).append(fact)
    return found


def _decided_by(fact: Fact) -> str:
    return ", ".join(each.name for each in deciders(fact)) or f"none: {reason(fact)}"


def _evidence(generation: str) -> Counter[str]:
    """How many fields of a generation are known how surely."""
    chip = get_chip(generation)
    return Counter(str(field.evidence) for bank in (chip.header, chip.bank) for block in bank.blocks
                   for register in block.registers for field in register.fields)


def knowledge() -> Iterator[str]:
    """Lines of a Markdown page."""
    facts = open_facts()
    decided = sum(bool(deciders(fact)) for fact in facts)
    yield from ("# What is not known surely, and what decides it", "",
                f"Of {len(facts)} facts that the tables mark inferred, assumed, guessed or open, {decided} "
                f"({100 * decided / len(facts):.1f} %) have an experiment; the others say why none can decide them.",
                "*Attested* says how many machines have proved, seen or refuted a fact. [Attesting](attesting.md) says",
                "how to run the experiments.", "", "This page is generated: `ane evidence --markdown`.", "",
                "| generation | fields proved | seen | inferred |", "|---|---|---|---|")
    for generation in compiled_generations():
        count = _evidence(generation)
        yield f"| {generation} | {count['proved']} | {count['seen']} | {count['inferred']} |"
    yield from ("", "## Times", "", *_times())
    for owner, known in owners().items():
        yield from ("", f"## {owner}", "", "| fact | decided by | attested |", "|---|---|---|")
        for fact in known:
            yield f"| {fact.name} | {_decided_by(fact)} | {machines(fact.name) or '-'} |"


def _times() -> Iterator[str]:
    """Parameters of the timing model that machines have attested."""
    times = agreed_times()
    if not times:
        yield f"{NO_TIMES}; what it has is in `ane chips`."
        return
    yield from ("| chip and way | parameter | value | within a factor of | machines |", "|---|---|---|---|---|")
    for each in times:
        yield (f"| {each.owner} | {each.name} | {each.value:.4g} {UNITS[each.name]} | {each.scatter:.3g} | "
               f"{each.machines} |")


def page() -> str:
    """The page for browsers, complete in one file."""
    facts = open_facts()
    decided = sum(bool(deciders(fact)) for fact in facts)
    kinds = Counter(fact.name.partition("/")[0] for fact in facts)
    parts = ["<!doctype html><html lang=en><head><meta charset=utf-8><title>State of knowledge</title>",
             "<meta name=viewport content='width=device-width'>", f"<style>{STYLE}</style></head><body>",
             "<h1>What is known of each generation, and what is not</h1>",
             f"<p>{len(facts)} facts are inferred, assumed, guessed or open: ",
             ", ".join(f"{kinds[kind]} {name}" for kind, name in KINDS.items()),
             f". {decided} of them ({100 * decided / len(facts):.1f} %) have an experiment.</p>",
             "<h2>Register fields</h2><table><tr><th>generation<th>known<th>proved<th>seen<th>inferred</tr>"]
    for generation in compiled_generations():
        count = _evidence(generation)
        sure = 100 * (count["proved"] + count["seen"]) / sum(count.values())
        parts.append(f"<tr><td>{generation}<td><div class=bar role=img aria-label='{sure:.0f} % proved or seen'>"
                     f"<span style='width:{sure:.1f}%'></span></div><td>{count['proved']}<td>{count['seen']}"
                     f"<td>{count['inferred']}</tr>")
    times = agreed_times()
    parts.append("</table><h2>Attested times</h2><table>" + (
        "<tr><th>chip and way<th>parameter<th>value<th>within a factor of<th>machines</tr>" if times else
        f"<caption>{NO_TIMES}.</caption>"))
    parts += [f"<tr><td>{escape(each.owner)}<td>{each.name}<td>{each.value:.4g} {UNITS[each.name]}<td>"
              f"{each.scatter:.3g}<td>{each.machines}</tr>" for each in times]
    parts.append("</table><h2>Open facts by generation and chip</h2>")
    for owner, known in owners().items():
        have = sum(bool(deciders(fact)) for fact in known)
        parts.append(f"<details><summary>{escape(owner)} <span class=weak>{len(known)} open, {have} with an experiment"
                     "</span></summary><table><tr><th>fact<th>says<th>decided by<th>attested</tr>")
        parts += [f"<tr><td>{escape(fact.name.partition('/')[2].partition('/')[2])}<td>{escape(fact.says)}"
                  f"<td>{escape(_decided_by(fact))}<td>{escape(machines(fact.name) or '-')}</tr>" for fact in known]
        parts.append("</table></details>")
    return "".join([*parts, "</body></html>\n"])


__all__ = ["knowledge", "page"]
