"""List, check, prune or clear the cache of compiled models.

It lies in $ANE_CACHE, else in openane in $XDG_CACHE_HOME, else in ~/.cache/openane.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from openane.cache import Cache, CacheEntry
from openane.cli.files import parse_size
from openane.cli.numbers import expected
from openane.cli.output import say, say_json, table
from openane.wording import byte_text, plural

PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FAILED = 1
USAGE = 2
AGES = (("d", 86400), ("h", 3600), ("min", 60))


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("action", choices=("list", "check", "prune", "clear"), nargs="?", default="list",
                        help="list what is kept (the default), check it against its digests, prune by --size or --age, "
                             "clear everything")
    parser.add_argument("--size", metavar="BYTES", type=parse_size,
                        help="prune: keep at most this much, 500M or 2G, what was used last")
    parser.add_argument("--age", metavar="TIME", type=parse_age,
                        help="prune: remove what was not used for this long, 12h or 30d")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Lists what is kept, or what was changed, which is 1, or removes and lists what was removed."""
    chosen = options.size is not None or options.age is not None
    if chosen is not (options.action == "prune"):
        say("ane cache: error: " + ("prune by --size, by --age, or both" if not chosen else
                                      f"--size and --age are for prune, not {options.action}"), file=sys.stderr)
        return USAGE
    cache = Cache()
    removed: list[CacheEntry] = []
    if options.action == "check":
        return _check(cache, options.json)
    if options.action != "list":
        removed = cache.prune(options.size, options.age) if chosen else cache.clear()
    document = {"folder": str(cache.folder), "removed": [_document(entry) for entry in removed],
                "entries": [_document(entry) for entry in cache.entries()]}
    say_json(document) if options.json else say("\n".join(_text(document, options.action)))
    return 0


def _check(cache: Cache, as_json: bool) -> int:
    entries, damaged = cache.entries(), cache.damaged()
    if as_json:
        say_json({"folder": str(cache.folder), "entries": [_document(entry) for entry in entries], "damaged": damaged})
    else:
        whole = sum(entry.key not in damaged for entry in entries)
        say("\n".join([f"{cache.folder}: {plural(whole, 'compiled model')} as written, {len(damaged)} changed",
                       *(f"  {reason}" for reason in damaged.values())]))
    return FAILED if damaged else 0


def parse_age(text: str) -> float:
    """`30d` as seconds. ArgumentTypeError for any other form."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None:
        raise expected("a time such as 12h or 30d", text)
    return float(int(found[1]) * PERIODS[found[2]])


def _document(entry: CacheEntry) -> dict[str, Any]:
    return {"key": entry.key, "label": entry.label, "bytes": entry.size, "unused_seconds": time.time() - entry.used}


def _text(document: dict[str, Any], action: str) -> Iterator[str]:
    shown = document["entries"] if action == "list" else document["removed"]
    total = sum(entry["bytes"] for entry in shown)
    verb = "kept" if action == "list" else "removed"
    yield f"{document['folder']}: {plural(len(shown), 'compiled model')} {verb}, {byte_text(total)}"
    yield from table([(entry["key"][:12], entry["label"], byte_text(entry["bytes"]),
                       f"used {_age(entry['unused_seconds'])} ago") for entry in shown], indent="  ")


def _age(seconds: float) -> str:
    for unit, size in AGES:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
