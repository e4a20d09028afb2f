"""Probe a device: dispatch floor, peak by shape, bandwidth by direction, working sets, fusion and chaining.

`device` is measured; on the simulator it is the simulator's own speed, which says nothing about an engine. `modelled`
is what the timing model says of the chip (`extrapolated` where its figures or its call are guessed, or the programs
were planned for another generation), `host` numpy in fp32 on this machine. Programs are planned for the device's
generation, or the chip's where the device takes all. --published shows tables of others beside
the model, and which of their rows it was fitted to.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from openane.bench import GROUPS, NOTES, Measured, Reproduced, probe_all, reproduce, selected, surety, target_of
from openane.cli.numbers import one_of
from openane.cli.output import as_json, say, say_json, table
from openane.cli.progress import progress
from openane.devices import open_device
from openane.errors import FormatError, UnsupportedError
from openane.formats.files import write_atomically
from openane.record_classes import dataclass
from openane.timing import SubmissionRoute

CHIP = "m1"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--device", metavar="D", help="what to probe (default: $ANE_DEVICE or simulator)")
    parser.add_argument("--chip", metavar="CHIP", help="the chip to model beside it (default: m1)")
    parser.add_argument("--route", choices=tuple(SubmissionRoute), type=one_of(SubmissionRoute),
                        default=SubmissionRoute.MACOS, help="how the modelled chip is called (default: macos)")
    parser.add_argument("--only", metavar="GROUP", action="append", default=[], choices=GROUPS,
                        help="may be repeated")
    parser.add_argument("--full", action="store_true", help="the long probes too")
    parser.add_argument("--save", metavar="FILE", type=Path, help="keep the figures as a baseline")
    parser.add_argument("--compare", metavar="FILE", type=Path, help="show ratios to a kept baseline")
    parser.add_argument("--published", action="store_true", help="published tables beside the timing model")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Probes and prints."""
    if options.published:
        return _published(options)
    chip = options.chip or CHIP
    before = _baseline(options.compare) if options.compare is not None else None
    found: list[Measured] = []
    with open_device(options.device) as device:
        name = device.info.description
        target = target_of(device, chip)
        total = len(selected(options.full, options.only))
        for each in progress(probe_all(device, chip, options.route, options.full, options.only, target), total,
                             "probing"):
            found.append(each)
    document = {"device": name, "chip": chip, "target": target, "route": str(options.route),
                "kinds": {"device": "measured", "modelled": surety(chip, options.route, target), "host": "measured"},
                "probes": [_row(each, before.figures if before else {}) for each in found]}
    if before is not None:
        document["baseline"] = {"device": before.device, "same_device": before.device == name}
    _save(options.save, document)
    if options.json:
        say_json(document)
    else:
        _show(document, found, before is not None)
    if before is not None and before.device != name:
        say(f"{options.compare}: the baseline is of another device ({before.device}): the ratios compare devices, "
              "not two runs of one", file=sys.stderr)
    return 0


def _show(document: Mapping[str, Any], found: Sequence[Measured], compared: bool) -> None:
    modelled = document["kinds"]["modelled"]
    say(f"{document['device']}; {modelled}: {document['chip']} through {document['route']}")
    rows = [(row["group"], row["probe"], _number(row["device"]), _number(row["modelled"]), _number(row["host"]),
             row["unit"], *((_ratio(row["to_baseline"]),) if compared else ())) for row in document["probes"]]
    heading = ("probe", "", "device", modelled, "host", "", *(("to baseline",) if compared else ()))
    say("\n".join(table(rows, heading=heading)))
    for each in found:
        if each.error:
            say(f"{each.probe.name}: {each.error}", file=sys.stderr)


def _save(path: Path | None, document: Mapping[str, Any]) -> None:
    if path is not None:
        write_atomically(path, f"{as_json(document)}\n".encode())


def _row(each: Measured, before: Mapping[str, float]) -> dict[str, Any]:
    old = before.get(each.probe.name)
    return {"group": each.probe.group, "probe": each.probe.name, "unit": str(each.probe.metric),
            "device": each.device, "modelled": each.modelled, "host": each.host, "runs": each.runs,
            "error": each.error, "to_baseline": each.device / old if each.device and old else None}


@dataclass(frozen=True, slots=True)
class _Baseline:
    """A kept run: the device it is of, and its figures by probe."""

    device: str
    figures: Mapping[str, float]


def _baseline(path: Path) -> _Baseline:
    """FormatError when the file is no baseline."""
    try:
        document = json.loads(path.read_text("utf-8"))
        return _Baseline(str(document["device"]),
                         {row["probe"]: float(row["device"]) for row in document["probes"] if row["device"]})
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is no baseline of ane bench: {error!r}") from None


def _published(options: argparse.Namespace) -> int:
    """Tables of others; UnsupportedError for options that choose what to run."""
    for name in ("compare", "device", "only", "full", "chip"):
        if getattr(options, name):
            raise UnsupportedError(f"--{name}", "published tables are compared with the model of their own chips",
                                   remedy="leave it out, or leave out --published")
    rows = list(reproduce())
    means = {"not_fitted": _factor(each for each in rows if not each.row.fitted),
             "fitted": _factor(each for each in rows if each.row.fitted)}
    document = {"rows": [{"table": each.row.table, "what": each.row.what, "chip": each.row.chip, "unit": each.row.unit,
                          "published": each.row.value, "modelled": each.modelled, "known": each.known,
                          "ratio": each.ratio, "fitted": each.row.fitted} for each in rows],
                "notes": NOTES, "geomean_factor": means}
    _save(options.save, document)
    say_json(document) if options.json else say("\n".join(_tables(rows, means)))
    return 0


def _factor(rows: Iterable[Reproduced]) -> float | None:
    """The geometric-mean factor of rows; None of none."""
    factors = [each.factor for each in rows]
    return geometric_mean(factors) if factors else None


def _tables(rows: Sequence[Reproduced], means: Mapping[str, float | None]) -> Iterator[str]:
    last = ""
    for each in rows:
        row = each.row
        if row.table != last:
            last = row.table
            yield row.table + (f": {NOTES[last]}" if last in NOTES else "")
        yield (f"  {row.what:<34} published {row.value:7.3f} {row.unit:<6} {each.known} {each.modelled:7.3f}"
               f"  ratio {each.ratio:.2f}{'  fitted' if row.fitted else ''}")
    yield "rows marked fitted prove nothing:"
    yield from (f"  {text}" for text in dict.fromkeys(each.row.fitted for each in rows) if text)
    yield (f"geometric-mean factor {_ratio(means['not_fitted'])} of rows nothing was fitted to, "
           f"{_ratio(means['fitted'])} of the others")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
