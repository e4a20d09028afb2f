"""Items of an ANEC file: header, task descriptors, constants."""

from __future__ import annotations

import contextlib

from openane.errors import FormatError
from openane.formats.anec import HEADERS, AnecHeader
from openane.formats.listing.claims import Claims
from openane.formats.listing.hwx import chain
from openane.formats.reader import ByteReader
from openane.formats.tasks import CONSTANT_ALIGNMENT
from openane.rounding import round_up


def payload_start(data: bytes) -> int | None:
    """Where the payload of what looks like an ANEC file begins; None when its length fits no header.

    Only the length and a first task that lies in the text are asked for: a file whose other sizes disagree does not
    load, but can be looked at.
    """
    try:
        header = ByteReader(data).record(AnecHeader, 0, "the ANEC header")
    except FormatError:
        return None
    if not 0 < header.first_task <= header.text <= header.size or not header.tasks:
        return None
    return next((start for start in HEADERS if start + header.size == len(data)), None)


def claim_anec(claims: Claims, start: int) -> None:
    """Claims header, tasks and constants of the file whose payload begins at `start`."""
    file = ByteReader(claims.data)
    header = file.record(AnecHeader, 0, "the ANEC header")
    claims.record("anec", 0, AnecHeader)
    payload = file.window(start, header.size, "the payload")
    text = payload.window(0, header.text, "the task descriptors")
    claims.text_start = start
    for offset, words in chain(claims.chip, text, 0, header.first_task // 4, header.tasks):
        if not claims.task(text, offset, words):
            break
    with contextlib.suppress(FormatError):
        claims.constants(payload.window(round_up(header.text, CONSTANT_ALIGNMENT), header.constants, "the constants"))


__all__ = ["claim_anec", "payload_start"]
