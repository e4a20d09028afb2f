"""Language models by their configurations, weights drawn: what they cost to compile, to hold and to run.

Stories15M: a decode step in the simulator over onnxruntime's step of the same network on one CPU thread (float32, the
same number of tokens held, weights the same; the scores are compared), and tokens per second. Every configuration named
as an argument (default: the Stories ones; `qwen2.5-0.5b` takes some minutes): time to compile prefill and decode, both
verified and run, one at a time on the device (Residence.ONE, for large models the default), and the most memory its
process had beyond what it had when everything was imported, over the weights in fp16. `--tokens N` counts live memory
over N decode steps of a small model.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from networks.language import CONFIGS, STORIES15M, RandomWeights, decode_step

from openane import models
from openane.models.rope import table

DEFAULT = ("stories15m", "stories110m")
DEVICE = "simulator?arithmetic=fast"
HELD = 200
REPEATS = 15
PROMPT = 100
AIMS = {"decode": 8.0, "memory": 4.0}
FLAT = 2 << 20
"""Bytes of memory that may come and go."""


def together(ours: Callable[[], object], peer: Callable[[], object]) -> tuple[float, float]:
    """Processor time of the fastest run of both, taken in turns after one of each to warm up; seconds. Both compute on
    one thread, and what else the machine does is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS + 1):
        for function, taken in zip((ours, peer), times, strict=True):
            start = time.process_time()
            function()
            taken.append(time.process_time() - start)
    return min(times[0][1:]), min(times[1][1:])


def decode() -> None:
    """A step of Stories15M beside onnxruntime's."""
    config, weights = STORIES15M, RandomWeights(STORIES15M)
    half = {name: array.astype(np.float16).astype(np.float32) for name, array in weights.items()}
    tokens = np.random.default_rng(1).integers(3, config.vocabulary, HELD + 1).tolist()
    with models.LanguageModel(config, half, DEVICE) as model:
        model.prefill(tokens[:-1])
        session, feeds = peer(model, half, tokens[-1])

        def ours() -> np.ndarray:
            model.rewind(HELD)
            return model.decode(tokens[-1])

        seconds, theirs = together(ours, lambda: session.run(["output"], feeds))
        usage, before, start = model.usage, model.usage.engine_seconds, time.perf_counter()
        found, wanted = ours(), session.run(["output"], feeds)[0].reshape(-1)
        share = (usage.engine_seconds - before) / (time.perf_counter() - start)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    print(f"decode step, Stories15M on {HELD} tokens: {seconds / theirs:.1f} times onnxruntime's (aim: at most "
          f"{AIMS['decode']:g}); {1 / seconds:.1f} tokens/s, engine {share:.0%} of the time, "
          f"{usage.tasks // usage.steps} tasks a step; scores within {error:.2%} of the largest")


def peer(model: models.LanguageModel, weights: dict[str, np.ndarray], token: int
         ) -> tuple[onnxruntime.InferenceSession, dict[str, np.ndarray]]:
    """onnxruntime on one thread, the cache as the model has it."""
    config = model.config
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(decode_step(config, weights, HELD).SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    cosines, sines = table(config.rope, config.head_size, config.context, np.array([HELD]))
    half = config.head_size // 2
    sines[..., :half] *= -1  # ours has the sign of the first half in the table
    feeds = {"embedding": weights["embedding.weight"][token][None, None],
             "cosines": cosines[None, None].astype(np.float32), "sines": sines[None, None].astype(np.float32)}
    for kind in ("keys", "values"):
        held = model.runner.read(kind).astype(np.float32)
        held = (held.swapaxes(2, 3) if kind == "keys" else held)[:, :, :HELD]
        feeds |= {f"{kind}.{layer}": held[layer][None] for layer in range(config.layers)}
    return session, feeds


def measure(name: str) -> dict[str, float]:
    """One configuration in this process."""
    config = CONFIGS[name]
    before, start = highest_memory(), time.perf_counter()
    one = models.Settings(residence=models.Residence.ONE)
    with models.LanguageModel(config, RandomWeights(config), DEVICE, one) as model:
        loaded = time.perf_counter() - start
        tokens = np.random.default_rng(1).integers(3, config.vocabulary, PROMPT).tolist()
        start = time.perf_counter()
        model.prefill(tokens)
        prefilled = time.perf_counter() - start
        model.decode(5)  # may bring the function to the device
        start = time.perf_counter()
        scores = [model.decode(token) for token in (7, 11, 13)]
        step = (time.perf_counter() - start) / 3
        sound = all(np.isfinite(score).all() and score.std() > 0 for score in scores)
        return {"load": loaded, "prefill": prefilled, "step": step, "sound": sound, "switches": model.usage.switches,
                "weights": 2 * config.weights, "peak": highest_memory() - before}


def configurations(names: list[str]) -> None:
    """Every configuration in a process of its own."""
    for name in names:
        done = subprocess.run([sys.executable, __file__, "--measure", name], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"{name}: the process ended with {done.returncode}")
            continue
        found = json.loads(done.stdout)
        print(f"{name}: drawn, compiled and loaded in {found['load']:.1f} s; {PROMPT} tokens of prompt in "
              f"{found['prefill']:.1f} s, {1 / found['step']:.1f} tokens/s, functions brought to the device "
              f"{found['switches']} times; peak memory {found['peak'] / found['weights']:.2f} times the fp16 weights "
              f"of {found['weights'] / 1e6:.0f} MB (aim: at most {AIMS['memory']:g})"
              + ("" if found["sound"] else "; SCORES ARE NOT NUMBERS"))


def flat(steps: int) -> None:
    """Live memory of a small model after a tenth of the steps and after all of them: blocks that Python's objects hold,
    arrays among them (one per step is the text itself), and the most memory of the process."""
    config = models.Config("llama", 512, 64, 2, 4, 2, 16, 128, 4096)
    with models.LanguageModel(config, RandomWeights(config), DEVICE,
                              models.Settings(models.Buckets((steps + 1,), ()))) as model:
        sampling = models.Sampling(1.0, seed=3)
        stream = model.stream([1], models.Options(steps, sampling))
        sizes = []
        for number, _ in enumerate(stream):
            if number in (steps // 10, steps - 2):
                gc.collect()
                sizes.append((sys.getallocatedblocks(), highest_memory()))
    counted = steps - 2 - steps // 10
    blocks, peak = (last - first for first, last in zip(*sizes, strict=True))
    print(f"memory over {steps} decode steps, from step {steps // 10}: {blocks / counted:+.2f} live blocks a step, "
          f"peak of the process {peak:+d} bytes ({'flat' if blocks < 2 * counted and peak < FLAT else 'GROWING'})")


def highest_memory() -> int:
    """The most memory this process ever had, in bytes."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if "VmHWM" in line)


def main(arguments: list[str]) -> None:
    """See the module."""
    if arguments[:1] == ["--measure"]:
        print(json.dumps(measure(arguments[1])))
        return
    if arguments[:1] == ["--tokens"]:
        flat(int(arguments[1]))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not arguments:
        decode()
    configurations(arguments or list(DEFAULT))
    if not arguments:
        flat(300)


if __name__ == "__main__":
    main(sys.argv[1:])
