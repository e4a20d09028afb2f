"""Mutated files of every format: each is read or refused with a message, in little time and memory.

    python benchmarks/fuzz.py [FORMAT]... [--seconds S | --count N] [--seed SEED] [--keep FOLDER]

The files that are changed are the project's own: the digit classifier, and small graphs, in every format it can write.
Formats take turns for S seconds (60) altogether, or each has N mutants. A defect is an exception that is no AneError,
an AneError without a message, more than SLOWEST seconds, or more memory than ROOM bytes beyond what is there; its
mutant is written to FOLDER. Printed are the mutants of each format, how many were read, and the defects. Exit code 1
where there are any.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openane as ane
from openane.errors import AneError
from openane.formats.listing import assemble, disassemble_bytes
from openane.graph.mil import print_mil
from openane.importers import load_graph, write_mlpackage, write_netplist
from openane.ops.build import GraphBuilder

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
SLOWEST = 6.0
ROOM = 1 << 30
EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x4000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
TOKENS = (b"-1", b"0", b"99999999999999999999", b"1e999", b"nan", b"{", b"}", b"[", b"]", b"(", b"<", b'"', b"\x00",
          b"\xff", b"\x1b[2J", b"tensor<fp16, [4294967296]>", b"tensor<4294967296x1xf32>")
TEXTS = ("mil", "netplist", "listing", "stablehlo")
STABLEHLO = """#loc1 = loc("x")
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<1x4x4x2xf32> loc("x")) -> (tensor<1x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32> loc(#loc2)
    %w = stablehlo.constant dense<[[0.5, 1.0, -2.0], [1.5, 0.25, 3.0]]> : tensor<2x3xf32>
    %k = stablehlo.constant dense<"0x0000803F000000BF0000003F0000803F"> : tensor<1x1x2x2xf32>
    %0 = stablehlo.convolution(%arg0, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[0, 0], [0, 0]]} {feature_group_count = 1 : i64} :
      (tensor<1x4x4x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x4x4x2xf32>
    %1 = "stablehlo.reduce_window"(%0, %cst) <{window_dimensions = array<i64: 1, 4, 4, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x1x1x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x1x2xf32>) -> tensor<1x2xf32>
    %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0] :
      (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
    %4 = call @relu(%3) : (tensor<1x3xf32>) -> tensor<1x3xf32> loc(#loc2)
    return %4 : tensor<1x3xf32>
  }
  func.func private @relu(%arg0: tensor<1x3xf32>) -> tensor<1x3xf32> {
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x3xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x3xf32>
    return %1 : tensor<1x3xf32>
  }
}
#loc2 = loc("jit(f)/dot"(callsite("f.py":1:2 at #loc1)))
"""
"""A module as jax.export writes it, with most of what its text has."""


@dataclass
class Format:
    """Files to change, and what reads one from a path."""

    name: str
    suffix: str
    seeds: list[bytes]
    read: Callable[[Path], object]
    tried: int = 0
    taken: int = 0
    defects: Counter[str] = field(default_factory=Counter)


def formats(folder: Path) -> list[Format]:
    """Every format, with seeds made in `folder`."""
    graph = load_graph(DIGITS)
    small = GraphBuilder()
    x = small.input("x", "fp16", (1, 4, 1, 8))
    small_graph = small.finish([small.single("relu", "y", x=small.single("add", x=x, y=1.0))])
    text, _ = print_mil(small_graph)
    model = ane.compile(graph, precision="as-is")
    model.save(folder / "d.hwx")
    model.save(folder / "d.anec")
    write_netplist(small_graph, folder / "d.plist")
    write_mlpackage(graph, folder / "d.mlpackage")
    program = next((folder / "d.mlpackage").rglob("*.mlmodel")).read_bytes()
    listing = disassemble_bytes((folder / "d.hwx").read_bytes(), "d.hwx", None).text
    return [
        Format("onnx", ".onnx", [DIGITS.read_bytes()], load_graph),
        Format("mil", ".mil", [text.encode()], load_graph),
        Format("stablehlo", ".mlir", [STABLEHLO.encode()], load_graph),
        Format("netplist", ".plist", [(folder / "d.plist").read_bytes()], load_graph),
        Format("mlmodel", ".mlmodel", [program], load_graph),
        Format("hwx", ".hwx", [(folder / "d.hwx").read_bytes()], ane.load_program),
        Format("anec", ".anec", [(folder / "d.anec").read_bytes()], ane.load_program),
        Format("listing", ".ane.s", [listing.encode()], lambda path: assemble(path.read_text(errors="replace"))),
    ]


def mutant(data: bytes, draw: random.Random, text: bool) -> bytes:
    """The bytes with one to four changes."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        place = draw.randrange(len(made) + 1)
        kind = draw.randrange(5 if not text else 7)
        if kind == 0 and place < len(made):
            made[place] ^= draw.choice((1, 2, 4, 8, 16, 32, 64, 128))
        elif kind == 1 and draw.random() < 0.3:
            del made[place:]
        elif kind == 2:
            number = draw.choice(EXTREMES)
            size = draw.choice((1, 2, 4, 8))
            made[place:place + size] = (number % 256 ** size).to_bytes(size, "little")
        elif kind == 3:
            length, source = draw.choice((1, 4, 16, 64, 512)), draw.randrange(len(made) + 1)
            made[place:place + length * draw.randrange(2)] = made[source:source + length]
        elif kind == 4:
            del made[place:place + draw.choice((1, 2, 8, 64))]
        else:
            made[place:place + draw.randrange(4)] = draw.choice(TOKENS)
        made = made or bytearray(b"\x00")
    return bytes(made)


class TooSlow(BaseException):
    """A reader took longer than SLOWEST."""


@contextmanager
def timed() -> Iterator[None]:
    """Raises TooSlow within when it takes longer than SLOWEST."""
    def late(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SLOWEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def tried(kind: Format, data: bytes, path: Path) -> str | None:
    """What is wrong with how the bytes are read, if anything."""
    path.write_bytes(data)
    try:
        with timed():
            kind.read(path)
        kind.taken += 1
    except AneError as error:
        return None if len(str(error)) > 8 else f"an error without a message: {type(error).__name__}"
    except TooSlow:
        return f"more than {SLOWEST:g} s"
    except MemoryError:
        return "more memory than there is room for"
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}"
    return None


def attack(kind: Format, draw: random.Random, path: Path, keep: Path | None) -> None:
    """One mutant of one format."""
    data = mutant(draw.choice(kind.seeds), draw, kind.name in TEXTS)
    kind.tried += 1
    wrong = tried(kind, data, path)
    if wrong is not None:
        kind.defects[wrong] += 1
        if keep is not None and kind.defects[wrong] == 1:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{kind.name}_{len(kind.defects)}{kind.suffix}").write_bytes(data)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = [kind for kind in formats(folder) if not options.formats or kind.name in options.formats]
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
        end = time.monotonic() + options.seconds
        while any(kind.tried < options.count for kind in kinds) if options.count else time.monotonic() < end:
            for kind in kinds:
                attack(kind, draw, folder / f"mutant{kind.suffix}", options.keep)
        for kind in kinds:
            print(f"{kind.name:9} {kind.tried:8} mutants, {kind.taken} read, {sum(kind.defects.values())} defects")
            for wrong, count in kind.defects.most_common():
                print(f"          {count:8} {wrong}")
    return int(any(kind.defects for kind in kinds))


if __name__ == "__main__":
    sys.exit(main())
