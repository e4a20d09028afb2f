"""Members of zip archives of strangers: what an archive's directory claims of one is held against the size of the file
before anything is read, as `zipfile` takes the memory that is claimed."""

from __future__ import annotations

import zipfile

RATIOS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
"""The most bytes one byte of a member can stand for (RFC 1951: a match of 258 bytes in two bits), by its method."""


def check_member(about: zipfile.ZipInfo, size: int) -> None:
    """ValueError where a member of an archive of `size` bytes is stored by a method that is not read, or claims more
    bytes, compressed or not, than can be there."""
    if about.compress_type not in RATIOS:
        raise ValueError(f"{about.filename!r} is compressed by method {about.compress_type}; members are stored or "
                         "deflated")
    if about.compress_size > size:
        raise ValueError(f"{about.filename!r} claims {about.compress_size} compressed bytes in a file of {size}")
    if about.file_size > about.compress_size * RATIOS[about.compress_type]:
        raise ValueError(f"{about.filename!r} claims {about.file_size} bytes in {about.compress_size} compressed ones")
