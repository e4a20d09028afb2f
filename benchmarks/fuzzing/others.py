"""Targets: checkpoints, tokenizers, arrays, evidence, traces and configurations."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from support.evidence_mutants import example, forged, resealed
from support.tiny_llama import CONFIG, write_directory

import openane as ane
from fuzzing.files import Target, small_graph, through
from fuzzing.mutants import archive, behind, of_archive, of_bytes, of_json, of_text, one_of, read_archive
from openane.experiments.evidence_file import read_evidence, shown_of
from openane.importers import write_mlpackage
from openane.models import chat, tokenizer
from openane.models.load import opened
from openane.numpy_files import read_npy
from openane.quantization.samples import read_samples


def _all(path: Path) -> object:
    """Configuration and every weight of a checkpoint."""
    with opened(path) as (config, weights):
        return config, [np.asarray(weights[name]).shape for name in weights]


def safetensors(folder: Path) -> Target:
    """The weights of a Hugging Face directory."""
    place = write_directory(folder / "tiny")
    path = place / "model.safetensors"
    return Target([path.read_bytes()], one_of(behind(8, of_json), behind(8, of_json), of_bytes),
                  through(path, lambda _: _all(place)))


def config(folder: Path) -> Target:
    """The configuration of a Hugging Face directory."""
    place = write_directory(folder / "tiny")
    path = place / "config.json"
    return Target([path.read_bytes()], one_of(of_json, of_json, of_text), through(path, lambda _: _all(place)))


def weights_index(folder: Path) -> Target:
    """The index of weights in several files."""
    place = write_directory(folder / "tiny")
    path = place / "model.safetensors.index.json"
    with opened(place) as (_, weights):
        names = {f"model.{name}": "model.safetensors" for name in weights}
    return Target([json.dumps({"metadata": {"total_size": 9}, "weight_map": names}).encode()], one_of(of_json, of_text),
                  through(path, lambda _: _all(place)))


def tokenizer_json(folder: Path) -> Target:
    """A tokenizer.json, and a text through it."""
    place = write_directory(folder / "tiny")
    path = place / "tokenizer.json"

    def read(_: Path) -> object:
        found = tokenizer.of_folder(place)
        assert found is not None
        return found.vocabulary, found.decode(found.encode("a text"))

    return Target([path.read_bytes()], one_of(of_json, of_json, of_text), through(path, read))


def chat_template(folder: Path) -> Target:
    """The chat template of a tokenizer's configuration, and a conversation through it."""
    place = write_directory(folder / "tiny")
    found = tokenizer.of_folder(place)
    assert found is not None
    text = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim }}"
            "{% if loop.last %}<|im_end|>{% endif %}{% endfor %}{{ bos_token }}")
    seed = json.dumps({"chat_template": text, "bos_token": "<s>", "eos_token": {"content": "</s>"}}).encode()

    def mutant(data: bytes, draw: random.Random) -> bytes:
        if draw.random() < 0.3:
            return of_json(data, draw)
        document = json.loads(data)
        changed = of_text(document["chat_template"].encode(), draw).decode(errors="replace")
        return json.dumps({**document, "chat_template": changed}).encode()

    def read(_: Path) -> object:
        template = chat.of_folder(place, found)
        return None if template is None else template.tokens([{"role": "user", "content": "hello"}], found)

    return Target([seed], mutant, through(place / "tokenizer_config.json", read))


def gguf(folder: Path) -> Target:
    """GGUF files, their tokenizer, and every weight."""
    from support.gguf_files import drawn, write

    from openane.models.gguf_file import GgufCheckpoint

    path = folder / "model.gguf"
    seeds = []
    for form in ("Q8_0", "Q4_0"):
        write(path, CONFIG, drawn(CONFIG), form)
        seeds.append(path.read_bytes())
    write(path, CONFIG, drawn(CONFIG), "F16", tokenizer="gpt2", tokenizer__ggml__pre="qwen2",
          llama__rope__scaling__type="linear")
    seeds.append(path.read_bytes())

    def read(_: Path) -> object:
        with GgufCheckpoint(path) as found:
            known = found.tokenizer()
        return _all(path), known and known.encode("a text")

    def mutant(data: bytes, draw: random.Random) -> bytes:
        head = draw.choice((200, 1000, 8000))
        return of_bytes(data[:head], draw) + data[head:]

    return Target(seeds, mutant, through(path, read))


def llama2c(folder: Path) -> Target:
    """Checkpoints of llama2.c, of which the head says how long the rest is."""
    sizes = (64, 96, 1, 4, 4, 40, 32)
    width, hidden, layers, _, _, vocabulary, context = sizes
    count = vocabulary * width + layers * (2 * width + 4 * width * width + 3 * width * hidden) + width + context * 16
    data = np.array(sizes, "<i4").tobytes() + np.zeros(count, "<f4").tobytes()
    path = folder / "model.bin"
    return Target([data], lambda whole, draw: of_bytes(whole[:64], draw) + whole[64:] if draw.random() < 0.9 else
                  of_bytes(whole, draw), through(path, _all))


def tokenizer_bin(folder: Path) -> Target:
    """The tokenizer of llama2.c."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % each for each in range(256)), b" ", b"a", b" a", b"ab"]
    data = (8).to_bytes(4, "little") + b"".join(np.float32(-number).tobytes() + len(piece).to_bytes(4, "little") + piece
                                                for number, piece in enumerate(pieces))

    def read(path: Path) -> object:
        return tokenizer.of_llama2c(path).encode("a text")

    return Target([data], of_bytes, through(folder / "tokenizer.bin", read))


def _array(array: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


NPY = behind(2, of_text, 8)
"""The header of a .npy file: a dictionary as text, after its length."""


def npy(folder: Path) -> Target:
    """Arrays that are given as inputs."""
    seeds = [_array(array) for array in (np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((0, 3), np.float16),
                                         np.float64(3), np.array(["a", "b"]))]
    return Target(seeds, one_of(NPY, NPY, of_bytes), through(folder / "x.npy", lambda path: read_npy(path).shape))


def npz(folder: Path) -> Target:
    """Samples of all inputs."""
    seed = archive({"x.npy": _array(np.ones((1, 4, 6, 8), np.float32)), "z.npy": _array(np.arange(5))})
    return Target([seed], of_archive(one_of(NPY, of_bytes)), through(folder / "x.npz", read_samples))


def evidence(_: Path) -> Target:
    """Files of `ane attest`, which are sealed."""
    return Target([example()], one_of(resealed, resealed, forged, of_bytes, of_text),
                  lambda data: [shown_of(line) for line in getattr(read_evidence(data), "results", ())])


def trace(folder: Path) -> Target:
    """Recorded runs of a driver."""
    from openane.devices.linux.device import LinuxDevice
    from openane.devices.linux.interface import NODE
    from openane.devices.linux.recording import RecordingKernel
    from openane.devices.linux.trace import LINES, Trace
    from openane.devices.simdriver.driver import SimDriver
    from openane.devices.simdriver.kernel import SimKernel

    driver, model = SimDriver("strict"), ane.compile(small_graph("add"), cache=False)
    with RecordingKernel(SimKernel(driver), folder / "seed", device="fuzz") as recording, \
            LinuxDevice(recording, NODE.format(0), "linux:0") as device, device.load(model) as executable:
        executable.run({"x": np.ones((1, 4, 6, 8), np.float16)})
    driver.close()

    def lines(data: bytes, draw: random.Random) -> bytes:
        found = data.splitlines()
        if not data.startswith(b"{"):
            return of_bytes(data, draw)
        place = draw.randrange(len(found))
        return b"\n".join([*found[:place], of_json(found[place], draw), *found[place + 1:]])

    def read(path: Path) -> object:
        found = Trace(path)
        try:
            return found.events, [found.blob(name) for event in found.events for name in event.before.values()]
        finally:
            found.close()

    members = dict(read_archive((folder / "seed").read_bytes()))
    members[LINES] = re.sub(rb', "seconds": [^,}]+', b"", members[LINES])  # so that a mutant is the same another time
    return Target([archive(members)], of_archive(one_of(lines, lines, of_text)),
                  through(folder / "mutant", read))


def toml(kind: str) -> Callable[[Path], Target]:
    """Configurations of trainings, or of farms."""
    def target(folder: Path) -> Target:
        from openane.configuration import read_file
        from openane.farm import read_jobs
        from openane.training.settings import settings, variants

        if kind == "farm":
            write_mlpackage(small_graph("add"), folder / "n.mlpackage")
            seed = ('[farm]\nactions = ["profile", "compile", "check"]\noptimise = [0, 2]\n[[models]]\n'
                    'files = "*.mlpackage"\ntargets = ["h13", "m4"]\nshapes = { x = [1, 4, 6, 8] }\n'
                    '[[models]]\nfiles = "n.mlpackage"\nprecision = "fast"\non_host = "none"\n')
            return Target([seed.encode()], of_text, through(folder / "zoo.toml", read_jobs))
        seed = (Path(__file__).parents[2] / "examples" / "digits" / "train_digits.toml").read_text()
        seed += '\n[sweep]\n"optimiser.rate" = [1e-3, 1e-2]\n"training.batch" = [32, 64]\n'

        def read(path: Path) -> object:
            return [settings(table, folder) for _, table in variants(read_file(path))][:4]

        return Target([seed.encode()], of_text, through(folder / "train.toml", read))
    return target


TARGETS: dict[str, Callable[[Path], Target]] = {
    "safetensors": safetensors, "weights-index": weights_index, "config": config, "tokenizer-json": tokenizer_json,
    "tokenizer-bin": tokenizer_bin, "chat-template": chat_template, "gguf": gguf, "llama2c": llama2c, "npy": npy,
    "npz": npz, "evidence": evidence, "trace": trace, "toml-train": toml("train"), "toml-farm": toml("farm"),
}
