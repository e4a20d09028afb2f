"""What a check found, as lines for people and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isfinite
from textwrap import wrap
from typing import Any

from openane.checking.causes import NumericFault
from openane.checking.check import CLOSE, Checked, CheckedOutput, CheckedTensor
from openane.checking.faults import NOTABLE
from openane.checking.names import short
from openane.wording import line_text, plural

WORST = 5
"""Operations that are shown unless all are asked for."""
LINE = 120
NAME = 60
PLACES = {"engine": "", "counted": "in whole steps", "host": "computed by the host in fp32",
          "inside": "inside of a task, never stored", "merged": "merged into another operation"}


def document(checked: Checked) -> dict[str, Any]:
    """Everything, as plain data; errors are relative."""
    cause = checked.cause
    return {"name": checked.name, "target": checked.target, "precision": checked.precision, "inputs": checked.inputs,
            "right": checked.right, "close": CLOSE, "verdict": verdict(checked),
            "cause": None if cause is None else asdict(cause),
            "outputs": [asdict(output) | {"right": output.right} for output in checked.outputs],
            "faults": [asdict(each) for each in checked.faults],
            "tensors": [asdict(tensor) | {"shape": list(tensor.shape)} for tensor in checked.tensors]}


def verdict(checked: Checked) -> str:
    """The result in a sentence."""
    wrong = [output for output in checked.outputs if not output.right]
    cause = checked.cause
    if not wrong:
        return _right(checked)
    said = ", ".join(f"{output.name} ({_error(output.error, output.infinite)})" for output in wrong[:4])
    blame = "No operation that the engine computes adds an error." if cause is None else \
        f"The first cause is {short(cause.operation)}: it {_damage(cause)}." if cause.severity >= NOTABLE else \
        f"Many small errors add up; they grow most at {short(cause.operation)}."
    count = f"{len(wrong)} of {plural(len(checked.outputs), 'output')}"
    return f"Wrong: {count} {'differs' if len(wrong) == 1 else 'differ'} from fp32: {said}. {blame}"


def _right(checked: Checked) -> str:
    worst = max((output.error for output in checked.outputs if output.error <= CLOSE), default=0.0)
    other = [output for output in checked.outputs if output.error > CLOSE]
    said = [] if other and len(other) == len(checked.outputs) else [f"within {worst:.2%} of fp32"]
    said += _named("no more than one of its steps of quantisation from fp32", [o for o in other if o.steps is not None])
    small = _named("as close to fp32 as fp16 holds numbers that are so small", [o for o in other if o.steps is None])
    text = f"Right: every output is {'; or '.join(said + small)}."
    if small:
        return text
    cause = checked.cause
    return text if cause is None else (f"{text} But {short(cause.operation)} {_damage(cause)}, which these outputs "
                                       "hardly show; others may.")


def _named(words: str, outputs: Sequence[CheckedOutput]) -> list[str]:
    """What is said of some outputs, nothing where there are none."""
    names = ", ".join(f"{output.name} ({_error(output.error, 0)})" for output in outputs[:4])
    return [f"{words}: {names}"] if outputs else []


def _damage(found: NumericFault) -> str:
    return "makes infinities" if found.infinite else f"loses {found.severity:.0%} of its result"


def _error(error: float, infinite: int) -> str:
    return f"{infinite} infinite or NaN" if infinite else f"by {error:.1%}"


def lines(checked: Checked, every: bool = False) -> Iterator[str]:
    """The verdict, the worst operations with their causes, and with `every` all tensors."""
    yield (f"{line_text(checked.name)} for {checked.target}, precision {checked.precision}, "
           f"run on {_inputs(checked.inputs)}")
    yield from _filled(verdict(checked), "")
    shown = checked.faults if every else checked.faults[:WORST]
    for number, found in enumerate(shown, 1):
        yield ""
        yield f"{number}. {line_text(short(found.operation))}: {found.cause}" + ("  (the first cause)" if number == 1
                                                                                 else "")
        yield from _filled(f"why   {found.sentence}.", "   ")
        yield from _filled(f"help  {found.help}.", "   ")
    if len(shown) < len(checked.faults):
        yield f"and {plural(len(checked.faults) - len(shown), 'more operation')} (--all shows every one)"
    yield ""
    yield from _tensors(checked, every)


def _inputs(source: str) -> str:
    return "drawn inputs (--sample gives others)" if source == "drawn" else source


def _filled(text: str, indent: str) -> list[str]:
    following = indent + ("      " if indent else "")
    return wrap(line_text(text, len(text)), LINE, initial_indent=indent, subsequent_indent=following)


def _tensors(checked: Checked, every: bool) -> Iterator[str]:
    stored = [tensor for tensor in checked.tensors if tensor.added is not None]
    if every:
        yield (f"every result of {plural(len(checked.tensors), 'operation')}; errors are relative to fp32, in total, "
               "added by the operation and its task, and inherited from its inputs:")
        rows = list(checked.tensors)
    else:
        rows = sorted(stored, key=lambda tensor: -(tensor.added or 0.0))[:WORST]
        yield f"the {len(rows)} of {len(stored)} stored results that add most error (--all shows every one):"
    heading = ("operation", "range in fp32", "held by the engine", "error", "added", "inherited", "")
    cells = [heading, *(_cells(tensor) for tensor in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heading))]
    for row in cells:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(tensor: CheckedTensor) -> tuple[str, ...]:
    note = f"{tensor.infinite} infinite" if tensor.infinite else PLACES[tensor.where]
    return (line_text(short(tensor.operation), NAME), _range(tensor.low, tensor.high),
            _range(tensor.held_low, tensor.held_high), _share(tensor.error), _share(tensor.added),
            _share(tensor.inherited), note)


def _range(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.3g} .. {high:.3g}"


def _share(error: float | None) -> str:
    return "-" if error is None else f"{error:.2%}" if isfinite(error) else "infinite"
