"""Probe a device: dispatch floor, peak by shape, bandwidth by direction, working sets, fusion and chaining.

`device` is measured; on the simulator it is the simulator's own speed, which says nothing about an engine. `modelled`
is what the timing model says of the chip, `host` numpy in fp32 on this machine. --published shows tables of others
beside the model.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openane.bench import Measured, probe_all, reproduce, selected
from openane.cli.output import as_json, table
from openane.cli.progress import progress
from openane.devices import open_device
from openane.errors import FormatError
from openane.timing import Route


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--device", metavar="D", help="what to probe (default: $ANE_DEVICE or simulator)")
    parser.add_argument("--chip", metavar="CHIP", default="m1", help="the chip to model beside it (default: m1)")
    parser.add_argument("--route", choices=tuple(Route), type=Route, default=Route.MACOS,
                        help="how the modelled chip is called (default: macos)")
    parser.add_argument("--only", metavar="GROUP", action="append", default=[],
                        choices=("dispatch", "peak", "bandwidth", "working set", "fusion"), help="may be repeated")
    parser.add_argument("--full", action="store_true", help="the long probes too")
    parser.add_argument("--save", metavar="FILE", type=Path, help="keep the figures as a baseline")
    parser.add_argument("--compare", metavar="FILE", type=Path, help="show ratios to a kept baseline")
    parser.add_argument("--published", action="store_true", help="published tables beside the timing model")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Probes and prints."""
    if options.published:
        return _published(options.json)
    before = _baseline(options.compare) if options.compare is not None else {}
    found: list[Measured] = []
    with open_device(options.device) as device:
        name = device.info.description
        total = len(selected(options.full, options.only))
        probes = probe_all(device, options.chip, options.route, options.full, options.only)
        for each in progress(probes, total, "probing"):
            found.append(each)
    document = {"device": name, "chip": options.chip, "route": str(options.route),
                "kinds": {"device": "measured", "modelled": "modelled", "host": "measured"},
                "probes": [_row(each, before) for each in found]}
    if options.save is not None:
        options.save.write_text(as_json(document) + "\n")
    if options.json:
        print(as_json(document))
        return 0
    print(f"{name}; modelled: {options.chip} through {options.route}")
    rows = [(row["group"], row["probe"], _number(row["device"]), _number(row["modelled"]), _number(row["host"]),
             row["unit"], *((_ratio(row["to_baseline"]),) if before else ())) for row in document["probes"]]
    heading = ("probe", "", "device", "modelled", "host", "", *(("to baseline",) if before else ()))
    print("\n".join(table(rows, heading=heading)))
    for each in found:
        if each.error:
            print(f"{each.probe.name}: {each.error}", file=sys.stderr)
    return 0


def _row(each: Measured, before: Mapping[str, float]) -> dict[str, Any]:
    old = before.get(each.probe.name)
    return {"group": each.probe.group, "probe": each.probe.name, "unit": str(each.probe.metric),
            "device": each.device, "modelled": each.modelled, "host": each.host, "runs": each.runs,
            "error": each.error, "to_baseline": each.device / old if each.device and old else None}


def _baseline(path: Path) -> dict[str, float]:
    """Figures by probe. FormatError when the file is no baseline."""
    try:
        document = json.loads(path.read_text())
        return {row["probe"]: float(row["device"]) for row in document["probes"] if row["device"]}
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is no baseline of ane bench: {error!r}") from None


def _published(json_wanted: bool) -> int:
    rows = list(reproduce())
    if json_wanted:
        print(as_json({"rows": [{"table": each.row.table, "what": each.row.what, "chip": each.row.chip,
                                 "unit": each.row.unit, "published": each.row.value, "modelled": each.modelled,
                                 "ratio": each.ratio} for each in rows]}))
        return 0
    last = ""
    for each in rows:
        if each.row.table != last:
            last = each.row.table
            print(last)
        print(f"  {each.row.what:<34} published {each.row.value:7.3f} {each.row.unit:<6} modelled {each.modelled:7.3f}"
              f"  ratio {each.ratio:.2f}")
    return 0


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
