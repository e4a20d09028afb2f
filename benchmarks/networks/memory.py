"""How much memory a process took."""

from __future__ import annotations

import resource
from pathlib import Path


def highest_memory() -> int:
    """The most memory this process ever had, in bytes. Linux counts what the parent had in ru_maxrss, not in VmHWM."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
