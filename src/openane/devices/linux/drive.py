"""A trace driven against a driver, the simulated one or an engine: what is answered and left in memory is compared with
what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from openane.devices.closing import every
from openane.devices.linux.connection import attempt
from openane.devices.linux.interface import BO_FREE, BO_INIT, SUBMIT, BufferFree, BufferInit, Submit
from openane.devices.linux.kernel import Kernel, Mapping
from openane.devices.linux.trace import Difference, Event, Trace, first_difference
from openane.errors import FormatError

SHOWN = 8
"""Bytes of a difference in memory that are shown."""


def drive(trace: Trace, kernel: Kernel, node: str | None = None) -> Iterator[Difference]:
    """Sends a trace's requests to a driver and gives every difference: errors, answers (descriptors, handles and
    offsets may be others), and bytes of every buffer object a submission changed. `node` stands for the recorded one.

    Everything that was opened or made is given back, also when the caller stops early. FormatError for a trace whose
    events cannot follow each other.
    """
    replay = _Drive(trace, kernel, node)
    try:
        for number, event in enumerate(trace.events):
            yield from replay.step(number, event)
    finally:
        replay.close()


class _Drive:
    """Recorded numbers to the driver's own: descriptors by file, handles, mappings and offsets by (file, number)."""

    def __init__(self, trace: Trace, kernel: Kernel, node: str | None) -> None:
        self._trace, self._kernel, self._node = trace, kernel, node
        self._files: dict[int, int] = {}
        self._handles: dict[tuple[int, int], int] = {}
        self._offsets: dict[tuple[int, int], int] = {}
        self._maps: dict[tuple[int, int], Mapping] = {}
        self._made: dict[int, set[int]] = {}
        """The driver's handles by file: a trace may call two of them the same."""

    def step(self, number: int, event: Event) -> Iterator[Difference]:
        """One event."""
        if event.kind != "open" and event.file not in self._files:
            raise FormatError(f"{self._trace.path}: event {number} uses file {event.file}, which is not open")
        error = 0
        try:
            yield from self._perform(number, event)
        except OSError as failure:
            error = failure.errno or 0
        if error != event.error:
            yield Difference(number, f"errno of {event.describe()}", str(event.error), str(error))
        if event.kind == "ioctl" and event.request == SUBMIT and not error:
            yield from self._memory(number, event)

    def _perform(self, number: int, event: Event) -> Iterator[Difference]:
        """What the event did, done again. OSError where the kernel refuses it."""
        if event.kind == "open":
            if event.file in self._files:
                raise FormatError(f"{self._trace.path}: event {number} opens file {event.file}, which is open")
            self._files[event.file] = self._kernel.open(self._node or event.path)
        elif event.kind == "version":
            found = self._kernel.version(self._files[event.file])
            if found != event.texts:
                yield Difference(number, "version", ", ".join(event.texts), ", ".join(found))
        elif event.kind == "map":
            self._map(number, event)
        elif event.kind == "close":
            self._close(event.file)
        else:
            self._request(number, event)

    def close(self) -> None:
        """Gives back what a trace that ended early has left. DeviceError when the driver does not take it."""
        every([partial(attempt, "close", partial(self._close, file)) for file in list(self._files)])

    def _close(self, file: int) -> None:
        """Closes a file, first what the trace has left open in it: the driver frees nothing by itself."""
        for place in [place for place in self._maps if place[0] == file]:
            self._maps.pop(place).close()
        fd, made = self._files.pop(file), self._made.pop(file, set())
        every([*(partial(self._kernel.ioctl, fd, BO_FREE, BufferFree(handle).pack()) for handle in made),
               partial(self._kernel.close, fd)])

    def _map(self, number: int, event: Event) -> None:
        handle = self._trace.mapped(number, event.file, event.offset)
        offset = self._offsets.get((event.file, event.offset))
        if offset is not None:
            self._maps[event.file, handle] = self._kernel.map(self._files[event.file], event.length, offset)

    def _request(self, number: int, event: Event) -> None:
        """Sends a request, its handles replaced by the driver's own."""
        fd, file = self._files[event.file], event.file
        if event.request == BO_INIT:
            argument = bytearray(event.argument)
            self._kernel.ioctl(fd, BO_INIT, argument)
            recorded, made = BufferInit.unpack(event.answer or event.argument), BufferInit.unpack(argument)
            self._made.setdefault(file, set()).add(made.handle)
            self._handles[file, recorded.handle] = made.handle
            self._offsets[file, recorded.offset] = made.offset
        elif event.request == BO_FREE:
            free = BufferFree.unpack(event.argument)
            mapping = self._maps.pop((file, free.handle), None)
            if mapping is not None:
                mapping.close()
            own = self._handles.pop((file, free.handle), free.handle)
            self._kernel.ioctl(fd, BO_FREE, BufferFree(own, free.pad).pack())
            self._made.get(file, set()).discard(own)
        elif event.request == SUBMIT:
            for handle, blob in event.before.items():
                self._fill(number, (file, handle), self._trace.blob(blob))
            asked = Submit.unpack(event.argument)
            asked.handles = tuple(self._handles.get((file, handle), handle) for handle in asked.handles)
            asked.bootstrap = self._handles.get((file, asked.bootstrap), asked.bootstrap)
            self._kernel.ioctl(fd, SUBMIT, asked.pack())
        else:
            self._kernel.ioctl(fd, event.request, bytearray(event.argument))

    def _fill(self, number: int, place: tuple[int, int], data: bytes) -> None:
        if place not in self._maps:
            raise FormatError(f"{self._trace.path}: event {number} submits buffer object {place[1]}, which was never "
                              "mapped")
        with memoryview(self._maps[place]) as view:
            if len(data) > len(view):
                raise FormatError(f"{self._trace.path}: event {number} has {len(data)} bytes for buffer object "
                                  f"{place[1]} of {len(view)}")
            view[:len(data)] = data

    def _memory(self, number: int, event: Event) -> Iterator[Difference]:
        """What a submission left, against what it left when it was recorded."""
        for handle, blob in event.after.items():
            expected = self._trace.blob(blob)
            if (event.file, handle) not in self._maps:
                continue
            with memoryview(self._maps[event.file, handle]) as view:
                at = first_difference(view, expected)
                found = b"" if at is None else bytes(view[at:at + SHOWN])
            if at is not None:
                yield Difference(number, f"buffer object {handle} after SUBMIT, byte {at:#x}",
                                 expected[at:at + SHOWN].hex(" "), found.hex(" "))
