"""The devices this machine has, and how each is named."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict

from openane.cli.output import say, say_json, table
from openane.devices import DEFAULT, KINDS, VARIABLE, discover
from openane.devices.options import parts


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Lists them."""
    found = discover()
    default = os.environ.get(VARIABLE) or DEFAULT
    if options.json:
        say_json({"default": default, "devices": [asdict(device) for device in found]})
        return 0
    rows = [(device.name, device.chip, "engine" if device.engine else "simulated", device.description)
            for device in found]
    say("\n".join(table(rows, heading=("device", "chip", "", "description"))))
    say(f"default: {default} (${VARIABLE} or --device chooses another)")
    if parts(default)[0] not in KINDS:
        say(f"ane devices: warning: no device is called {default!r}; devices are {', '.join(KINDS)}", file=sys.stderr)
    return 0
