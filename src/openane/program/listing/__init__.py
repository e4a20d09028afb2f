"""The text form of tasks: printed by named fields, and read back to the same words."""

from openane.program.listing.lexer import Line, ListingToken, TextError, integer, number, quoted, read_lines, unquoted
from openane.program.listing.parse import parse_task
from openane.program.listing.tasks import RestBits, rest_bits, summary, task_lines
from openane.program.listing.words import in_words, slot_names

__all__ = [
           "Line",
           "ListingToken",
           "RestBits",
           "TextError",
           "in_words",
           "integer",
           "number",
           "parse_task",
           "quoted",
           "read_lines",
           "rest_bits",
           "slot_names",
           "summary",
           "task_lines",
           "unquoted",
]
