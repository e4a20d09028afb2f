"""Room for connections among the files that the system lets a process have open."""

from __future__ import annotations

import sys

from openane.errors import UnsupportedError

OTHERS = 64
"""Files that a server has open besides its connections."""
EACH = 2
"""Sockets for each connection that may be open: one that is refused is open until its client has read why."""


def require_open_files(connections: int) -> None:
    """Lets this process have as many files open as that many connections take. UnsupportedError where the system does
    not: a server without a file to accept a client with would do nothing but say so."""
    if sys.platform == "win32":
        return
    import resource

    wanted = EACH * connections + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        room = max((hard - OTHERS) // EACH, 0)
        raise UnsupportedError("--max-connections", f"a process may have {hard} files open here, and a connection "
                               f"takes {EACH}", found=connections, limit=room,
                               remedy=f"--max-connections {room}, or raise the limit of the system (ulimit -n)"
                               if room else "raise the limit of the system (ulimit -n)")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        raise UnsupportedError("--max-connections", f"the system does not let a process have {wanted} files open: "
                               f"{error}", found=connections, remedy="name a smaller number") from None
