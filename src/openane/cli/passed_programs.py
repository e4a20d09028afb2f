"""Programs that passed the verifier on this machine, so that commands ask its rules once of each.

An entry of the cache says so of one digest: that of the program's words, places, constants and buffers, together with
one of the verifier's own source. It is made here, after the rules have been asked, and never read from a model's files:
what a bundle, a `.hwx` or an `.anec` brings along cannot say anything of itself. A program that differs in one bit, or
is looked at by another verifier, is another one. The folder must be the user's own, and nobody else's to write to:
somebody who can write there could as well change this package. Devices that are no simulation ask every rule every
time.
"""

from __future__ import annotations

import hashlib
import os
import stat

from openane.cache import Cache, source_digest

ROOMS = ("registers", "rounding.py", "engine", "chips", "program")
"""What decides whether a program passes, of this package."""
SAID = "passed"


class PassedPrograms:
    """What `program.verify.Passed` asks for, in the user's cache. Where that is not to be trusted, or there is none,
    it knows nothing and keeps nothing."""

    def __init__(self) -> None:
        try:
            cache = Cache()
            self._cache = cache if _own(cache) else None
        except OSError:
            self._cache = None

    def knows(self, digest: str) -> bool:
        """Whether a program of this digest has passed."""
        return self._cache is not None and self._cache.get(_key(digest)) == {SAID: digest.encode()}

    def remember(self, digest: str) -> None:
        """Keeps that a program of this digest has passed."""
        if self._cache is not None:
            self._cache.put(_key(digest), {SAID: digest.encode()}, "a program that passed the verifier")


def _key(digest: str) -> str:
    return hashlib.sha256(f"passed {source_digest(ROOMS)} {digest}".encode()).hexdigest()


def _own(cache: Cache) -> bool:
    """Whether a cache's folder belongs to this user and nobody else may write to it. One that is still to be made
    does."""
    try:
        found = cache.folder.stat()
    except FileNotFoundError:
        return True
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid()
                                          and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
