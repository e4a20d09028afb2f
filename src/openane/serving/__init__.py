"""An HTTP server for one language model, with the chat and completions endpoints of OpenAI's API.

    protocol   what a model must offer: tokens in, tokens out, a tokenizer, a chat template
    requests   whole bodies, checked before anything is queued; fields  what they are made of
    engine     the one thread that runs the model, and the bounded queue before it
    answers    the documents that are sent back; app  routes; guard  sizes, keys and hosts
    clients    what one client may have; connection  slow and too many of them; server  sockets and signals

Starlette and uvicorn carry it: routing and HTTP/1.1, a handful of small packages in pure Python. Pydantic checks the
bodies; its errors are told in the words of OpenAI's API, which FastAPI would not do. Only `app`, `guard`, `connection`
and `server` know the first two, only `fields` and `requests` the third.
"""

from __future__ import annotations

from importlib.util import find_spec

from openane.errors import UnsupportedError
from openane.version import pip_line

NEEDED = ("pydantic", "starlette", "uvicorn")


def require() -> None:
    """UnsupportedError with the pip line when a package the server needs is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UnsupportedError("ane serve", f"needs {' and '.join(missing)}", remedy=pip_line("serve"))


__all__ = ["NEEDED", "require"]
