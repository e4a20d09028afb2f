"""Memory and open files over time, of a server under requests and of a process that compiles, loads and runs models.

    python benchmarks/soak.py [--minutes M] [--share S] [--every SECONDS] [--json FILE]

Two processes are driven in turn for M minutes (2), so that with this one they take S (0.15) of one processor:

* `ane serve` with a tiny model of random weights: answers whole and in events, requests that are refused, clients that
  leave in the midst, that send no HTTP, that are too slow, and more connections than there may be;
* one that reads a model, compiles it with and without the cache, saves, loads, patches and runs it, is given files that
  are damaged, and opens and closes devices.

A line for each sample has the resident memory and the open files of both. Memory has grown where the median of the last
third of the samples is more than that of the second third by ROOM and by SHARE of it: what a process takes at first, it
keeps. Files have grown where the most of the last third are more than the most before. Exit code 1 where anything has
grown, or a process has ended, or an answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

ROOM = 2 << 20
SHARE = 0.02
PAGE = resource.getpagesize()
TICK = os.sysconf("SC_CLK_TCK")
DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
NAME = "tiny"
CONNECTIONS = 24
SLOW_SECONDS = 45.0
"""After which the server has ended a connection that sends no request."""
WORKER = "--worker"


@dataclass
class Watched:
    """A process, what it does in one round, and what was seen of it: MiB, and open files."""

    name: str
    process: subprocess.Popen[str]
    round: Callable[[], None]
    rounds: int = 0
    memory: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def look(self) -> None:
        """One sample."""
        place = Path("/proc") / str(self.process.pid)
        self.memory.append(int((place / "statm").read_text().split()[1]) * PAGE / (1 << 20))
        self.files.append(len(os.listdir(place / "fd")))

    def used(self) -> float:
        """Seconds of processors."""
        parts = (Path("/proc") / str(self.process.pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / TICK

    def grown(self) -> list[str]:
        """What has grown."""
        third = len(self.memory) // 3
        if not third:
            return []
        second, last = (statistics.median(part) for part in (self.memory[third:2 * third], self.memory[-third:]))
        found = []
        if last - second > max(ROOM / (1 << 20), SHARE * second):
            found.append(f"{self.name}: memory grew from {second:.1f} to {last:.1f} MiB")
        if max(self.files[-third:]) > max(self.files[:-third]):
            found.append(f"{self.name}: open files grew from {max(self.files[:-third])} to {max(self.files[-third:])}")
        return found


class Clients:
    """Those of the server, good and bad."""

    def __init__(self, port: int) -> None:
        self._port, self._slow, self._number = port, deque[tuple[float, socket.socket]](), 0

    def round(self) -> None:
        """Some of each kind."""
        self._number += 1
        seed = {"model": NAME, "max_tokens": 6, "seed": self._number}
        message = {"messages": [{"role": "user", "content": f"hello {self._number}"}]}
        self._expect(200, self._ask("completions", {**seed, "prompt": f"once {self._number}", "logprobs": 2}))
        self._expect(200, self._ask("chat/completions", {**seed, **message}))
        self._expect(200, self._ask("chat/completions", {**seed, **message, "stream": True, "n": 2}))
        self._expect(400, self._ask("completions", {**seed, "prompt": "x" * 500}))
        self._expect(400, self._ask("completions", {**seed, "prompt": "x", "temperature": [self._number]}))
        self._expect(400, self._send(os.urandom(64) + b"\r\n\r\n"))
        self._expect(413, self._send(self._head("completions", 1 << 30)))
        with self._connected() as leaving:
            body = json.dumps({**seed, "prompt": "x", "max_tokens": 90, "stream": True}).encode()
            leaving.sendall(self._head("completions", len(body)) + body)
            leaving.recv(1000)
        if self._number % 20 == 0:
            self._crowd()
        slow = self._connected()
        slow.sendall(b"GET /v1/mod")
        self._slow.append((time.monotonic(), slow))
        while self._slow and (time.monotonic() - self._slow[0][0] > SLOW_SECONDS or len(self._slow) > CONNECTIONS // 2):
            begun, connection = self._slow.popleft()
            with connection:
                if time.monotonic() - begun > SLOW_SECONDS:
                    self._expect(408, connection.recv(1 << 16))

    def _crowd(self) -> None:
        """More connections than there may be."""
        open_ones = [self._connected() for _ in range(CONNECTIONS + 4)]
        answer = b""
        for connection in open_ones[-2:]:
            connection.settimeout(5)
            answer = answer or connection.recv(1 << 16)
        for connection in open_ones:
            connection.close()
        self._expect(503, answer)
        time.sleep(1.5)  # in which the server notices that they left

    def _ask(self, path: str, document: object) -> bytes:
        body = json.dumps(document).encode()
        return self._send(self._head(path, len(body)) + body)

    def _head(self, path: str, size: int) -> bytes:
        return (f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n").encode()

    def _send(self, data: bytes) -> bytes:
        parts = []
        with self._connected() as connection:
            connection.sendall(data)
            while part := connection.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=60)

    def _expect(self, status: int, answer: bytes) -> None:
        if not answer.startswith(b"HTTP/1.1 %d " % status):
            raise RuntimeError(f"expected an answer with status {status}, found {answer[:300]!r}")


def server(folder: Path) -> Watched:
    """`ane serve` on a free port, and its clients."""
    from support.tiny_llama import write_directory

    write_directory(folder / NAME)
    process = subprocess.Popen([sys.executable, "-m", "openane", "serve", str(folder / NAME), "--port", "0",
                                "--max-connections", str(CONNECTIONS)], text=True, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = ""
    while (found := re.search(r"http://127\.0\.0\.1:(\d+)/v1", said)) is None:
        line = process.stderr.readline()
        if not line:
            raise RuntimeError(f"the server has ended: {said}")
        said += line
    errors, process.stderr = process.stderr, None
    os.set_blocking(errors.fileno(), False)
    clients = Clients(int(found[1]))

    def one() -> None:
        clients.round()
        while errors.read(1 << 16):  # what it says must go somewhere
            pass

    return Watched("server", process, one)


def library(folder: Path) -> Watched:
    """A process that uses the library, a round for each line it is given."""
    process = subprocess.Popen([sys.executable, __file__, WORKER, str(folder)], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)

    def one() -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        if process.stdout.readline() != "done\n":
            raise RuntimeError("the library's process has failed")

    return Watched("library", process, one)


def work(folder: Path) -> None:
    """The rounds of the library's process."""
    import numpy as np

    import openane as ane
    from openane.cache import Cache
    from openane.compiler import Model
    from openane.errors import AneError
    from openane.graph import Graph
    from openane.ops.build import GraphBuilder

    draw, ones = random.Random(0), np.ones((1, 8, 6, 6), np.float16)

    def network(scale: float) -> Graph:
        builder = GraphBuilder()
        x = builder.input("x", "fp16", (1, 8, 6, 6))
        weight = (np.random.default_rng(0).uniform(-0.3, 0.3, (8, 8, 3, 3)) * scale).astype(np.float16)
        y = builder.single("relu", x=builder.single("conv", x=x, weight=weight, pad_type="same"))
        return builder.finish({"y": builder.single("softmax", "y", x=y, axis=1)})

    def run(model: Model) -> None:
        inputs = {port.name: np.ones(port.shape, np.float16) for port in model.inputs}
        assert all(np.isfinite(each).all() for each in ane.run(model, inputs).values())

    for number, _ in enumerate(sys.stdin):
        model = ane.compile(network(1 + number % 40 / 64))
        model.save(folder / "n.ane")
        run(Model.load(folder / "n.ane"))
        run(Model.load(folder / "n.ane").patch(
            {name: np.zeros_like(value.data) for name, value in constants(model.graph).items()}).model)
        run(ane.compile(ane.load_graph(DIGITS), cache=False, target=draw.choice(("h13", "h16"))))
        model.save(folder / "n.hwx")
        data = bytearray((folder / "n.hwx").read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (folder / "changed.hwx").write_bytes(data)
        (folder / "n.ane" / "programs" / "0.hwx").write_bytes(data)
        for wrong in (lambda: ane.run(ane.load_program(folder / "changed.hwx"), {"x": ones}),
                      lambda: Model.load(folder / "n.ane"), lambda: ane.load_graph(folder / "n.hwx")):
            with suppress(AneError):
                wrong()
        with ane.open_device("simulator") as device, device.load(model) as executable:
            executable.run({"x": ones})
        if number % 40 == 39:
            Cache().clear()
        print("done", flush=True)


def constants(graph: object) -> dict[str, object]:
    """The constants of convolutions, by what they are called in a patch."""
    return {value.name: value for node in graph.nodes for key, value in node.operands.items()  # type: ignore[attr-defined]
            if key == "weight"}


def soak(watched: Sequence[Watched], minutes: float, share: float, every: float) -> None:
    """Drives and looks, and prints a line for each sample."""
    begin = time.monotonic()
    sampled, used_before = begin, time.process_time() + sum(each.used() for each in watched)
    print(f"{'minute':>7}" + "".join(f"  {each.name:>8} rounds      MiB  files" for each in watched), flush=True)
    while (now := time.monotonic()) - begin < 60 * minutes:
        for each in watched:
            each.round()
            each.rounds += 1
        if now - sampled >= every or not watched[0].memory:
            sampled = now
            for each in watched:
                each.look()
            print(f"{(now - begin) / 60:7.1f}" + "".join(
                f"  {each.rounds:15} {each.memory[-1]:8.1f} {each.files[-1]:6}" for each in watched), flush=True)
        used = time.process_time() + sum(each.used() for each in watched) - used_before
        time.sleep(max(0.0, begin + used / share - time.monotonic()))


def main() -> int:
    """See the module."""
    if sys.argv[1:2] == [WORKER]:
        work(Path(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--share", type=float, default=0.15)
    parser.add_argument("--every", type=float, help="seconds between two samples (default: a sixtieth of all)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {"ANE_CACHE": f"{name}/cache", "PYTHONPATH": os.pathsep.join(sys.path[:2])}
        watched = [server(Path(name)), library(Path(name))]
        try:
            soak(watched, options.minutes, options.share, options.every or options.minutes)
        finally:
            for each in watched:
                each.process.terminate()
                each.process.wait(30)
    if options.json:
        options.json.write_text(json.dumps([{"name": each.name, "rounds": each.rounds, "memory": each.memory,
                                             "files": each.files} for each in watched]))
    grown = [line for each in watched for line in each.grown()]
    print("\n".join(grown) or "nothing has grown")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
