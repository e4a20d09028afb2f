"""The version of the package, stated here and read by the build; and how more of it is installed."""

from __future__ import annotations

__version__ = "0.1.0"


def pip_line(extra: str) -> str:
    """The command that installs an extra: of a release by the package's name, of a checkout or an archive that was
    installed from a folder by its place, as long as that is there."""
    import json
    import os
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution("openane").read_text("direct_url.json") or "{}")
        url, how = urlsplit(origin.get("url", "")), origin.get("dir_info", {})
    except (PackageNotFoundError, OSError, ValueError, AttributeError):  # a source tree, or not what pip writes
        return f"pip install 'openane[{extra}]'"
    path = url2pathname(url.path)
    if url.scheme != "file" or not os.path.exists(path):
        return f"pip install 'openane[{extra}]'"
    return f"pip install {'-e ' if how.get('editable') else ''}{shlex.quote(f'{path}[{extra}]')}"
