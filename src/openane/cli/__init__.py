"""The command `ane`: a table of verbs, each in a module of its own that is imported when it is called.

Data goes to stdout, talk to stderr. Exit status: 0 success, 1 refused or failed, 2 wrong usage; 130 and 141 when
interrupted and when the reader of a pipe has gone, as a shell reports them.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from openane.errors import AneError
from openane.version import __version__

VERBS = {
    "compile": "compile a model into an engine program",
    "convert": "write a model in another format: Core ML package, MIL text, ONNX, net.plist",
    "quantize": "store a model's weights in fewer bits, and say what that costs and saves",
    "run": "run a model or a program and write its outputs",
    "check": "say which operation of a model overflows or loses digits, why, and what would help",
    "generate": "continue a text with a language model, token by token",
    "transcribe": "write down what is said in a sound, with a Whisper model",
    "serve": "serve a language model over HTTP, with the endpoints of OpenAI's API",
    "dis": "disassemble a program into named register fields",
    "asm": "assemble what dis printed, edited or not",
    "diff": "compare two programs task by task, in words and in bits",
    "profile": "where the time goes on a chip: per task, per engine, as a trace",
    "explain": "what costs most, what would help, and whether CPU or GPU is the better place",
    "farm": "compile, check or profile many models in parallel, with all results in one file",
    "train": "train a network on the engine, with checkpoints, on one machine or several",
    "bench": "probe a device: dispatch, peak, bandwidth, working sets, fusion, chaining",
    "verify": "prove that a program stays inside its buffers and keeps the engine's rules",
    "devices": "list what can run programs here",
    "doctor": "what this machine can do, what is missing, what helps",
    "attest": "run experiments on your engine and write one file that says what it did",
    "evidence": "judge files of ane attest: odds, contradictions, what is proved by how many machines",
    "replay": "compare a recorded run with what a driver does now, byte for byte",
    "cache": "list, check, prune or clear the models compiled before",
    "simdriver": "run programs of others against the simulated Linux driver",
    "info": "show what a program or a model contains",
    "ops": "list operations: where each runs, under which rules, how that is known",
    "chips": "list generations, chips and machines; print registers",
    "completion": "print the completion of ane for bash, zsh or fish",
}
"""Verb to the line `ane --help` shows. A verb lives in `openane.cli.VERB`: `arguments(parser)` and `run(options)`."""

FAILED, USAGE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (without the program's name) and returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    wording = warnings.formatwarning
    warnings.formatwarning = _warning  # of those that are shown; what collects or raises them is left alone
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal has no characters for is spelled out
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(arguments)
    except SystemExit as stop:  # argparse has already said why
        return stop.code if isinstance(stop.code, int) else USAGE
    except AneError as error:
        return _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail again
        return PIPE_CLOSED
    except (OSError, UnicodeEncodeError) as error:
        return _fail(_reason(error))
    except MemoryError:
        return _fail("there is not enough memory for this")
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        warnings.formatwarning = wording


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        overview = _overview()
        overview.parse_args(arguments)
        overview.print_help(sys.stderr)
        return USAGE
    verb = arguments[0]
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, n=1)
        _overview().error(f"unknown verb {verb!r}; " + (f"did you mean {near[0]!r}?" if near else
                                                        f"the verbs are {', '.join(VERBS)}"))
    for text in import_module("openane.cli.shadow").shadows():
        print(f"ane: warning: {text}", file=sys.stderr)
    options = import_module("openane.cli.parsers").verb_parser(verb).parse_args(arguments[1:])
    outputs = import_module("openane.cli.outputs")
    outputs.require_no_stream(options)
    outputs.require_apart(options)
    status: int = import_module(f"openane.cli.{verb}").run(options)
    if sys.stdout is not None:  # it was closed before the start
        sys.stdout.flush()
    return status


def _overview() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {verb:<10} {line}" for verb, line in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="ane", usage="ane VERB ...", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compile, inspect, simulate and run programs for the Apple Neural Engine.",
        epilog=f"verbs:\n{lines}\n\n'ane VERB --help' explains one of them.")
    parser.add_argument("--version", action="version", version=f"openane {__version__}")
    return parser


def _warning(message: Warning | str, category: type[Warning], filename: str, lineno: int,
             line: str | None = None) -> str:
    """A warning as the command says it: what it warns of, not which line of the source does."""
    from openane.wording import message_text

    return f"ane: warning: {message_text(str(message))}\n"


def _reason(error: OSError | UnicodeEncodeError) -> str:
    """Why something could not be read or written; a name of bytes that are no text among it, as Python keeps it."""
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r} is not text in {error.encoding.upper()}, which it has to be here"
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)


def _fail(message: str) -> int:
    from openane.wording import message_text

    if sys.stdout is not None:  # it was closed before the start
        sys.stdout.flush()
    print(f"ane: error: {message_text(message)}", file=sys.stderr)
    return FAILED
