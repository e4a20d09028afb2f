"""Write down what is said in a sound: a WAV file, and the directory of a Whisper model (config.json, safetensors,
tokenizer.json, preprocessor_config.json, generation_config.json) or of one that scores letters (wav2vec2 and its like,
with vocab.json; by PyTorch and transformers).

The text goes to stdout, a line for every window of the model's length, as it is made; what ran where, and how long it
took, goes to stderr. Without a tokenizer the tokens are printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openane.cli.arrays import Array
from openane.cli.device_name import device_chip, device_name
from openane.cli.model_options import chosen_target, model_options
from openane.cli.numbers import LONGEST_CONTEXT, whole
from openane.cli.output import say, say_json
from openane.cli.progress import status
from openane.errors import UnsupportedError
from openane.models.documents import json_object
from openane.models.exported import SoundModel, load_sounds
from openane.models.loaded import RunningModel
from openane.models.pretrained import SOUNDS
from openane.models.sequence import SequenceSettings, SpeechModel, load_speech
from openane.models.sequence.sound import read_wav
from openane.wording import plural


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("sound", metavar="SOUND.wav", type=Path, help="the sound, of any rate and number of channels")
    parser.add_argument("--model", metavar="DIR", type=Path, required=True, help="the model's directory")
    parser.add_argument("--language", metavar="L", help="language that is spoken, such as de (default: en, where the "
                        "model knows several)")
    parser.add_argument("--task", choices=("transcribe", "translate"), help="write it down, or translate it to English "
                        "(default: transcribe, where the model knows both)")
    parser.add_argument("--context", metavar="N", type=whole(1, LONGEST_CONTEXT),
                        help="longest text of a window, in tokens (default: 128)")
    parser.add_argument("--device", metavar="D", help="where to run (default: $ANE_DEVICE or simulator)")
    model_options(parser, "--target", "--no-cache")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Loads, writes down, and says what it took."""
    start = time.perf_counter()
    target = chosen_target(options, device_chip(device_name(options.device)))
    with status(f"ane: loading {options.model}"):
        speech = _loaded(options, target)
    with speech:
        loaded = time.perf_counter() - start
        running, rate = (speech, speech.rate) if isinstance(speech, SoundModel) else \
            (speech.model, speech.spectrogram.rate)
        samples = read_wav(options.sound, rate)
        texts = list(_texts(speech, samples, options.json))
        document = {"sound_seconds": len(samples) / rate, "load_seconds": loaded,
                    "seconds": time.perf_counter() - start - loaded, "windows": texts, **_work(running)}
    if options.json:
        say_json(document, None)
    else:
        say("\n".join(_talk(document)), file=sys.stderr)
    return 0


def _work(running: RunningModel) -> dict[str, Any]:
    """Tasks of every function, and what is left to the host."""
    tasks = {name: sum(len(program.tasks) for program in function.programs)
             for name, function in running.model.functions.items()}
    return {"tasks": tasks, "host": list(running.host)}


def _loaded(options: argparse.Namespace, target: str) -> SpeechModel | SoundModel:
    """The model of the directory. UnsupportedError for options that a model of letters does not have."""
    if json_object(options.model, "config.json").get("model_type") not in SOUNDS:
        settings = SequenceSettings(None, options.context, target, not options.no_cache)
        return load_speech(options.model, options.device, settings, options.language, options.task)
    for name in ("language", "task", "context"):
        if getattr(options, name) is not None:
            raise UnsupportedError(f"--{name}", "a model that scores letters has no such choice",
                                   remedy="leave it out, or take a Whisper model")
    return load_sounds(options.model, options.device, None, target, not options.no_cache)


def _texts(speech: SpeechModel | SoundModel, samples: Array, quiet: bool) -> Iterator[str]:
    """The text of every window, or its tokens where there is no tokenizer; printed unless `quiet`."""
    for text in speech.transcribe(samples) if isinstance(speech, SoundModel) else _spoken(speech, samples):
        if not quiet:
            say(text, flush=True)
        yield text


def _spoken(speech: SpeechModel, samples: Array) -> Iterator[str]:
    tokenizer = speech.model.tokenizer
    for tokens in speech.tokens(samples):
        yield " ".join(map(str, tokens)) if tokenizer is None else tokenizer.decode(list(tokens)).strip()


def _talk(document: dict[str, Any]) -> Iterator[str]:
    yield (f"{document['sound_seconds']:.1f} s of sound in {plural(len(document['windows']), 'window')}, written down "
           f"in {document['seconds']:.1f} s; loaded in {document['load_seconds']:.1f} s")
    yield "  engine: " + ", ".join(f"{name} {plural(count, 'task')}" for name, count in document["tasks"].items())
    yield from (f"  host: {line}" for line in document["host"])
