"""net.plist files: the plist (XML, binary or as JSON) and the network in it.

Two generations of the format name their ports differently. Version 1.0.9 (Espresso) lists `Inputs` and `Outputs` in
the network. Version 1.0.10 keeps them in a `ProcedureList` beside it, once per unit that reads them.
"""

from __future__ import annotations

import json
import plistlib
from collections.abc import Mapping
from typing import Any
from xml.parsers.expat import ExpatError

from openane.errors import FormatError, UnsupportedError
from openane.importers.entry import DictionaryEntry, distinct, is_table
from openane.record_classes import dataclass

_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class NetplistNetwork:
    """The only network of a document. `inputs` are its entries by port name in order, `outputs` maps port names to
    the unit (or input) they give out, with the entry that describes the port."""

    name: str
    entry: DictionaryEntry
    inputs: Mapping[str, DictionaryEntry]
    outputs: Mapping[str, tuple[str, DictionaryEntry]]

    @property
    def units(self) -> tuple[str, ...]:
        """Unit names, in the order they run."""
        return distinct(self.entry.texts("Units"), "units")

    def object(self, name: str, kind: str) -> DictionaryEntry:
        """The entry of unit, constant or port `name`. FormatError when there is none."""
        value = self.entry.values.get(name)
        if not is_table(value):
            raise FormatError(f"net.plist {kind} {name!r:.80} is not described", expected="a dictionary of that name",
                              found="nothing" if value is None else type(value).__name__)
        return DictionaryEntry(f"net.plist {kind} {name!r:.80}", value)


def parse(data: bytes) -> Mapping[str, Any]:
    """The document. FormatError for anything that is neither a plist nor JSON with a dictionary at the top."""
    if len(data) > _LIMIT:
        raise FormatError("too large for a net.plist", expected=f"at most {_LIMIT} bytes", found=len(data))
    try:
        # A plist in JSON form opens with a brace; entity declarations are refused by plistlib.
        document = json.loads(data) if data.lstrip()[:1] == b"{" else plistlib.loads(data)
    except (plistlib.InvalidFileException, ExpatError, ValueError, TypeError, LookupError, AttributeError,
            OverflowError, RecursionError, MemoryError) as error:
        said = "" if isinstance(error, plistlib.InvalidFileException) else f": {error!s:.120}"
        raise FormatError(f"not a property list{said}", expected="XML, a binary property list or JSON",
                          found=data[:16].hex(" ") or "nothing") from None
    if not is_table(document):
        raise FormatError("not a net.plist", expected="a dictionary at the top", found=type(document).__name__)
    return document


def network(document: Mapping[str, Any]) -> NetplistNetwork:
    """The network of a document. FormatError when its lists are missing, UnsupportedError when there are several."""
    top = DictionaryEntry("net.plist", document)
    if "Networks" not in top:
        raise top.malformed("Networks", "the names of the networks")
    names = top.texts("Networks")
    if len(names) != 1:
        raise UnsupportedError("net.plist, Networks", "one network is read", found=len(names),
                               remedy="one file per network")
    entry = DictionaryEntry("net.plist", top.section(names[0]).values)
    inputs, outputs = _procedure(top, entry) if "ProcedureList" in top else _listed(entry)
    return NetplistNetwork(names[0], entry, inputs, outputs)


def _listed(entry: DictionaryEntry) -> tuple[dict[str, DictionaryEntry], dict[str, tuple[str, DictionaryEntry]]]:
    """Ports of a network that lists them itself."""
    plain = NetplistNetwork("", entry, {}, {})
    inputs = {name: plain.object(name, "input") for name in distinct(entry.texts("Inputs"), "inputs")}
    outputs = {}
    for name in distinct(entry.texts("Outputs"), "outputs"):
        port = plain.object(name, "output")
        outputs[name] = port.text("Bottom"), port
    return inputs, outputs


def _procedure(top: DictionaryEntry, entry: DictionaryEntry) -> tuple[dict[str, DictionaryEntry],
                                                                      dict[str, tuple[str, DictionaryEntry]]]:
    """Ports of the only procedure. An input named for several units is one port."""
    procedures = list(top.sections("ProcedureList"))
    if len(procedures) != 1 or len(list(procedures[0].sections("OperationList"))) != 1:
        raise UnsupportedError("net.plist, ProcedureList", "one procedure of one operation is read",
                               remedy="one file per procedure")
    inputs: dict[str, DictionaryEntry] = {}
    for port in procedures[0].sections("InputList"):
        inputs.setdefault(port.text("InputName"), port)
    outputs = {}
    for port in procedures[0].sections("OutputList"):
        name = port.text("OutputName")
        inner = entry.values.get(name)
        bottom = DictionaryEntry(port.label, inner).text("Bottom") if is_table(inner) else port.text("Name")
        outputs[name] = bottom, DictionaryEntry(port.label, {"Bottom": bottom, **port.values})
    return inputs, outputs
