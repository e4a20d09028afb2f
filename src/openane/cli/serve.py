"""Serve a language model over HTTP with OpenAI's chat and completions endpoints, streaming or not.

MODEL is a Hugging Face directory, a GGUF file or a llama2.c checkpoint, as for 'ane generate'. Requests are answered
one after the other, in the order they came; those beyond the queue get status 429. Ctrl-C or SIGTERM ends it: the
answer that is being generated may end first. Counts of tokens are logged to stderr, texts never.
"""

from __future__ import annotations

import argparse
import logging
import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from openane.cli.device_name import device_chip, device_name
from openane.cli.files import parse_size
from openane.cli.model_options import chosen_target, model_options
from openane.cli.numbers import LONGEST_CONTEXT, expected, whole
from openane.cli.output import say
from openane.cli.progress import status
from openane.devices import Device
from openane.errors import UnsupportedError
from openane.models import Buckets, LanguageModel, LanguageSettings, Precision, load
from openane.models.language import DEFAULT_PREFILL
from openane.serving import require

if TYPE_CHECKING:
    from openane.serving.clients import ClientLimits

MOST_WAITING = 1 << 16
SECONDS = 1 << 20
VARIABLE = "ANE_API_KEY"
"""Environment variable with keys."""
SHARE = " (default: half of all, or no limit where only this machine is served without keys)"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("model", metavar="MODEL", type=Path,
                        help="a model's directory, a GGUF file, or a llama2.c checkpoint")
    parser.add_argument("--host", metavar="H", default="127.0.0.1",
                        help="address to listen on (default: 127.0.0.1, for this machine only)")
    parser.add_argument("--port", metavar="P", type=whole(0, 65535), default=8000,
                        help="port to listen on (default: 8000; 0: a free one)")
    parser.add_argument("--name", metavar="NAME", help="what clients call the model (default: its directory's name)")
    parser.add_argument("--tokenizer", metavar="FILE", type=Path,
                        help="tokenizer.json or tokenizer.bin (default: the one beside the model)")
    parser.add_argument("--device", metavar="D", help="where to run (default: $ANE_DEVICE or simulator)")
    parser.add_argument("--context", metavar="N", type=whole(1, LONGEST_CONTEXT),
                        help="longest text, prompt included (default: 1024 or the model's own)")
    parser.add_argument("--weights", choices=[str(p) for p in Precision], default="fp16",
                        help="how weights are held before they are folded into fp16 (default: fp16)")
    model_options(parser, "--target", "--no-cache")
    parser.add_argument("--max-queue", metavar="N", type=whole(0, MOST_WAITING), default=64,
                        help="requests that may wait (default: 64)")
    parser.add_argument("--timeout", metavar="S", type=whole(1, SECONDS), default=600,
                        help="seconds a request may take, waiting included (default: 600)")
    parser.add_argument("--grace", metavar="S", type=whole(0, SECONDS), default=10,
                        help="seconds the running answer has to end when the server is stopped (default: 10)")
    parser.add_argument("--api-key-file", metavar="F", type=Path,
                        help="a file of keys, one per line, one of which clients must send (default: those of "
                             f"${VARIABLE}, else no key is needed)")
    parser.add_argument("--max-body", metavar="SIZE", type=_body, default=1 << 20,
                        help="bytes of a request's body, 500K or 2M (default: 1M)")
    parser.add_argument("--max-connections", metavar="N", type=whole(1, MOST_WAITING), default=256,
                        help="connections that may be open (default: 256)")
    parser.add_argument("--client-connections", metavar="N", type=whole(1, MOST_WAITING),
                        help="connections of one address" + SHARE)
    parser.add_argument("--client-requests", metavar="N", type=whole(1, MOST_WAITING),
                        help="requests of one key, or address, that may wait or run" + SHARE)
    parser.add_argument("--client-seconds", metavar="S", type=whole(1, 600),
                        help="seconds of the engine that one key, or address, may have in ten minutes (default: all)")


def _body(text: str) -> int:
    size = parse_size(text)
    if size < 1:
        raise expected("a size above 0, such as 500K or 2M", text)
    return size


def run(options: argparse.Namespace) -> int:
    """Loads the model and serves it until it is stopped."""
    require()
    from openane.serving.app import Service
    from openane.serving.connection import ConnectionLimits
    from openane.serving.engine import ServedModel
    from openane.serving.guard import Guard, is_loopback
    from openane.serving.open_files import require_open_files
    from openane.serving.server import HttpServer, bound

    require_open_files(options.max_connections)
    keys, local = _keys(options.api_key_file), is_loopback(options.host)
    limits = _client_limits(options, bool(keys) or not local)
    with bound(options.host, options.port) as listening:
        port = listening.getsockname()[1]
        if not local:
            anybody = "" if keys else "without keys (--api-key-file) whoever reaches it may use it, and "
            _warn(f"{options.host} is open to other machines: {anybody}{'keys and ' if keys else ''}texts travel "
                  "unencrypted")
        if not sys.stderr.isatty():
            _say(f"loading {options.model}")
        with status(f"ane: loading {options.model}") as told:
            loaded = load(options.model, options.device, _settings(options), options.tokenizer, told)
        with loaded as model:
            _require_text(model)
            _bring_loops(model.device)
            engine = ServedModel(model, model.config.vocabulary, options.max_queue, limits)
            path = options.model.resolve()
            name = options.name or (path.name if path.is_dir() else path.stem)
            guard = Guard(keys, local, options.max_body)
            service = Service(name, model.device.info.name, engine, guard, options.timeout)
            ready = (f"{name} on {service.device}, up to {model.context} tokens, at "
                     f"http://{_address(options.host)}:{port}/v1 (Ctrl-C ends it)")
            _log_to_stderr()
            HttpServer(service, listening, options.grace, lambda: _say(ready),
                       ConnectionLimits(options.max_connections, limits.connections)).serve_until_stopped()
    _say("stopped")
    return 0


def _keys(path: Path | None) -> tuple[str, ...]:
    """The keys that a file has, else those of the environment, which programs that are started do not get."""
    from openane.serving.guard import keys_of, read_keys

    stated = os.environ.pop(VARIABLE, None)
    if path is not None:
        if stat.S_IMODE(path.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH):
            _warn(f"other users of this machine can read the keys of {path.name}: chmod 600 {path.name}")
        return read_keys(path)
    return () if stated is None else keys_of(stated, f"${VARIABLE}")


def _client_limits(options: argparse.Namespace, shared: bool) -> ClientLimits:
    """What one client may have: where several share the server, half of it unless another number is stated."""
    from openane.serving.clients import ClientLimits

    requests, connections = options.client_requests, options.client_connections
    if shared:
        requests = requests or (options.max_queue + 2) // 2
        connections = connections or (options.max_connections + 1) // 2
    return ClientLimits(requests, options.client_seconds, connections)


def _settings(options: argparse.Namespace) -> LanguageSettings:
    buckets = None
    if options.context is not None:
        prefill = (DEFAULT_PREFILL,) if options.context >= DEFAULT_PREFILL else ()
        buckets = Buckets((options.context,), prefill)
    target = chosen_target(options, device_chip(device_name(options.device)))
    return LanguageSettings(buckets, Precision(options.weights), target=target, cache=not options.no_cache)


def _require_text(model: LanguageModel) -> None:
    """UnsupportedError for a model without a tokenizer; a warning where it is not known how it talks."""
    if model.tokenizer is None:
        raise UnsupportedError("ane serve", "the model has no tokenizer", remedy="put its tokenizer.json (llama2.c: "
                               "tokenizer.bin) beside it")
    if model.template is None:
        _warn("the model has no chat template and no form that is known: /v1/chat/completions will refuse, "
              "/v1/completions works")


def _bring_loops(device: Device) -> None:
    """Has the simulator's loops compiled before there are clients: the first of them on a machine would wait for it in
    the midst of an answer."""
    from openane.devices.simulator import SimulatorDevice
    from openane.simulator.kernels import at_hand, kernels

    if isinstance(device, SimulatorDevice) and find_spec("numba") and not at_hand():
        _say("compiling the simulator's loops, once on this machine")
        kernels()


def _address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("openane.serving").setLevel(logging.INFO)


def _warn(text: str) -> None:
    _say(f"warning: {text}")


def _say(text: str) -> None:
    say(f"ane: {text}", file=sys.stderr, flush=True)
