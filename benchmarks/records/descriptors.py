"""The program descriptor of an HWX file, with its trailer and strings: the words written and those a record states."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from openane.formats.hwx import MAGIC
from openane.formats.hwx.descriptors import PROGRAM
from openane.formats.hwx.wide import WIDE_PROGRAM
from openane.formats.macho import MachO, Thread, read_macho

KIND = 4
"""The kind of command that holds it."""
HEAD = 0x10
"""Bytes of the command before its state: kind, size, flavor, words of state."""
TRAILER = 0x810
FIRST_TASK_WORDS, TASKS = 0x818, 0x81C
"""Where a descriptor of H13 counts them; its first task's address lies at the trailer's place."""
SLOT = 8
"""Bytes of a slot's address there."""
FIRST_PORT = 4
"""The slot of the first of the addresses that records of H13 state."""
Words = Mapping[int, int]
"""Words by byte offset in the command."""


def descriptor_words(written: bytes) -> dict[int, int]:
    """Those of an HWX file."""
    return command_words(read_macho(written, MAGIC))


def command_words(file: MachO) -> dict[int, int]:
    """Those of a file that was taken apart."""
    thread = next(c for c in file.commands if isinstance(c, Thread) and c.flavor in (PROGRAM, WIDE_PROGRAM))
    strings = thread.strings.ljust(-(-len(thread.strings) // 8) * 8, b"\0")
    state = thread.state + strings
    data = struct.pack("<IIII", KIND, HEAD + len(state), thread.flavor, len(thread.state) // 4) + state
    return {4 * i: word for i, word in enumerate(struct.unpack(f"<{len(data) // 4}I", data))}


def stated_words(record: Mapping[str, Any], places: Words) -> dict[int, int]:
    """What the document of a record states at `places` and beside them: all words, those it does not list being zero,
    or (H14) those from the text's address on, or (H13) the addresses of text, constants and ports and what is said of
    the tasks."""
    if "program" in record:
        return _stated_of_linked(record["program"])
    said = record.get("program_descriptor")
    if said is None:
        return {}
    trailing = {TRAILER + 4 * i: int(word, 16) for i, word in enumerate(said["trailing_words"])}
    listed = {int(a, 16): int(w, 16) for a, w in record.get("program_descriptor_words", {}).items()}
    return dict.fromkeys(places, 0) | listed | trailing if listed else trailing


def _stated_of_linked(said: Mapping[str, Any]) -> dict[int, int]:
    """What a record of H13 states of the command."""
    text, constants = int(said["text_address"], 16), int(said["constant_address"], 16)
    ports = {FIRST_PORT + i: int(address, 16) for i, address in enumerate(said["resource_addresses"])}
    addresses = {HEAD + SLOT * slot: address for slot, address in ({0: text, 1: constants} | ports).items()}
    words = {FIRST_TASK_WORDS: said["task_words_minus_one"], TASKS: said["task_count"]}
    for place, address in (addresses | {TRAILER: text}).items():
        words |= {place: address & 0xFFFFFFFF, place + 4: address >> 32}
    return words


def equal_descriptor_words(record: Mapping[str, Any], written: bytes) -> tuple[int, int]:
    """How many words a record states, and how many of them a file has."""
    words = descriptor_words(written)
    stated = stated_words(record, words)
    return sum(words.get(place) == word for place, word in stated.items()), len(stated)
