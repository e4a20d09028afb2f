"""HWX: the files Apple's compiler produces for the engine, a Mach-O dialect."""

from openane.formats.hwx.image import LAYOUTS, MAGIC
from openane.formats.hwx.reading import read_hwx
from openane.formats.hwx.writing import write_hwx

__all__ = ["LAYOUTS", "MAGIC", "read_hwx", "write_hwx"]
