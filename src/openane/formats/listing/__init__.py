"""Compiled files as text, without loss: `disassemble_file` and `assemble_file`, exact inverses of each other."""

from openane.formats.listing.asm import assemble, assemble_file
from openane.formats.listing.dis import Listing, disassemble_bytes, save_listing

__all__ = ["Listing", "assemble", "assemble_file", "disassemble_bytes", "save_listing"]
