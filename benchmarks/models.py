"""Whole networks: compiled strict, verified, simulated and compared with onnxruntime, in one run.

The nine classifiers whose topologies the onnx package ships, ViT-tiny, Whisper-tiny's encoder and MiniLM-L6 (with its
real weights where they are installed). Prints per network what it became, how close the outputs are, and four ratios:
import and compilation over onnxruntime's creation of a session from the same file, warm and as the first of a process
that has imported all modules of both, simulated inference over onnxruntime's in float32, memory of importing and
compiling over the weights in fp16 (of a process of its own: its largest resident set beyond the largest before, when
everything was imported and a small model compiled). Names as arguments choose networks; $OPENBLAS_NUM_THREADS bounds
the threads of both sides.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from networks import topologies, transformers
from networks.memory import highest_memory
from onnx import ModelProto, TensorProto

import openane as ane
from openane.program import Role
from openane.simulator.kernels import kernels

ROOM = Path(__file__).parent
LARGEST = 2.0 ** 14
"""Activations stay below this, a quarter of what fp16 holds."""
LEAST_COSINE = 0.999
LEAST_DIFFERENCE = 0.01
"""Outputs for two inputs differ by at least this fraction of their size."""
INPUTS = 3
TOKENS = 128
LEAST_TIMES, MOST_TIMES = 3, 10
QUICK = 1.0
"""What takes less than so many seconds is timed MOST_TIMES; all else LEAST_TIMES: the first time is not warm."""
FIRSTS = 5
"""Processes whose first compilation, and whose first session, is timed: the fastest counts."""
AIMS = {"compile": (1.5, 5.0), "first": (4.0, 8.0), "inference": (2.5, 5.0), "memory": (4.0, None)}
PACKAGES = [f"openane.{name}" for name in ("chips", "compiler", "engine", "graph", "importers.onnx", "ops", "passes")]
Feeds = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Network:
    """An ONNX model, inputs for it, and whether its output ranks classes."""

    model: ModelProto
    feeds: tuple[Feeds, ...]
    classes: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one network: times in seconds, memory in bytes; `refusal` when it does not compile."""

    name: str
    refusal: str = ""
    tasks: int = 0
    programs: int = 0
    host: int = 0
    constants: int = 0
    scratch: int = 0
    cosine: float = 0.0
    top: str = ""
    compiled: float = 0.0
    session: float = 1.0
    first_compiled: float = 0.0
    first_session: float = 1.0
    simulated: float = 0.0
    inference: float = 1.0
    peak: int = 0
    weights: int = 1

    @property
    def ratios(self) -> dict[str, float]:
        """What AIMS bound."""
        return {"compile": self.compiled / self.session, "first": self.first_compiled / self.first_session,
                "inference": self.simulated / self.inference, "memory": self.peak / self.weights}

    @property
    def good(self) -> bool:
        """Whether everything runs on the engine and the outputs agree."""
        return not self.refusal and not self.host and self.cosine >= LEAST_COSINE and self.top != "different"


def classifier(name: str) -> Network:
    """One of the topologies of the onnx package."""
    model = topologies.topology(name)
    port = topologies.input_name(model)
    return Network(model, tuple({port: image[None]} for image in topologies.images(INPUTS, 9)), True)


def vision() -> Network:
    images = topologies.images(INPUTS, 9)
    return Network(transformers.vit_tiny(), tuple({"input": image[None]} for image in images), True)


def speech() -> Network:
    rng = np.random.default_rng(9)
    mels = rng.standard_normal((INPUTS, 1, transformers.MELS, transformers.FRAMES)).astype(np.float16)
    smooth = [(x + np.roll(x, 1, -1) + np.roll(x, 2, -1)).astype(np.float32) for x in mels]
    return Network(transformers.whisper_tiny_encoder(), tuple({"input": x} for x in smooth), False)


def language() -> Network:
    """MiniLM on embeddings of random tokens, the last quarter masked."""
    rng = np.random.default_rng(9)
    width = transformers.MINILM_L6.width
    mask = np.zeros((1, 1, 1, TOKENS), np.float32)
    mask[..., TOKENS * 3 // 4:] = -10000
    embeddings = rng.standard_normal((INPUTS, 1, TOKENS, width)).astype(np.float16).astype(np.float32)
    feeds = tuple({"embeddings": x, "mask": mask} for x in embeddings)
    return Network(transformers.minilm(TOKENS, real_weights()), feeds, False)


def real_weights() -> dict[str, np.ndarray] | None:
    """MiniLM's, from the package that carries them; None where it is not installed."""
    sys.path.insert(0, str(ROOM.parent / "examples" / "minilm"))
    from weights import load_weights, model_folder
    folder = model_folder()
    return None if folder is None else load_weights(folder)


NETWORKS: dict[str, Callable[[], Network]] = {
    **{name: lambda name=name: classifier(name) for name in topologies.NAMES},  # type: ignore[misc]
    "vit_tiny": vision, "whisper_tiny_encoder": speech, "minilm": language,
}


def check(network: Network) -> None:
    """AssertionError when the network would prove nothing: activations near fp16's limit, or outputs that hardly depend
    on the input."""
    probe = ModelProto()
    probe.CopyFrom(network.model)
    weights = {initializer.name for initializer in probe.graph.initializer}
    known = {port.name for port in probe.graph.output}
    names = [name for node in probe.graph.node for name in node.output if name and name not in known | weights]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = new_session(probe.SerializeToString())
    outputs = []
    for feeds in network.feeds[:2]:
        found = session.run(None, feeds)
        outputs.append(found[0].ravel())
        largest = max(np.abs(array).max() for array in found if array.dtype == np.float32)
        assert largest < LARGEST, f"an activation of {largest:g} is too close to what fp16 holds"
    difference = np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[0]).max()
    assert difference > LEAST_DIFFERENCE, f"outputs for two inputs differ by {difference:g} only"


def new_session(model: str | bytes) -> onnxruntime.InferenceSession:
    """onnxruntime on the processor, with as many threads as numpy is told to use."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OPENBLAS_NUM_THREADS", 0))
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def timed(function: Callable[[], object], least: int = LEAST_TIMES, most: int = MOST_TIMES) -> tuple[float, object]:
    """Seconds and result of the fastest time; warm where the first, which reads files and claims memory, is not the
    only one."""
    best, count = float("inf"), 0
    while count < least or (count < most and best < QUICK):
        start = time.perf_counter()
        result = function()
        best, count = min(best, time.perf_counter() - start), count + 1
    return best, result


def measure(name: str) -> Result:
    """Builds, checks, compiles, verifies, simulates and compares one network."""
    network = NETWORKS[name]()
    check(network)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"{name}.onnx")
        Path(path).write_bytes(network.model.SerializeToString())
        values = sum(np.prod(i.dims) for i in network.model.graph.initializer if i.data_type == TensorProto.FLOAT)
        network.model.Clear()
        try:
            return compared(name, path, network, 2 * int(values))
        except ane.AneError as error:
            return Result(name, refusal=f"{type(error).__name__}: {error}")


def compared(name: str, path: str, network: Network, weights: int) -> Result:
    """The network of file `path` on both sides."""
    ane.compile(ane.load_graph(ROOM.parent / "examples" / "digits" / "digits.onnx"))  # imports everything
    session_time, session = timed(lambda: new_session(path))
    compile_time, model = timed(lambda: ane.compile(ane.load_graph(path)))
    assert isinstance(model, ane.Model)
    assert isinstance(session, onnxruntime.InferenceSession)
    outputs, simulated = simulate(model, network)
    expected = [timed(lambda feeds=feeds: session.run(None, feeds)[0]) for feeds in network.feeds]  # type: ignore[misc]
    pairs = [(np.asarray(wanted).ravel().astype(np.float64), found) for (_, wanted), found
             in zip(expected, outputs, strict=True)]
    programs = model.programs
    return Result(
        name, tasks=sum(len(program.tasks) for program in programs), programs=len(programs),
        host=len(model.host_operations), constants=sum(len(program.constants) for program in programs),
        scratch=sum(b.size for program in programs for b in program.buffers if b.role is Role.SCRATCH),
        cosine=min(cosine(*pair) for pair in pairs), top=ranking(pairs) if network.classes else "",
        compiled=compile_time, session=session_time, first_compiled=first_time("--compile", path),
        first_session=first_time("--session", path), simulated=simulated, inference=min(t for t, _ in expected),
        peak=int(apart("--memory", path)), weights=weights)


def simulate(model: ane.Model, network: Network) -> tuple[list[np.ndarray], float]:
    """Outputs in fast arithmetic, verified when loaded, and seconds of one run, by compiled loops if there are any."""
    kernels()  # a program that runs briefly would do without them
    found, times = [], []
    with ane.open_device("simulator?arithmetic=fast") as device, device.load(model) as executable:
        for feeds in network.feeds:
            seconds, outputs = timed(lambda feeds=feeds: executable.run(feeds))  # type: ignore[misc]
            assert isinstance(outputs, dict)
            times.append(seconds)
            found.append(next(iter(outputs.values())).ravel().astype(np.float64))
    return found, min(times)


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


def ranking(pairs: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """Whether both sides name the same class, wherever the lead of the first exceeds the error."""
    words = []
    for wanted, found in pairs:
        second, first = np.sort(wanted)[-2:]
        if wanted.argmax() == found.argmax():
            words.append("same")
        else:
            words.append("tied" if first - second <= 2 * np.abs(wanted - found).max() else "different")
    return next(word for word in ("different", "tied", "same") if word in words)


def apart(what: str, path: str) -> float:
    """A number that a process of its own prints about a file; its modules are kept compiled, as installed ones are."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, __file__, what, path], capture_output=True, text=True, check=True, env=known)
    return float(done.stdout)


def first_time(what: str, path: str) -> float:
    """Seconds of the first compilation or session of a process."""
    return min(apart(what, path) for _ in range(FIRSTS))


def own_peak(path: str) -> int:
    """Bytes by which importing and compiling raises the peak of this process."""
    ane.compile(ane.load_graph(ROOM.parent / "examples" / "digits" / "digits.onnx"))
    before = highest_memory()
    ane.compile(ane.load_graph(path))
    return max(1, highest_memory() - before)


def first_compilation(path: str) -> float:
    """Seconds, all modules being imported, as those of onnxruntime are."""
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return timed(lambda: ane.compile(ane.load_graph(path)), 1, 1)[0]


APART: dict[str, Callable[[str], float]] = {
    "--memory": own_peak, "--compile": first_compilation,
    "--session": lambda path: timed(lambda: new_session(path), 1, 1)[0]}


def measured(names: list[str]) -> Iterator[Result]:
    """Every network in a process of its own, one after the other."""
    for name in names:
        done = subprocess.run([sys.executable, __file__, "--measure", name], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            yield Result(name, refusal=f"the process ended with {done.returncode}")
        else:
            yield Result(**json.loads(done.stdout))


def report(result: Result) -> None:
    if result.refusal:
        print(f"model  {result.name:<22} {result.refusal}", flush=True)
        return
    ratios = result.ratios
    print(f"model  {result.name:<22} {result.tasks:>5} tasks in {result.programs}, {result.host} on the host   "
          f"constants {result.constants / 2**20:6.1f} MiB  scratch {result.scratch / 2**20:5.1f} MiB   "
          f"cosine {result.cosine:.6f}  top-1 {result.top or '-':<9} compile {ratios['compile']:5.1f}  "
          f"first {ratios['first']:5.1f}  inference {ratios['inference']:5.1f}  memory {ratios['memory']:5.1f}",
          flush=True)


def main(arguments: list[str]) -> int:
    """Prints a line per network and the means; 1 when one is refused or disagrees."""
    warnings.simplefilter("ignore", RuntimeWarning)
    if arguments and arguments[0] in APART:
        print(APART[arguments[0]](arguments[1]))
        return 0
    if arguments[:1] == ["--measure"]:
        print(json.dumps(asdict(measure(arguments[1]))))
        return 0
    unknown = [name for name in arguments if name not in NETWORKS]
    if unknown:
        print(f"no network is called {unknown[0]!r}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    results = []
    for result in measured(arguments or list(NETWORKS)):
        report(result)
        results.append(result)
    done = [result.ratios for result in results if not result.refusal]
    for name, (aim, worst) in AIMS.items() if done else ():
        values = [ratios[name] for ratios in done]
        print(f"model  {name:<10} geometric mean {exp(sum(map(log, values)) / len(values)):5.2f} (aim {aim:g})   "
              f"worst {max(values):5.2f}" + (f" (aim {worst:g})" if worst else ""))
    return int(not all(result.good for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
