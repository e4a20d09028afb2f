"""A process that reads mutants of one target, one after the other, and the one that watches it.

A mutant is known by its number: the generator it is drawn with is seeded with target, seed and number. The reader's
process writes the number to a shared page before it begins with a mutant, so that whoever watches knows which one a
process died of, or has been at for too long. Neither a mutant nor a target costs a process of its own.
"""

from __future__ import annotations

import json
import mmap
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzzing.files import Target
from openane.errors import AneError

SLOWEST = 6.0
"""Seconds of processor time that one mutant may take."""
STUCK = 120.0
"""Seconds after which a process that is still at the same mutant is ended."""
ROOM = 1 << 30
"""Bytes that reading may take beyond what is there before."""
SHORTEST = 8
"""Characters of a message that says something."""
BATCH = 100
"""Mutants between two looks at the clock."""
PAGE = 1 << 16
IN_MEMORY = "/dev/shm"
"""Where Linux keeps files in memory."""


@dataclass
class Found:
    """What became of the mutants of a target. `defects` has, by what was wrong, how often and the first's number."""

    tried: int = 0
    read: int = 0
    seconds: float = 0.0
    defects: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {"tried": self.tried, "read": self.read, "seconds": self.seconds,
                "defects": self.defects.most_common(40), "first": dict(list(self.first.items())[:40])}

    def add(self, told: Mapping[str, Any]) -> None:
        """What another process found besides."""
        self.tried, self.read = self.tried + told["tried"], self.read + told["read"]
        self.seconds += told["seconds"]
        for wrong, often in told["defects"]:
            self.defects[wrong] += often
            self.first.setdefault(wrong, told["first"].get(wrong, -1))

    def defect(self, wrong: str, number: int) -> None:
        """Notes one."""
        self.defects[wrong] += 1
        self.first.setdefault(wrong, number)


class TooSlow(BaseException):
    """A reader took longer than SLOWEST."""


def drawn(target: Target, name: str, seed: int, number: int) -> bytes:
    """A mutant by its number."""
    draw = random.Random(f"{name} {seed} {number}")
    return target.mutant(draw.choice(target.seeds), draw)


@contextmanager
def timed() -> Iterator[None]:
    """Raises TooSlow within when it takes longer than SLOWEST, of the processor's time: a machine may be busy."""
    signal.setitimer(signal.ITIMER_PROF, SLOWEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _late(*_: object) -> None:
    raise TooSlow


def wrong_with(read: Callable[[bytes], object], data: bytes, found: Found, again: bool = True) -> str | None:
    """What is wrong with how the bytes are read, if anything. What is too slow is tried `again`, since a busy machine
    may have been it."""
    try:
        with timed():
            read(data)
        found.read += 1
    except AneError as error:
        return None if len(str(error)) > SHORTEST else f"an error without a message: {type(error).__name__}"
    except TooSlow:
        return wrong_with(read, data, found, again=False) if again else f"more than {SLOWEST:g} s"
    except MemoryError:
        return "more memory than there is room for"
    except RecursionError:
        return "RecursionError"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = next((each for each in reversed(frames) if "openane" in each.filename), frames[-1])
        return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error!s:.80}"
    return None


@dataclass
class Run:
    """What is left to do for a target: mutants from number `start` on, `count` of them, for so many seconds."""

    name: str
    start: int
    count: int
    seconds: float


def work(makers: Mapping[str, Callable[[Path], Target]], runs: Sequence[Run], seed: int, page: mmap.mmap) -> None:
    """Does the runs, one after the other; what each finds is in the page until the next one begins, and printed."""
    signal.signal(signal.SIGPROF, _late)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    for place, run in enumerate(runs):
        struct.pack_into("<qqq", page, 0, place, -1, 0)
        with tempfile.TemporaryDirectory(dir=IN_MEMORY if Path(IN_MEMORY).is_dir() else None) as folder:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            target = makers[run.name](Path(folder))
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, hard))
            found = _mutants(target, run, seed, page)
        print(json.dumps([place, found.told()]), flush=True)


def _mutants(target: Target, run: Run, seed: int, page: mmap.mmap) -> Found:
    found, begin = Found(), time.monotonic()
    for number in range(run.start, run.start + run.count):
        struct.pack_into("<q", page, 8, number)
        wrong = wrong_with(target.read, drawn(target, run.name, seed, number), found)
        found.tried += 1
        if wrong is not None:
            found.defect(wrong, number)
        if found.tried % BATCH == 0 or wrong is not None:
            found.seconds = time.monotonic() - begin
            text = json.dumps(found.told()).encode()[:PAGE - 24]
            struct.pack_into("<q", page, 16, len(text))
            page[24:24 + len(text)] = text
            if found.seconds > run.seconds:
                break
    found.seconds = time.monotonic() - begin
    return found


def watched(runs: Sequence[Run], seed: int, script: Path) -> Iterator[tuple[str, Found]]:
    """What is found for each target, by a process that `script` runs, and by another one where it dies or is too slow
    to say so itself."""
    totals = [Found() for _ in runs]
    done = 0
    while done < len(runs):
        with tempfile.TemporaryFile() as file:
            file.truncate(PAGE)
            page = mmap.mmap(file.fileno(), PAGE)
            struct.pack_into("<qq", page, 0, 0, -1)
            left = runs[done:]
            first = done
            with subprocess.Popen([sys.executable, str(script), "--seed", str(seed), "--page", str(file.fileno()),
                                   "--runs", json.dumps([asdict(run) for run in left])],
                                  pass_fds=[file.fileno()], stdout=subprocess.PIPE, text=True) as process:
                threading.Thread(target=_end_if_stuck, args=(process, page), daemon=True).start()
                assert process.stdout is not None
                for line in process.stdout:
                    place, told = json.loads(line)
                    totals[first + place].add(told)
                    done = first + place + 1
                    yield runs[done - 1].name, totals[done - 1]
            status = process.returncode
            if status:
                _died(runs, totals, done, page, status)
                if runs[done].count <= 0 or runs[done].seconds <= 0:
                    yield runs[done].name, totals[done]
                    done += 1


def _died(runs: Sequence[Run], totals: Sequence[Found], at: int, page: mmap.mmap, status: int) -> None:
    """Notes the mutant that a process died of, and what is left to do after it."""
    number, size = struct.unpack_from("<qq", page, 8)
    if number < 0:
        raise RuntimeError(f"{runs[at].name}: its seeds cannot be made")
    run, total = runs[at], totals[at]
    told = json.loads(page[24:24 + size]) if size else Found().told()
    total.add({**told, "tried": number + 1 - run.start})
    total.defect(f"more than {STUCK:g} s, in one call that does not end" if status == -signal.SIGKILL else
                 f"the process ended with {status}", number)
    run.count -= number + 1 - run.start
    run.start, run.seconds = number + 1, run.seconds - told["seconds"] - SLOWEST


def _end_if_stuck(process: subprocess.Popen[str], page: mmap.mmap) -> None:
    """Ends a process that is at one mutant for too long."""
    known, since = (-2, -2), time.monotonic()
    while process.poll() is None:
        time.sleep(1)
        now = struct.unpack_from("<qq", page)
        if now != known:
            known, since = now, time.monotonic()
        elif now[1] >= 0 and time.monotonic() - since > STUCK:
            process.kill()
