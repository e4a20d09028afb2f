"""Continue a text with a language model: a Hugging Face directory (config.json, safetensors, tokenizer.json), a GGUF
file or a llama2.c checkpoint (.bin beside its tokenizer.bin).

The text goes to stdout as it is made; what ran where, how fast, and what the host did goes to stderr. With --json a
line of JSON per token goes to stdout, and a summary as the last line. Ctrl-C ends the text, and the status is 130.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openane.cli import INTERRUPTED
from openane.cli.device_name import device_chip, device_name
from openane.cli.model_options import chosen_target, model_options
from openane.cli.numbers import LONGEST_CONTEXT, real, whole
from openane.cli.output import say, say_json, say_whole
from openane.cli.progress import status
from openane.errors import GenerationError
from openane.models import (
    Buckets,
    CacheWriter,
    GeneratedToken,
    LanguageModel,
    LanguageSettings,
    Options,
    Precision,
    Residence,
    Sampling,
    Slots,
    load,
    load_adapter,
)
from openane.models.runner import shares
from openane.record_classes import dataclass
from openane.wording import byte_text, plural

ENDS = {"stop": "the model or --stop ended it", "length": "it is as long as --max-tokens or the context allows",
        "interrupted": "Ctrl-C"}
"""Why a text ends, in words."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("model", metavar="MODEL", type=Path,
                        help="a model's directory, a GGUF file, or a llama2.c checkpoint")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--prompt", metavar="TEXT", help="the text to continue")
    text.add_argument("--chat", metavar="TEXT", help="what to say to a model that was trained on conversations")
    text.add_argument("--tokens", metavar="N,N,...",
                      help="the text as tokens; without a tokenizer the answer is tokens, too")
    parser.add_argument("--names", action="store_true", help="names of special tokens in --prompt (such as <|im_end|>) "
                        "become those tokens; without it they are text")
    parser.add_argument("--max-tokens", metavar="N", type=whole(1), default=128,
                        help="longest answer, in tokens (default: 128)")
    parser.add_argument("--temperature", metavar="T", type=real(0), default=0.0,
                        help="0 takes the most likely token (default), 1 draws as the model says")
    parser.add_argument("--top-k", metavar="K", type=whole(0), default=0,
                        help="draw from the K most likely (default: all)")
    parser.add_argument("--top-p", metavar="P", type=real(0, 1, above=True), default=1.0,
                        help="draw from the fewest tokens that are P likely together (default: 1)")
    parser.add_argument("--seed", metavar="N", type=whole(0),
                        help="seed of what is drawn (default: another each time)")
    parser.add_argument("--stop", metavar="TEXT", action="append", default=[], help="end before TEXT; may be repeated")
    parser.add_argument("--tokenizer", metavar="FILE", type=Path,
                        help="tokenizer.json or tokenizer.bin (default: the one beside the model)")
    parser.add_argument("--device", metavar="D", help="where to run (default: $ANE_DEVICE or simulator)")
    parser.add_argument("--context", metavar="N", type=whole(1, LONGEST_CONTEXT),
                        help="longest text, prompt included (default: 1024 or the model's own)")
    parser.add_argument("--prefill", metavar="N", type=whole(0, LONGEST_CONTEXT), default=64,
                        help="tokens of the prompt per step (default: 64; 0: one by one)")
    parser.add_argument("--weights", choices=[str(p) for p in Precision], default="fp16",
                        help="how weights are held before they are folded into fp16 (default: fp16)")
    parser.add_argument("--placement", choices=[str(p) for p in CacheWriter], default="host",
                        help="who puts new keys and values into the cache (default: host)")
    parser.add_argument("--adapter", metavar="DIR", type=Path, help="a LoRA adapter of PEFT")
    model_options(parser, "--target", "--no-cache")
    parser.add_argument("--json", action="store_true", help="print a line of JSON per token and a summary")


def run(options: argparse.Namespace) -> int:
    """Loads, continues the text, and says what it took."""
    wanted = Options(options.max_tokens, Sampling(options.temperature, options.top_k, options.top_p, options.seed),
                     tuple(options.stop))
    prompt = _prompt(options)
    adapter = None if options.adapter is None else load_adapter(options.adapter)
    slots = None if adapter is None else Slots(frozenset(part for _, part in adapter.matrices),
                                               max(len(pair[0]) for pair in adapter.matrices.values()))
    start = time.perf_counter()
    with status(f"ane: loading {options.model}") as told:
        loaded = load(options.model, options.device, _settings(options, slots), options.tokenizer, told)
    with loaded as model:
        if adapter is not None:
            model.use(adapter)
        timing = Timing(time.perf_counter() - start)
        tokens = model.prompt_tokens(prompt)
        if options.names and options.prompt is not None and model.tokenizer is not None:
            tokens = model.tokenizer.encode(options.prompt, names=True)
        ended = _shown(timing.watched(model.stream(tokens, wanted)), options.json, model.tokenizer is None)
        summary = _summary(model, timing, len(tokens), ended)
    say_json(summary, None, flush=True) if options.json else say("", flush=True)
    say("\n".join(_talk(summary)), file=sys.stderr)
    return INTERRUPTED if ended == "interrupted" else 0


@dataclass(slots=True)
class Timing:
    """Seconds to load, to the first token and from there on, and how many tokens there were."""

    loading: float
    first: float = 0.0
    rest: float = 0.0
    tokens: int = 0

    def watched(self, stream: Iterator[GeneratedToken]) -> Iterator[GeneratedToken]:
        """The stream, timed."""
        start = time.perf_counter()
        for token in stream:
            now = time.perf_counter() - start
            self.first, self.rest = (now, 0.0) if not self.tokens else (self.first, now - self.first)
            self.tokens += token.number is not None
            yield token


def _prompt(options: argparse.Namespace) -> Any:
    if options.prompt is not None:
        return options.prompt
    if options.names:
        raise GenerationError("--names is about the text of --prompt; without --prompt it has no meaning")
    if options.chat is not None:
        return [{"role": "user", "content": options.chat}]
    try:
        return [int(token) for token in options.tokens.split(",")]
    except ValueError:
        raise GenerationError(f"--tokens takes numbers between commas, not {options.tokens!r}") from None


def _settings(options: argparse.Namespace, slots: Slots | None) -> LanguageSettings:
    buckets = None
    if options.context is not None:
        fits = 2 <= options.prefill <= options.context
        buckets = Buckets((options.context,), (options.prefill,) if fits else ())
    elif options.prefill != 64:
        raise GenerationError("--prefill is a length to compile for, as --context is: give both, or neither")
    target = chosen_target(options, device_chip(device_name(options.device)))
    return LanguageSettings(buckets, Precision(options.weights), CacheWriter(options.placement), False, slots,
                            Residence.AUTO, target, not options.no_cache)


def _shown(stream: Iterator[GeneratedToken], as_json: bool, numbers: bool) -> str | None:
    """Prints a text as it comes; why it ended."""
    ended = None
    try:
        for token in stream:
            ended = token.finish
            _show(token, as_json, numbers)
    except KeyboardInterrupt:
        return "interrupted"
    return ended


def _show(token: GeneratedToken, as_json: bool, numbers: bool) -> None:
    if as_json:
        say_json({"token": token.number, "text": token.text, "finish": token.finish}, None, flush=True)
    else:
        say_whole(f"{token.number} " if numbers and token.number is not None else token.text, flush=True)


def _summary(model: LanguageModel, timing: Timing, prompt: int, finish: str | None) -> dict[str, Any]:
    usage = model.usage
    functions = {name: {"engine_operations": engine, "host_operations": host}
                 for name, engine, host in shares(model.runner.models)}
    return {"device": model.device.info.name, "prompt_tokens": prompt, "tokens": timing.tokens, "finish": finish,
            "load_seconds": timing.loading, "first_token_seconds": timing.first,
            "tokens_per_second": (timing.tokens - 1) / timing.rest if timing.rest else None,
            "engine_share": usage.engine_seconds / (timing.first + timing.rest) if timing.tokens else None,
            "steps": usage.steps, "tasks": usage.tasks, "function_switches": usage.switches,
            "cache_bytes_placed_by_host": usage.placed, "bytes_passed": usage.passed, "functions": functions,
            "host": list(model.host)}


def _talk(summary: dict[str, Any]) -> Iterator[str]:
    speed = summary["tokens_per_second"]
    yield (f"{plural(summary['tokens'], 'token')} after a prompt of {summary['prompt_tokens']}, on "
           f"{summary['device']} ({summary['finish']}: {ENDS.get(summary['finish'], 'ended')})")
    yield (f"  loaded in {summary['load_seconds']:.1f} s, first token after {summary['first_token_seconds']:.2f} s" +
           (f", then {speed:.1f} tokens/s" if speed else ""))
    if summary["engine_share"] is not None:
        yield (f"  engine: {summary['engine_share']:.0%} of the time after loading, "
               f"{plural(summary['steps'], 'step')}, {plural(summary['tasks'], 'task')}")
    for name, counts in summary["functions"].items():
        yield (f"  function {name}: {counts['engine_operations']} operations on the engine, "
               f"{counts['host_operations']} on the host")
    yield (f"  host: {byte_text(summary['cache_bytes_placed_by_host'])} put into the cache, "
           f"{byte_text(summary['bytes_passed'])} of inputs and outputs")
    yield from (f"  host: {line}" for line in summary["host"])
