"""What `ops/homes.py` says, as the modules themselves do: `make docs` writes it anew."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from openane import ops
from openane.ops import Op, register

FILE = Path(ops.__file__).parent / "homes.py"
HEAD = '''\
"""Which operations each module of this folder describes, none where it holds what several share, and what the last
node may be of those that are written out in others. Written by `make docs`: with it an operation is known without its
module, which is imported for graphs that have it. A module that is not listed is imported at once.
"""

from __future__ import annotations

from collections.abc import Mapping

'''
LINE = 120


def written() -> str:
    """The whole file."""
    names = sorted(info.name for info in iter_modules(ops.__path__))
    modules = [import_module(f"openane.ops.{name}") for name in names]
    found: dict[str, tuple[Op, ...]] = {name: getattr(module, "OPS", ()) for name, module in zip(names, modules,
                                                                                                 strict=True)}
    known = register(op for each in found.values() for op in each)
    endings: dict[str, list[str]] = {}
    for op in known.values():
        for last in op.recognise:
            endings.setdefault(last, []).append(op.name)
    homes = {name: [op.name for op in each] for name, each in found.items()}
    return HEAD + _table("HOMES", homes) + '"""By the name of a module."""\n' + _table("ENDINGS", endings) + \
        '"""By the name of the last node: the operations, in alphabetical order."""\n'


def _table(name: str, rows: Mapping[str, list[str]]) -> str:
    lines = [f"{name}: Mapping[str, tuple[str, ...]] = {{"]
    for key, values in sorted(rows.items()):
        line = f'    "{key}": ('
        for value in values:
            piece = f'"{value}", '
            if len(line) + len(piece) > LINE - 2:
                lines.append(line.rstrip())
                line = " " * 8
            line += piece
        lines.append(line.rstrip(", ") + ("," if len(values) == 1 else "") + "),")
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    FILE.write_text(written())
