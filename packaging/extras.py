"""Uses what an extra brings, in the environment that has it: python packaging/extras.py EXTRA...

Each function below has an extra's name and works in the folder it is started in, where `model.mil` lies. It runs the
commands and calls that need the extra; small models and files of others are written by what the tests write them with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples/digits/digits.onnx"
TOLERANCE = 0.02


def main() -> None:
    """Tries the extras that are named; a traceback and another status than 0 where one fails."""
    sys.path[1:1] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
    for name in sys.argv[1:]:
        TRIED[name]()


def ane(*words: str) -> str:
    """What the command prints; its errors go to stderr."""
    return subprocess.run([program("ane"), *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def program(name: str) -> str:
    """A program of this environment."""
    return str(Path(sys.executable).with_name(name))


def near(found: Any, wanted: Any) -> None:
    """AssertionError unless the arrays agree as fp16 allows."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=TOLERANCE, atol=TOLERANCE)


def drawn(*shape: int) -> np.ndarray:
    """Numbers of a fixed seed, float32, so small that sums over the last axis but one stay near one."""
    return (np.random.default_rng(1).standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def onnx() -> None:
    """A file of ONNX is read, checked and written."""
    ane("run", str(DIGITS), "--check")
    ane("convert", "model.mil", "-o", "model.onnx")
    ane("check", "model.onnx")


def coreml() -> None:
    """coremltools, with its native parts, reads what we write."""
    import coremltools
    import coremltools.libmilstoragepython  # a build without it reads no weights

    from openane.importers import load_graph
    from openane.importers.coreml import load_coreml

    assert coremltools.utils
    ane("convert", "model.mil", "-o", "model.mlpackage")
    own, other = load_graph("model.mlpackage"), load_coreml("model.mlpackage", reader="coremltools")
    assert len(own.nodes) == len(other.nodes)


def torch() -> None:
    """torch.compile, a module on the engine, and a file of torch.export."""
    import torch

    import openane.torch

    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
    x = torch.from_numpy(drawn(3, 16))
    with torch.no_grad():
        wanted = model(x)
        near(torch.compile(model, backend="openane", fullgraph=True)(x), wanted)
        near(openane.torch.to_engine(model, x)(x), wanted)
    torch.export.save(torch.export.export(model, (x,)), "model.pt2")
    ane("run", "model.pt2", "--check")


def jax() -> None:
    """A function of JAX, and its bytecode in a file."""
    import jax

    import openane.jax

    weights, x = drawn(16, 8), drawn(3, 16)

    def function(value: Any) -> Any:
        return jax.nn.softmax(jax.numpy.tanh(value @ weights), -1)

    near(openane.jax.to_engine(function, x)(x), function(x))
    Path("model.mlirbc").write_bytes(jax.export.export(jax.jit(function))(x).mlir_module_serialized)
    ane("run", "model.mlirbc", "--check")


def tinygrad() -> None:
    """A function of tinygrad, computed there without a compiler."""
    from tinygrad import Tensor
    from tinygrad.helpers import Context

    import openane.tinygrad

    with Context(DEV="PYTHON"):
        weights, x = (Tensor(drawn(*shape), device="PYTHON") for shape in ((16, 8), (3, 16)))

        def function(value: Any) -> Any:
            return (value @ weights).relu().softmax(-1)

        near(openane.tinygrad.to_engine(function, x)(x).numpy(), function(x).numpy())


def pretrained() -> None:
    """A model that transformers saved, by PyTorch's export."""
    import torch
    import transformers

    import openane

    torch.manual_seed(0)
    made = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        num_labels=5)).eval()
    made.save_pretrained("vit")
    Path("vit/preprocessor_config.json").write_text(json.dumps({
        "size": {"height": 32, "width": 32}, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}))
    image = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    x = torch.tensor((image.transpose(2, 0, 1)[None] / 255 - 0.5) / 0.25, dtype=torch.float32)
    with openane.load_pretrained("vit") as model, torch.no_grad():
        near(next(iter(model.run(image).values())), made(x).logits[0])


def llm() -> None:
    """A directory of a language model."""
    from support.tiny_llama import write_directory

    write_directory(Path("tiny-llama"))
    ane("generate", "tiny-llama", "--prompt", "Once", "--max-tokens", "4", "--seed", "1")


def cli() -> None:
    """The bar of rich, on a terminal."""
    import pty

    reader, writer = pty.openpty()
    code = "from openane.cli.progress import progress; print(*progress(range(3), 3, 'jobs'))"
    with os.fdopen(reader, "rb", 0) as terminal:
        done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, stderr=writer,
                              text=True)
        os.close(writer)
        assert done.stdout.split() == ["0", "1", "2"]
        assert b"jobs" in terminal.read(4096)


def farm() -> None:
    """Two workers find what one process finds."""
    Path("zoo.toml").write_text('[[models]]\nfiles = "model.mil"\nactions = ["compile", "check"]\n'
                                'targets = ["h13", "h14"]\n')
    spread = ane("farm", "zoo.toml", "--workers", "2", "--json", "-o", "two.sqlite")
    assert json.loads(spread) == json.loads(ane("farm", "zoo.toml", "--workers", "0", "--json", "-o", "none.sqlite"))


def fast() -> None:
    """Loops that numba compiled give the bits that numpy gives."""
    from openane.simulator.arithmetic.select import Accumulator, Mode, SumForm

    left, right = (drawn(64, count).astype(np.float16).astype(np.float32) for count in (32, 48))
    own, compiled = (Accumulator(Mode.EXACT, form).outer(left, right) for form in (SumForm.NUMPY, SumForm.NUMBA))
    np.testing.assert_array_equal(np.asarray(own), np.asarray(compiled))
    ane("run", "model.mil", "--arithmetic", "exact", "--check")


def gguf() -> None:
    """A GGUF file of packed weights."""
    from support.gguf_files import drawn, write

    from openane.models import Config

    config = Config("llama", 262, 64, 1, 4, 4, 16, 96, 128, 1e-5, stops=(2,))
    write(Path("tiny.gguf"), config, drawn(config), "Q8_0")
    ane("generate", "tiny.gguf", "--prompt", "a", "--max-tokens", "4")


def serve() -> None:
    """A server answers a completion; with a model of the tests, as those of files need the extra `llm` too."""
    from support.http_service import served
    from support.text_model import ByteModel

    with served(ByteModel()) as server:
        status, answer = server.complete("ab", max_tokens=4)
        assert status == 200, answer
        assert answer["choices"][0]["text"]


def train() -> None:
    """A training, its checkpoint and its plot."""
    ane("train", training(), "--output", "trained")
    assert list(Path("trained").rglob("*.safetensors"))
    assert list(Path("trained").rglob("*.svg")) or list(Path("trained").rglob("*.png"))


def mpi() -> None:
    """A training on two ranks, where the system has an MPI."""
    import mpi4py

    assert mpi4py.__version__
    if which("mpirun"):
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        # Without an output, whose plot is drawn by what the extra `train` brings.
        subprocess.run(["mpirun", "--oversubscribe", "-n", "2", program("ane"), "train", training()], check=True,
                       stdout=subprocess.PIPE, env=os.environ | as_root)


def training() -> str:
    """The configuration of a training of a few steps, and its data."""
    np.savez("numbers.npz", inputs=drawn(64, 20), labels=np.arange(64) % 10)
    Path("train.toml").write_text(
        '[data]\nkind = "arrays"\nfile = "numbers.npz"\n[model]\nkind = "layers"\nlayers = ["linear 12", "relu", '
        '"linear 10"]\n[optimiser]\nkind = "adamw"\nrate = 1e-3\n[training]\nepochs = 2\nbatch = 16\n')
    return "train.toml"


TRIED: Mapping[str, Callable[[], None]] = {each.__name__: each for each in (
    onnx, coreml, torch, jax, tinygrad, pretrained, llm, cli, farm, fast, gguf, serve, train, mpi)}
"""Extra to what uses it."""


if __name__ == "__main__":
    main()
