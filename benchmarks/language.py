"""Language models by their configurations, weights drawn: what they cost to compile, to hold and to run.

Stories15M: a decode step in the simulator over onnxruntime's step of the same network, both on one CPU thread and both
on two (float32, the same number of tokens held, weights the same; the scores are compared), and tokens per second. Time
to bring it to the device, compiled and from the compile cache. Every configuration named as an argument (default: the
Stories ones; `qwen2.5-0.5b` takes some minutes): time to compile prefill and decode, both verified and run, all on the
device and one at a time, and the most memory its process had beyond what it had when everything was imported, over the
weights in fp16. `--tokens N` counts live memory over N decode steps of a small model.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
from networks.language import CONFIGS, STORIES15M, RandomWeights, decode_step
from networks.memory import highest_memory

from openane import models
from openane.cache import Cache
from openane.models.rope import table

DEFAULT = ("stories15m", "stories110m")
DEVICE = "simulator?arithmetic=fast"
HELD = 200
REPEATS = 25
THREADS = (1, 2)
Times = tuple[float, float]
"""Seconds of the processor and of the clock."""
PROMPT = 100
AIMS = {"decode": 2.0, "memory": 4.0}
FLAT = 2 << 20
"""Bytes of memory that may come and go."""


def together(ours: Callable[[], object], peer: Callable[[], object]) -> tuple[Times, Times]:
    """Seconds of both, taken in turns after one of each to warm up: the fastest by the processor's time, which leaves
    out what else the machine does, and the fastest by the clock."""
    taken: tuple[list[Times], list[Times]] = ([], [])
    for _ in range(REPEATS + 1):
        for function, times in zip((ours, peer), taken, strict=True):
            start = time.process_time(), time.perf_counter()
            function()
            times.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    best = [(min(cpu for cpu, _ in times[1:]), min(wall for _, wall in times[1:])) for times in taken]
    return best[0], best[1]


def decode(threads: int) -> None:
    """A step of Stories15M beside onnxruntime's, both on so many threads."""
    config, weights = STORIES15M, RandomWeights(STORIES15M)
    half = {name: array.astype(np.float16).astype(np.float32) for name, array in weights.items()}
    tokens = np.random.default_rng(1).integers(3, config.vocabulary, HELD + 1).tolist()
    with models.LanguageModel(config, half, DEVICE) as model:
        model.prefill(tokens[:-1])
        session, feeds = peer(model, half, tokens[-1], threads)

        def ours() -> np.ndarray:
            model.rewind(HELD)
            return model.decode(tokens[-1])

        (cpu, wall), (their_cpu, their_wall) = together(ours, lambda: session.run(["output"], feeds))
        usage, before, start = model.usage, model.usage.engine_seconds, time.perf_counter()
        found, wanted = ours(), session.run(["output"], feeds)[0].reshape(-1)
        share = (usage.engine_seconds - before) / (time.perf_counter() - start)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    print(f"decode step, Stories15M on {HELD} tokens, {threads} thread{'s' * (threads > 1)}: {wall / their_wall:.1f} "
          f"times onnxruntime's by the clock, {cpu / their_cpu:.1f} in processor time (aim: at most "
          f"{AIMS['decode']:g}); {1 / wall:.1f} tokens/s, engine {share:.0%} of the time, "
          f"{usage.tasks // usage.steps} tasks a step; scores within {error:.2%} of the largest", flush=True)


def peer(model: models.LanguageModel, weights: dict[str, np.ndarray], token: int, threads: int
         ) -> tuple[onnxruntime.InferenceSession, dict[str, np.ndarray]]:
    """onnxruntime on so many threads, the cache as the model has it."""
    config = model.config
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
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


def measure(name: str, residence: str) -> dict[str, float]:
    """One configuration in this process."""
    config = CONFIGS[name]
    before, start = highest_memory(), time.perf_counter()
    settings = models.LanguageSettings(residence=models.Residence(residence))
    with models.LanguageModel(config, RandomWeights(config), DEVICE, settings) as model:
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
    """Every configuration in processes of its own."""
    for name, residence in product(names, (models.Residence.ALL, models.Residence.ONE)):
        found = json.loads(_apart("--measure", name, str(residence)))
        switched = f", functions brought to the device {found['switches']} times" if found["switches"] else ""
        print(f"{name}, functions on the device: {residence}; drawn, compiled and loaded in {found['load']:.1f} s, "
              f"{PROMPT} tokens of prompt in {found['prefill']:.1f} s, {1 / found['step']:.1f} tokens/s{switched}; "
              f"peak memory {found['peak'] / found['weights']:.2f} times the fp16 weights "
              f"of {found['weights'] / 1e6:.0f} MB (aim: at most {AIMS['memory']:g})"
              + ("" if found["sound"] else "; SCORES ARE NOT NUMBERS"), flush=True)


def start_up() -> None:
    """Stories15M brought to the device for the first time and, by another process, from the compile cache."""
    with tempfile.TemporaryDirectory() as folder:
        first, second, third = (json.loads(_apart("--start", folder)) for _ in range(3))
        size = sum(entry.size for entry in Cache(Path(folder)).entries())
    again = min(second, third)
    print(f"start of Stories15M in processor time: {first:.2f} s compiled, {again:.2f} s from the cache "
          f"({first / again:.1f} times as fast), {size / 1e6:.0f} MB in it", flush=True)


def start(folder: str) -> float:
    """Seconds of the processor from weights to a model on the device."""
    weights = {name: array.astype(np.float16) for name, array in RandomWeights(STORIES15M).items()}
    begun = time.process_time()
    with models.LanguageModel(STORIES15M, weights, DEVICE, models.LanguageSettings(cache=folder), identity="drawn"):
        return time.process_time() - begun


def _apart(*arguments: str) -> str:
    """What this benchmark prints in a process of its own."""
    return subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def flat(steps: int) -> None:
    """Live memory of a small model after a tenth of the steps and after all of them: blocks that Python's objects hold,
    arrays among them (one per step is the text itself), and the most memory of the process."""
    config = models.Config("llama", 512, 64, 2, 4, 2, 16, 128, 4096)
    with models.LanguageModel(config, RandomWeights(config), DEVICE,
                              models.LanguageSettings(models.Buckets((steps + 1,), ()))) as model:
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


def main(arguments: list[str]) -> None:
    """See the module."""
    if arguments[:1] == ["--measure"]:
        print(json.dumps(measure(arguments[1], arguments[2])))
        return
    if arguments[:1] == ["--start"]:
        print(json.dumps(start(arguments[1])))
        return
    if arguments[:1] == ["--tokens"]:
        flat(int(arguments[1]))
        return
    if arguments[:1] == ["--decode"]:
        decode(int(arguments[1]))
        return
    if not arguments:
        for threads in THREADS:  # numpy's library reads its number of threads when it is loaded
            subprocess.run([sys.executable, __file__, "--decode", str(threads)], check=True,
                           env=os.environ | {"OPENBLAS_NUM_THREADS": str(threads)})
        start_up()
    configurations(arguments or list(DEFAULT))
    if not arguments:
        flat(300)


if __name__ == "__main__":
    main(sys.argv[1:])
