"""The groups of programs that are guarded, and the digests of what the compiler makes of them."""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from guarded.digests import Digest, Key
from openane.compiler import Model
from openane.errors import AneError

GROUPS = {"networks": "guarded.networks", "records": "guarded.recorded", "graphs": "guarded.graphs",
          "training": "guarded.training", "language": "guarded.language"}
"""Group to the module whose `makers` give its programs."""
LATER = ("graphs/conv", "graphs/conv_transpose", "graphs/max_pool", "graphs/avg_pool", "graphs/linear", "graphs/matmul",
         "graphs/softmax", "graphs/layer_norm", "graphs/reduce_sum", "graphs/transpose", "graphs/concat", "graphs/cast",
         "graphs/pow", "graphs/real_div", "graphs/sqrt", "graphs/abs+*", "graphs/gelu", "graphs/conv+batch_norm+relu",
         "graphs/conv+sigmoid+mul+avg_pool", "graphs/matmul+add+softmax+matmul", "graphs/layer_norm+*",
         "graphs/reduce_mean+*", "graphs/long+conv+*", "graphs/long+matmul+*", "records/binary_*", "records/matmul_*",
         "records/layer_norm_*", "records/unary_*", "training/gradient_rnn", "training/weights_conv")
"""Programs of later generations: each kind of task, and several in one program."""
TARGETS: dict[str, Sequence[str]] = {"h13": (), **{f"h{number}": LATER for number in range(14, 19)}}
"""Generations that programs are compiled for, and patterns of the programs for each: none is all."""
Maker = Callable[[str], Model]


class NotHere(Exception):
    """A group cannot be compiled here: what it needs is missing."""


def makers(group: str) -> dict[str, Maker]:
    """What compiles each program of a group for a target, by `group/name`. NotHere where something it needs is
    missing."""
    try:
        made: dict[str, Maker] = import_module(GROUPS[group]).makers()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("openane", "guarded", "support", "networks", "records"):
            raise
        raise NotHere(f"the package {error.name} is not installed") from None
    return {f"{group}/{plain_name(name)}": made[name] for name in sorted(made)}


def plain_name(name: str) -> str:
    """A name without what separates columns of a file or chooses several names."""
    return re.sub(r"[\[\],*?]", "", name).replace(" ", "_")


def wanted(name: str, patterns: Sequence[str]) -> bool:
    """Whether a program is among those that are asked for: all without patterns; a pattern is a group, a name or a name
    with wildcards."""
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) or name.startswith(f"{pattern}/")
                               for pattern in patterns)


def models(group: str, patterns: Sequence[str] = ()) -> Iterator[tuple[Key, Model | str]]:
    """Each program of a group that is asked for, compiled for its targets; or why it is not. NotHere as `makers`."""
    for name, make in makers(group).items():
        if wanted(name, patterns):
            for target, some in TARGETS.items():
                if wanted(name, some):
                    yield (name, target), _made(make, target)


def _made(make: Maker, target: str) -> Model | str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numbers that fp16 does not hold
        try:
            return make(target)
        except AneError as error:
            return f"is refused: {' '.join(str(error).split())}"
        except Exception as error:  # a mistake in the compiler must not hide what the others became
            return f"failed with {type(error).__name__}: {error}"


def digests(group: str, patterns: Sequence[str] = ()) -> Iterator[tuple[Key, Digest | str]]:
    """The digests of `models`."""
    for key, model in models(group, patterns):
        yield key, model if isinstance(model, str) else Digest.of(model)
