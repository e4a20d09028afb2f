"""How quantities are written wherever people read them: one spelling for commands, reports and messages."""

import unicodedata

LONGEST_MESSAGE = 1000
"""Characters of a line of a message."""
LONGEST = 160
"""Characters of a name in a line for people."""


def byte_text(count: int) -> str:
    """A byte count in the unit that reads best: `640 B`, `16.0 KiB`, `7.8 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def plural(count: int, noun: str) -> str:
    """`1 task`, `3 tasks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def message_text(text: str) -> str:
    """A message that may quote a file, for a terminal: lines stay, each as `line_text` has it."""
    return "\n".join(line_text(line, LONGEST_MESSAGE) for line in text.replace("\t", "    ").split("\n"))


def without_controls(text: str) -> str:
    """A text of lines with every control character spelled out but those that end lines and tabs: none of it commands a
    terminal."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else repr(c)[1:-1] for c in text)


def line_text(text: str, longest: int = LONGEST) -> str:
    """A name for a line that people read: characters that print nothing are spelled out, and of more than `longest`
    characters the ends stay."""
    if len(text) > longest:
        left = f"...({len(text)} characters)..."
        ends = longest - len(left)
        text = text[:ends - ends // 3] + left + text[-(ends // 3):]
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
