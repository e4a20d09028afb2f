"""Files that hold engine programs: HWX (Apple's compiler) and ANEC (the Linux driver's tools). Imports no numpy."""

from openane.formats.anec import read_anec, write_anec
from openane.formats.files import detect, load_program, save_program
from openane.formats.hwx import read_hwx, write_hwx

__all__ = ["detect", "load_program", "read_anec", "read_hwx", "save_program", "write_anec", "write_hwx"]
