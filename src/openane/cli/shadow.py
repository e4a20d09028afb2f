"""Whether what users type as `ane` is this project: other packages and scripts have the same name."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator

COMMAND = "ane"


def shadows() -> Iterator[str]:
    """A sentence for a command `ane` that comes before ours on the path, and one for an importable module `ane`."""
    first = shutil.which(COMMAND)
    ours = os.path.join(sysconfig.get_path("scripts"), COMMAND)
    if first is not None and os.path.exists(ours) and not os.path.samefile(first, ours):
        yield f"the command {COMMAND} is another one, {first}; ours is {ours}, or: {sys.executable} -m openane"
    spec = importlib.util.find_spec(COMMAND)
    if spec is not None:
        yield f"a module called {COMMAND} can be imported ({spec.origin or 'a folder'}); ours is openane"
