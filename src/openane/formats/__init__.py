"""Files that hold engine programs: HWX (Apple's compiler) and ANEC (the Linux driver's tools). Imports no numpy.

Names are imported when they are first used: whoever compiles a model and writes no file needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openane.requested import requested

if TYPE_CHECKING:
    from openane.formats.anec import read_anec, write_anec
    from openane.formats.files import detect, load_program, save_program
    from openane.formats.hwx import read_hwx, write_hwx

_HOMES = {
    "detect": "openane.formats.files",
    "load_program": "openane.formats.files",
    "read_anec": "openane.formats.anec",
    "read_hwx": "openane.formats.hwx",
    "save_program": "openane.formats.files",
    "write_anec": "openane.formats.anec",
    "write_hwx": "openane.formats.hwx",
}

__all__ = ["detect", "load_program", "read_anec", "read_hwx", "save_program", "write_anec", "write_hwx"]

__getattr__ = requested(__name__, _HOMES)
