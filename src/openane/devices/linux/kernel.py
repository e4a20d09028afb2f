"""The five system calls the Linux backend makes, as an interface: the real driver and every stand-in implement it.

Requests and arguments are the bytes of the driver's structures (`interface`), so what is recorded, replayed and served
to other processes is exactly what a kernel sees.
"""

from __future__ import annotations

from typing import Protocol


class Mapping(Protocol):
    """Memory of a buffer object, as `mmap.mmap`: a writable buffer of `length` bytes."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...

    def close(self) -> None:
        """Unmaps. BufferError while arrays or memoryviews of it exist."""
        ...


class Kernel(Protocol):
    """Open, ioctl, mmap, close on device nodes. Every failure is an OSError with the driver's errno."""

    def nodes(self) -> tuple[str, ...]:
        """Paths of the accelerator nodes there are (/dev/accel/accel0, ...), whatever driver is behind them."""
        ...

    def open(self, path: str) -> int:
        """A file descriptor of the node."""
        ...

    def version(self, fd: int) -> tuple[str, str, str]:
        """The driver's name, date and description (the DRM VERSION request, which carries pointers)."""
        ...

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        """Sends the structure `argument` with a request and leaves the driver's answer in it."""
        ...

    def map(self, fd: int, length: int, offset: int) -> Mapping:
        """Maps `length` bytes of a buffer object at the offset BO_INIT gave (shared, readable, writable)."""
        ...

    def close(self, fd: int) -> None:
        """Closes the descriptor. The driver keeps buffer objects nobody has freed until it is unloaded."""
        ...
