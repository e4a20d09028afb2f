"""What a served driver and its clients say to each other: one message per request and per answer on a Unix socket.

A connection is an open file. Opening answers with the file's memory file as a passed descriptor, so that buffer objects
are mapped without any further message; closing the connection closes the file. Messages keep their boundaries
(SOCK_SEQPACKET) and none is longer than `LONGEST`.
"""

from __future__ import annotations

import errno
import socket
from enum import IntEnum
from typing import ClassVar

from openane.devices.linux.interface import Structure
from openane.record_classes import dataclass

LONGEST = 2048
"""Bytes of a message."""
FAMILY, TYPE = socket.AF_UNIX, socket.SOCK_SEQPACKET


class Action(IntEnum):
    """What a client asks for."""

    IOCTL = 1
    MAP = 2
    VERSION = 3


@dataclass(slots=True)
class DriverRequest(Structure):
    """A request: `number` of an ioctl, `size` and `offset` of a mapping. An ioctl's structure follows."""

    FORMAT: ClassVar[str] = "<IIQQ"
    action: int = 0
    number: int = 0
    size: int = 0
    offset: int = 0


@dataclass(slots=True)
class DriverAnswer(Structure):
    """An answer: `code` is 0 or an errno, `size` the bytes of an ioctl's structure that follow; then UTF-8 text: why it
    failed, or what VERSION answers."""

    FORMAT: ClassVar[str] = "<II"
    code: int = 0
    size: int = 0


def pack_answer(code: int, argument: bytes | bytearray = b"", text: str = "") -> bytes:
    """An answer's bytes, its text cut to fit."""
    head = bytes(DriverAnswer(code, len(argument)).pack()) + argument
    return head + text.encode()[:LONGEST - len(head)]


def unpack_answer(message: bytes) -> tuple[int, bytes, str]:
    """Code, structure and text. OSError EPROTO for what is no answer."""
    head = DriverAnswer.length()
    if len(message) >= head:
        answer = DriverAnswer.unpack(message[:head])
        if head + answer.size <= len(message):
            body = message[head:]
            return answer.code, body[:answer.size], body[answer.size:].decode(errors="replace")
    raise OSError(errno.EPROTO, f"{len(message)} bytes that are no answer of a simulated driver")


def unpack_request(message: bytes) -> tuple[DriverRequest, bytearray]:
    """A request and the structure behind it. OSError EPROTO for what is none."""
    head = DriverRequest.length()
    if not head <= len(message) <= LONGEST:
        raise OSError(errno.EPROTO, f"a request has {head} to {LONGEST} bytes, not {len(message)}")
    request = DriverRequest.unpack(message[:head])
    if request.action not in tuple(Action):
        raise OSError(errno.EPROTO, f"there is no action {request.action}")
    return request, bytearray(message[head:])
