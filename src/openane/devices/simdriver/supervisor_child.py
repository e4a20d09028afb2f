"""Starting a program with the filter of `seccomp` in force, through `launcher`: a fresh interpreter that becomes it."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from openane.devices.simdriver import launcher
from openane.devices.simdriver.seccomp import ALTERNATIVES, KILLABLE, LISTENER, Listener, this_machine
from openane.devices.simdriver.supervisor_memory import require_access
from openane.errors import DeviceError, DeviceUnavailable
from openane.record_classes import dataclass

_REASONS = {
    errno.EBUSY: "this process already runs under a supervisor of its own (only one listens to a process)",
    errno.ENOSYS: "this kernel has no seccomp filters, or hides them",
    errno.EINVAL: "this kernel has no seccomp user notification (Linux 5.0 has)",
    errno.EPERM: "a policy of this container or system forbids seccomp filters",
    errno.EACCES: "a policy of this container or system forbids seccomp filters",
    errno.ENOMEM: "there is no memory for the filter",
}


@dataclass
class Child:
    """A program about to run: it executes at `go`. `channel` becomes readable when it has, or could not."""

    pid: int
    listener: Listener
    channel: socket.socket

    def go(self) -> None:
        """Lets it execute. From now on its calls must be answered."""
        self.channel.sendall(b"\n")

    def failure(self) -> int:
        """Once the channel is readable: 0 when the program runs, or else the errno of the failed execution."""
        line = self.channel.makefile("rb").readline()
        return int(line) if line else 0

    def close(self) -> None:
        """Closes both descriptors."""
        self.channel.close()
        self.listener.close()


def start(command: Sequence[str]) -> Child:
    """Starts the launcher of a command. The caller waits for the process.

    DeviceUnavailable says what forbids watching programs here.
    """
    machine = this_machine()
    if not sys.executable:
        raise DeviceUnavailable("this interpreter does not know where it is, so it cannot start another", ALTERNATIVES)
    plan = {"filter": machine.program.hex(), "seccomp": machine.seccomp, "flags": [LISTENER + KILLABLE, LISTENER],
            "command": list(command), "environment": dict(os.environ),
            "mask": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]}
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            theirs.set_inheritable(True)
            script = str(Path(launcher.__file__))
            pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", script, str(theirs.fileno())], os.environ)
        try:
            ours.sendall(json.dumps(plan).encode() + b"\n")
            return Child(pid, _listener(ours, pid), ours)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
    except BaseException:
        ours.close()
        raise


def _listener(channel: socket.socket, pid: int) -> Listener:
    """What the launcher hands over. DeviceUnavailable when it could not install the filter, or its memory is closed
    to us."""
    try:
        message, descriptors, _, _ = socket.recv_fds(channel, 256, 1)
    except ConnectionError:
        message, descriptors = b"", []
    if not descriptors:
        if not message.strip():
            raise DeviceError("the interpreter that should become the program ended before it did")
        code = int(message)
        raise DeviceUnavailable(_REASONS.get(code, f"the filter was not installed: {os.strerror(code)}"), ALTERNATIVES)
    listener = Listener(descriptors[0])
    try:
        require_access(pid)
    except OSError as error:
        listener.close()
        raise DeviceUnavailable(f"the memory of an own process is not accessible ({error.strerror}): /proc is not "
                                "mounted, kernel.yama.ptrace_scope is 2 or 3, or a policy forbids process_vm_writev",
                                ALTERNATIVES) from None
    return listener
