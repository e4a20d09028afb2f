"""Pictures of the documentation site at two widths, for people to look at: `python -m support.site_pictures`, in tests,
takes them anew. They are kept beside the site's tests."""

from __future__ import annotations

import base64
import functools
import http.server
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.browser import browser
from support.pages import ROOT

PAGES = ("index", "start/mac", "start/anywhere", "tutorials/first_model", "reference/commands", "reference/python",
         "operations", "converting", "formats/hwx", "explanation/arithmetic", "performance", "status", "zoo")
KEPT = ("index", "start/anywhere", "tutorials/first_model", "reference/commands", "operations", "converting",
        "formats/hwx", "explanation/arithmetic", "performance", "zoo")
"""Those whose pictures are kept."""
WIDTHS = {"phone": 420, "desktop": 1280}
HEIGHT = 900
FOLDER = ROOT / "tests" / "execution" / "site" / "pictures"
QUALITY = 60


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site strictly: a link that leads nowhere, or a page nobody lists, ends the build."""
    return subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
                          cwd=ROOT, capture_output=True, text=True, check=False)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address at which the site is served on this machine."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def as_wide_as(driver: Any, device: str) -> None:
    """Makes the driver show pages as a phone or a desktop does; a window itself is never as narrow as a phone."""
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": WIDTHS[device], "height": HEIGHT, "deviceScaleFactor": 1, "mobile": device == "phone"})


def picture(page: str, device: str) -> Path:
    """Where the picture of a page is kept."""
    return FOLDER / f"{page.replace('/', '-')}-{device}.webp"


def take(folder: Path) -> None:
    """Builds the site in a folder and takes every picture."""
    made = build(folder)
    if made.returncode:
        raise SystemExit(made.stdout + made.stderr)
    FOLDER.mkdir(exist_ok=True)
    with served(folder) as address, browser() as driver:
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})  # a phone's fade as it is taken
        for device in WIDTHS:
            as_wide_as(driver, device)
            for page in KEPT:
                driver.get(f"{address}/{page}.html")
                shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
                picture(page, device).write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        take(Path(place))
