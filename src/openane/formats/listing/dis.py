"""A compiled file as text that says every byte of it.

    openane 1 hwx h13
    ; ...what the file holds, for people...
    file 32768
    sidecar "conv.bin"  8192 bytes  sha256 5f70...

    text 0x4000
    task 0  at 0x0, 157 words
      ...
    macho 0x0
      ...
    data 0x8000  size 0x2000  from 0x0

Tasks come first, then the container, then constants and what has no description. Long pieces go to a second file, the
sidecar, which the text names by size and SHA-256. Bytes that nothing states are zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from openane.chips import Chip, driver_generation, get_chip
from openane.errors import AneError, ProgramError
from openane.formats.files import detect, load_program, write_atomically
from openane.formats.hwx import MAGIC
from openane.formats.listing.anec import claim_anec, payload_start
from openane.formats.listing.claims import Claims
from openane.formats.listing.hwx import chip_of, claim_hwx, generation
from openane.formats.listing.items import Item, ListingPart
from openane.program import Program
from openane.program.listing import names_of, quoted, slot_names
from openane.program.listing.lexer import comment
from openane.program.text import surface
from openane.record_classes import dataclass
from openane.wording import plural

VERSION = 1
SUFFIX = ".ane.s"


@dataclass(frozen=True, slots=True)
class Listing:
    """The text form of a file. `sidecar` holds what `text` refers to, under the file name `sidecar_name`; it may be
    empty. `undescribed` counts the bytes shown without a description."""

    text: str
    sidecar: bytes
    sidecar_name: str
    undescribed: int


def disassemble_bytes(data: bytes, name: str = "program", text_name: str | None = None) -> Listing:
    """The listing of a compiled file's bytes. `name` is what the file is called, `text_name` (NAME.ane.s, default: from
    `name`) what the text will be: the sidecar is called NAME.bin after it.

    `assemble` gives back exactly these bytes, also for files that do not load. FormatError when they are no compiled
    program at all.
    """
    program, problem = _loaded(data)
    if data[:4] == MAGIC.to_bytes(4, "little"):
        container, chip = "hwx", generation(data)
        known = chip_of(chip)
        claims = Claims(data, known, _names(known, program))
        claim_hwx(claims)
    elif (start := payload_start(data)) is not None:
        container, chip = "anec", driver_generation()
        known = get_chip(chip)
        claims = Claims(data, known, _names(known, program))
        claim_anec(claims, start)
    else:
        detect(data)  # says why it is neither
        raise ProgramError("the file changed its kind while it was read")
    items, sidecar = _with_sidecar(claims.finished(), data)
    sidecar_name = _stem(text_name or name) + ".bin"
    head = [f"openane {VERSION} {container} {chip}", *_notes(name, program, problem, claims, items, data),
            f"file {len(data)}"]
    if sidecar:
        digest = hashlib.sha256(sidecar).hexdigest()
        head.append(f"sidecar {quoted(sidecar_name.encode())}  {len(sidecar)} bytes  sha256 {digest}")
    body = _body(items, claims.text_start)
    undescribed = sum(i.size for i in items if i.part is ListingPart.UNDESCRIBED)
    return Listing("".join(f"{line}\n" for line in (*head, *body)), sidecar, sidecar_name, undescribed)


def save_listing(listing: Listing, path: Path) -> tuple[Path, ...]:
    """Writes the text to `path`, its sidecar (when it has one) beside it, and returns the paths."""
    write_atomically(path, listing.text.encode())
    if not listing.sidecar:
        return (path,)
    beside = path.parent / listing.sidecar_name
    write_atomically(beside, listing.sidecar)
    return path, beside


def _loaded(data: bytes) -> tuple[Program | None, str]:
    """The program, for the notes only; otherwise why the file does not load."""
    try:
        return load_program(data), ""
    except AneError as error:
        return None, comment(str(error))


def _names(chip: Chip | None, program: Program | None) -> dict[int, str]:
    """What the slots are called, as far as that is known."""
    if program is not None:
        return names_of(program)
    return slot_names(chip.limits.slots, ()) if chip is not None else {}


def _stem(name: str) -> str:
    base = Path(name).name
    stem = base.removesuffix(SUFFIX) if base.endswith(SUFFIX) else Path(base).stem
    return "".join(c for c in stem if c.isprintable() and c not in '/\\"') or "program"


def _with_sidecar(items: Sequence[Item], data: bytes) -> tuple[list[Item], bytes]:
    """Items whose bytes are long, with a line that refers to the sidecar; and the sidecar."""
    out, sidecar = [], bytearray()
    for item in items:
        if item.lines is None:
            line = f"data {item.offset:#x}  size {item.size:#x}  from {len(sidecar):#x}  ; {item.note}"
            sidecar += data[item.offset:item.end]
            item = replace(item, lines=(line,))
        out.append(item)
    return out, bytes(sidecar)


def _body(items: Sequence[Item], text_start: int) -> Iterator[str]:
    """All lines: tasks, the container, constants, bytes without a description."""
    titles = {ListingPart.CONTAINER: "the container", ListingPart.CONSTANTS: "constants",
              ListingPart.PADDING: "zero bytes", ListingPart.UNDESCRIBED: "no description"}
    for part in ListingPart:
        chosen = [item for item in items if item.part is part]
        if not chosen:
            continue
        yield ""
        if part is ListingPart.TASK:
            yield f"text {text_start:#x}  ; offsets of tasks count from here"
        else:
            yield f"; {titles[part]}"
        for item in chosen:
            if part is ListingPart.TASK or len(item.lines or ()) > 2:
                yield ""
            yield from item.lines or ()


def _notes(name: str, program: Program | None, problem: str, claims: Claims, items: Sequence[Item],
           data: bytes) -> Iterator[str]:
    """Comments for people: what the program is, its buffers, what the bytes of the file are."""
    title = comment(Path(name).name)
    if program is None:
        yield f"; {title}: does not load: {problem}"
    else:
        origin = "".join(f", {key} {value}" for key, value in program.origin.items() if key != "container")
        yield comment(f"; {title}: program {program.name}, {plural(len(program.tasks), 'task')}{origin}")
        width = max((len(b.name) for b in program.buffers), default=0)
        for buffer in program.buffers:
            yield comment(f";   {buffer.role:<7}  {buffer.name:<{width}}  slot {buffer.slot:<2}  {surface(buffer)}")
    sizes = {part: sum(item.size for item in items if item.part is part) for part in ListingPart}
    zero = len(data) - sum(sizes.values()) + sizes[ListingPart.PADDING]
    yield (f"; {len(data)} bytes: {sizes[ListingPart.TASK]} in {plural(claims.tasks, 'task')}, "
           f"{sizes[ListingPart.CONTAINER]} in the container, {sizes[ListingPart.CONSTANTS]} of constants, {zero} zero")
    yield (f"; without a description: {sizes[ListingPart.UNDESCRIBED]} bytes of the file, "
           f"{claims.rest_bits} bits of tasks"
           + (f", {plural(claims.raw_tasks, 'whole task')}" if claims.raw_tasks else ""))

