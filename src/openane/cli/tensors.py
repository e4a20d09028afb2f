"""Every tensor a model makes on the simulator beside float64: where it overflows, loses precision, diverges.

The compiler says where tensors are (compiler.intermediates); what each task leaves is copied there while the programs
run, unchanged. The reference is the graph after the compiler's passes in float64 on the inputs as they are given. Two
errors are stated: that of the tensor, and its `own`, against float64 from the engine's own tensors before it: what the
operation and those fused with it add. Tensors inside a task are never stored and have neither. Where numbers became
infinite, the first task that stored one says which limit it was: that of the multiply-accumulate or fp16's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from openane.checking.beside import Link, Seen, computed_beside, multiplied
from openane.checking.check import room_for
from openane.checking.names import short
from openane.checking.numbers import ends
from openane.checking.watched import Kept
from openane.chips.arithmetic import SUM_LIMIT
from openane.cli.arrays import Array, compare
from openane.cli.output import shape_text, table
from openane.cli.subject import Subject
from openane.compiler import Model
from openane.compiler.inspect.intermediates import Intermediates, intermediates
from openane.compiler.partition.hosting import AllowHost
from openane.errors import UnsupportedError
from openane.graph import Node
from openane.ops.halves import LARGEST
from openane.wording import line_text

SHOWN = 40
"""Rows of a table; beyond, the worst."""
NAME = 80
"""Characters of a name in the table."""
EXACT_CHECK = "--check --arithmetic exact"

Row = dict[str, Any]


def known_tensors(subject: Subject, allow_host: AllowHost, asked: str = EXACT_CHECK) -> Intermediates:
    """Where the tensors of a subject are, for an option that `asked` for them. UnsupportedError for a program without
    its model, and for a model whose tensors are more than the simulator holds."""
    if not isinstance(subject.content, Model):
        raise UnsupportedError("--check", "a compiled program does not hold the model it was made from",
                               remedy="run the model itself or its bundle (.ane)")
    known = intermediates(subject.content.graph, subject.content.target, allow_host)
    room_for(known, asked, "ane run --check --arithmetic fast: outputs alone")
    return known


def compared(known: Intermediates, kept: list[Kept], inputs: Mapping[str, Array], threshold: float) -> list[Row]:
    """One row for each result of each operation, in order."""
    rows = [_row(seen, kept) for seen in computed_beside(known, kept, inputs)]
    first = next((row for row in rows if row["stored"] and not row["l2_rel"] <= threshold), None)
    return [row | {"first": row is first} for row in rows]


def _reason(seen: Seen, kept: list[Kept]) -> str:
    """Why a tensor has infinities where the reference has none."""
    finite = [link for link in seen.chain if np.isfinite(link.peak)]
    worst = max(finite, key=lambda link: link.peak, default=Link(seen.node, 0.0, 0.0, 0.0, ()))
    label, size, sums = short_name(worst.node), worst.peak, multiplied(kept, [link.node for link in seen.chain])
    if len(finite) < len(seen.chain) and size < (SUM_LIMIT if sums else LARGEST):
        return "its operands are infinite already"
    if not sums:
        return f"{label} reaches {size:.3g}, and fp16 ends at {LARGEST:.0f}"
    limit = f"the multiply-accumulate is infinite from {SUM_LIMIT:.0f} on"
    if size >= SUM_LIMIT:
        return f"{label} reaches {size:.3g}, and {limit}"
    return f"{limit}, and a partial sum got there though {label} reaches no more than {size:.3g}"


def lines(rows: list[Row], threshold: float) -> Iterator[str]:
    """The rows for people."""
    stored = [row for row in rows if row["stored"]]
    yield (f"  tensors against float64: {len(stored)} of {len(rows)} are stored, the others lie inside a task or are "
           "folded into a neighbour")
    chosen = stored
    if len(stored) > SHOWN:
        worst = sorted(stored, key=lambda row: (not (row["overflow"] or row["first"]), -_rank(row["own_l2_rel"])))
        chosen = [row for row in stored if any(row is each for each in worst[:SHOWN])]
        yield f"  the {SHOWN} whose operations add most error (--json has all):"
    yield from table([("operation", "tensor", "shape", "range", "max abs", "max rel", "rel L2", "own L2", ""),
                      *((line_text(row["operation"], NAME), line_text(row["tensor"], NAME), shape_text(row["shape"]),
                         f"{_digits(row['low'])} .. {_digits(row['high'])}", _digits(row["max_abs"]),
                         _digits(row["max_rel"]), _digits(row["l2_rel"]), _digits(row["own_l2_rel"]), _note(row))
                        for row in chosen)], indent="  ")
    if not any(row["first"] for row in rows):
        yield f"  no tensor's relative L2 error exceeds {threshold:g}"


def _row(seen: Seen, kept: list[Kept]) -> Row:
    wanted, made, node = seen.wide, seen.made, seen.node
    low, high = ends(wanted)
    tasks = [{"program": number, "tasks": list(each.places.tasks[id(node)])}
             for number, each in enumerate(kept) if id(node) in each.places.tasks]
    finite = wanted[np.isfinite(wanted)]
    beyond = int(np.count_nonzero(np.abs(finite) > LARGEST)) if wanted.dtype.kind == "f" else 0
    row: Row = {"operation": node.label, "tensor": seen.value.name, "shape": list(seen.value.shape), "engine": tasks,
                "stored": made is not None, "low": low, "high": high, "beyond_fp16": beyond,
                "overflow": None, "lost": None, "max_abs": None, "max_rel": None, "l2_rel": None, "own_max_abs": None,
                "own_l2_rel": None, "hosted": seen.hosted, "with": [link.node.label for link in seen.links],
                "reason": None}
    if made is None:
        return row
    real, own = wanted.astype(np.float64), compare(made, seen.near)
    overflow = int(np.count_nonzero(np.isinf(made) & np.isfinite(real)))
    return row | compare(made, real) | {
        "own_max_abs": own["max_abs"], "own_l2_rel": own["l2_rel"], "overflow": overflow,
        "lost": int(np.count_nonzero((made == 0) & (real != 0))), "reason": _reason(seen, kept) if overflow else None}


def _note(row: Row) -> str:
    notes = [f"{row['overflow']} infinite: {row['reason']}"] if row["overflow"] else []
    if row["overflow"] and row["with"]:
        notes.append(f"made together with {line_text(', '.join(map(short, row['with'])))}")
    if row["beyond_fp16"]:
        notes.append(f"{row['beyond_fp16']} of the reference beyond fp16's {LARGEST:.0f}")
    if row["lost"]:
        notes.append(f"{row['lost']} became 0")
    return "; ".join([*notes, *(["first over the threshold"] if row["first"] else [])])


def _rank(error: float) -> float:
    return np.inf if np.isnan(error) else error


def short_name(node: Node) -> str:
    """An operation in a table."""
    return line_text(short(node.label), NAME)


def _digits(number: float | None) -> str:
    return "-" if number is None else f"{number:.3g}"
