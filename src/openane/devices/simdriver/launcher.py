"""Becomes the program to watch: installs the filter in itself, hands the listener to its parent, executes the program.

Run by path in a fresh interpreter, so that nothing else has a filter and no thread is forked; it imports the standard
library alone, and no more once the filter is in force and nobody answers yet. Over the socket given by number it reads
one line of JSON (filter, command, environment, signal mask), answers with a byte and the listener's descriptor or with
an errno as a line of JSON, waits for a byte, and executes; the socket then closes, or tells the errno of the failure.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from typing import Any

_SET_PARENT_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES, _SECCOMP_SET_MODE_FILTER = 1, 38, 1


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def install(plan: dict[str, Any]) -> int:
    """Installs the plan's filter and returns the listener. OSError says why not."""
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4
    library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if library.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    code = bytes.fromhex(plan["filter"])
    program = _Filter(len(code) // 8, code)
    library.syscall.restype = ctypes.c_long
    for flags in plan["flags"]:
        listener = library.syscall(ctypes.c_long(plan["seccomp"]), ctypes.c_ulong(_SECCOMP_SET_MODE_FILTER),
                                   ctypes.c_ulong(flags), ctypes.byref(program))
        if listener >= 0:
            return int(listener)
    raise OSError(ctypes.get_errno(), "seccomp")


def main() -> None:
    """See the module."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    with socket.socket(fileno=int(sys.argv[1])) as parent:
        parent.set_inheritable(False)
        plan = json.loads(parent.makefile("rb").readline())
        try:
            listener = install(plan)
        except OSError as error:
            parent.sendall(json.dumps(error.errno).encode() + b"\n")
            return
        parent.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))])
        os.close(listener)
        if not parent.recv(1):
            return
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by the interpreter, not by whoever started the command
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, plan["mask"])
        try:
            os.execvpe(plan["command"][0], plan["command"], plan["environment"])
        except OSError as error:
            parent.sendall(json.dumps(error.errno).encode() + b"\n")


if __name__ == "__main__":
    main()
