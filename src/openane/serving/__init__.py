"""An HTTP server for one language model, with the chat and completions endpoints of OpenAI's API.

    protocol   what a model must offer: tokens in, tokens out, a tokenizer, a chat template
    fields     checks of single JSON values; requests  whole bodies, checked before anything is queued
    engine     the one thread that runs the model, and the bounded queue before it
    answers    the documents that are sent back; app  routes; guard  sizes, keys and hosts; server  sockets and signals

Starlette and uvicorn carry it: routing and HTTP/1.1, a handful of small packages in pure Python. FastAPI would bring
pydantic, whose answers to wrong fields are not those of OpenAI; aiohttp is larger and compiled. Nothing but `app`,
`guard` and `server` knows them.
"""

from __future__ import annotations

from importlib.util import find_spec

from openane.errors import UnsupportedError

NEEDED = ("starlette", "uvicorn")


def require() -> None:
    """UnsupportedError with the pip line when a package the server needs is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UnsupportedError("ane serve", f"needs {' and '.join(missing)}", remedy='pip install "openane[serve]"')


__all__ = ["NEEDED", "require"]
