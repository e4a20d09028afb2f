"""A client of the Linux accel driver that shares nothing with the library: numbers and structures written anew.

Programs started by tests import it, to stand for programs of others.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

NODE = "/dev/accel/accel0"
VERSION, INIT, FREE, SUBMIT = 0xC0406400, 0xC0186441, 0xC0086442, 0xC0986443


def init(fd: int, size: int = 16384, pad: int = 0) -> tuple[int, int]:
    """(handle, offset to map) of a new buffer object."""
    argument = bytearray(struct.pack("<IIQQ", 0, pad, size, 0))
    fcntl.ioctl(fd, INIT, argument)
    handle, _, _, offset = struct.unpack("<IIQQ", argument)
    return handle, offset


def free(fd: int, handle: int, pad: int = 0) -> None:
    """Frees a buffer object."""
    fcntl.ioctl(fd, FREE, bytearray(struct.pack("<II", handle, pad)))


def submit(fd: int, handles: dict[int, int], text: int = 0x274, count: int = 1, first: int = 0x274,
           bootstrap: int = 0, pad: int = 0) -> None:
    """Submits tasks."""
    slots = [handles.get(slot, 0) for slot in range(32)]
    fcntl.ioctl(fd, SUBMIT, bytearray(struct.pack("<QII32III", text, count, first, *slots, bootstrap, pad)))


def version(fd: int) -> tuple[str, str, str]:
    """Name, date and description: one call for the lengths, another for the texts."""
    argument = bytearray(struct.pack("<iiiiQQQQQQ", *(0,) * 10))
    fcntl.ioctl(fd, VERSION, argument)
    lengths = struct.unpack("<iiiiQQQQQQ", argument)[4::2]
    texts = [ctypes.create_string_buffer(length) for length in lengths]
    pairs = [number for text, length in zip(texts, lengths, strict=True)
             for number in (length, ctypes.addressof(text))]
    fcntl.ioctl(fd, VERSION, bytearray(struct.pack("<iiiiQQQQQQ", 0, 0, 0, 0, *pairs)))
    name, date, description = (text.raw.decode() for text in texts)
    return name, date, description


def code_of(call, *arguments, **options) -> int:
    """The errno of a call that fails, 0 otherwise."""
    try:
        call(*arguments, **options)
    except OSError as error:
        return error.errno or -1
    return 0


def open_node(flags: int = os.O_RDWR) -> int:
    """A descriptor of the node."""
    return os.open(NODE, flags)
