"""What `ane train` shows while it runs: JSON lines, a live panel by rich on a terminal, or plain lines."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from openane.cli.output import say, say_whole
from openane.rounding import ceil_div

Event = dict[str, Any]
BARS = " ▁▂▃▄▅▆▇█"
LENGTH = 60
LINES = 10
"""Steps between two plain lines."""


class Display(Protocol):
    """Is shown every event."""

    def preparing(self) -> None:
        """Data are read and programs compiled, which may take long."""
        ...

    def show(self, event: Event) -> None:
        """One event."""
        ...

    def plotted(self, path: Path) -> None:
        """The loss curve was drawn."""
        ...

    def close(self) -> None:
        """Nothing more is shown live."""
        ...


def open_display(json: bool, rank: int, quiet: bool = False) -> Display:
    """The display for this terminal; ranks other than 0 show nothing."""
    if rank or quiet:
        return Nothing()
    if json:
        return Lines()
    terminal = sys.stdout is not None and sys.stdout.isatty()  # None: it was closed before the start
    return Live() if terminal and find_spec("rich") else Plain()


class Nothing:
    """Shows nothing."""

    def preparing(self) -> None:
        """See `Display.preparing`."""

    def show(self, event: Event) -> None:
        """See `Display.show`."""

    def plotted(self, path: Path) -> None:
        """See `Display.plotted`."""

    def close(self) -> None:
        """See `Display.close`."""


class Lines(Nothing):
    """One JSON object per line on stdout."""

    def show(self, event: Event) -> None:
        """See `Display.show`."""
        from openane.training.journal import as_line
        say_whole(f"{as_line(event)}\n", flush=True)


class Plain(Nothing):
    """A line for every tenth step, every epoch, and what else happens."""

    def preparing(self) -> None:
        """See `Display.preparing`."""
        say("ane: reading the data and compiling the network", file=sys.stderr, flush=True)

    def show(self, event: Event) -> None:
        """See `Display.show`."""
        if event["event"] != "step" or event["step"] % LINES == 0 or event["skipped"]:
            say("\n".join(text_of(event)), flush=True)

    def plotted(self, path: Path) -> None:
        """See `Display.plotted`."""
        say(f"loss curve: {path}", flush=True)


class Live(Plain):
    """A panel that is redrawn: the last step, and the losses as a row of bars."""

    def __init__(self) -> None:
        from rich.live import Live as Panel
        self._panel = Panel(auto_refresh=False)
        self._losses: list[float] = []
        self._last: list[str] = []
        self._open = False

    def show(self, event: Event) -> None:
        """See `Display.show`."""
        if event["event"] != "step":
            self._print("\n".join(text_of(event)))
            return
        if not self._open:
            self._panel.start()
            self._open = True
        self._losses.append(event["loss"])
        self._panel.update("\n".join([*text_of(event), bars(self._losses)]), refresh=True)

    def close(self) -> None:
        """See `Display.close`."""
        if self._open:
            self._panel.stop()
            self._open = False

    def _print(self, text: str) -> None:
        self._panel.console.print(text, markup=False, highlight=False)


def bars(losses: list[float], length: int = LENGTH) -> str:
    """The losses as characters of eight heights, neighbours averaged."""
    finite = [loss for loss in losses if abs(loss) < float("inf")]
    if not finite:
        return ""
    size = ceil_div(len(finite), length)
    means = [sum(part) / len(part) for part in (finite[i:i + size] for i in range(0, len(finite), size))]
    top = max(means) or 1.0
    return "".join(BARS[max(0, min(8, round(8 * mean / top)))] for mean in means)


def text_of(event: Event) -> list[str]:
    """An event in lines for people."""
    kind = event["event"]
    if kind == "step":
        skipped = f"  skipped: {event['reason']}" if event["skipped"] else (
            f"  {event['infinities']} infinities on the way" if event["infinities"] else "")
        return [f"step {event['step']:>6}  loss {event['loss']:.4f}  rate {event['rate']:.3g}  norm "
                f"{event['norm']:.3g}  scale {event['scale']:g}  {event['seconds'] * 1e3:.0f} ms  engine "
                f"{event['engine_share']:.0%}{skipped}"]
    if kind == "start":
        return _start(event)
    said = [f"{key.replace('_', ' ')} {each:.4f}" for key, each in event.items()
            if key.startswith(("test_", "validation_"))]
    if kind == "epoch":
        return ["  ".join([f"epoch {event['epoch']}  mean loss {event['loss']:.4f}", *_lost(event), *said])]
    if kind == "end":
        return ["  ".join([f"done after {event['step']} steps, {event['updates']} updates, {event['skipped']} skipped",
                           *said])]
    return [f"{kind} at step {event.get('step', 0)}: {event.get('reason', '')}"]


def _lost(event: Event) -> list[str]:
    """What an epoch's mean is not made of."""
    return [f"{event[key]} steps {word}" for key, word in (("skipped", "skipped"), ("without_loss", "without a finite "
            "loss, not in the mean")) if event[key]]


def _start(event: Event) -> list[str]:
    ranks = f" on {event['ranks']} ranks" if event["ranks"] > 1 else ""
    lines = [f"{event['weights']} weights, {event['steps']} steps from step {event['step']}, {event['device']}{ranks}",
             f"weights by {event['route']}; {event['engine_operations']} operations of a step on the engine "
             f"({event['tasks']} tasks), {len(event['host_operations'])} on the host"]
    if event["not_trained"]:
        lines.append(f"trained: {', '.join(event['trained'])}; as they are: {', '.join(event['not_trained'])}")
    lines += [f"  host: {each['operation']}: {each['reason']}" for each in event["host_operations"][:20]]
    return lines + [f"  {note}" for note in event["notes"]]
