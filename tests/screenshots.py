"""Make the README's pictures: the report of an invented study, in headless Chromium.

    python -m tests.screenshots

Writes docs/report.png and docs/pictures.png, and docs/pictures.sha256, a hash of the templates and styles:
tests/jobs/page/test_screenshots.py fails when these have changed since. Needs Chromium; starts neither Ray nor models.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from jobs.runtime.command_line import cli
from tests.browser import CHROMIUM, FLAGS
from tests.jobs.page.study import write_study

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HASH = DOCS / "pictures.sha256"
SHOWN = ("jobs/page/page.html.j2", "jobs/page/summary.html.j2", "jobs/page/figures.html.j2",
         "jobs/page/gallery.html.j2", "jobs/page/macros.html.j2", "jobs/page/picture.html.j2", "jobs/html/page.css",
         "tests/jobs/page/study.py")  # fmt: skip
WIDTH, SCALE = 1280, 0.75  # CSS pixels, and pixels of the file per CSS pixel
SECTIONS = {"report": ("summary",), "pictures": ("pictures",)}  # file -> sections of the page
HEIGHTS = {"report": 1760, "pictures": 1250}  # CSS pixels
ORDER = {"report": "", "pictures": "#by-disagreement"}


def main() -> int:
    """Write the pictures; return the exit status."""
    if CHROMIUM is None:
        print("chromium is not installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report"
        cli.execute("report", [*write_study(Path(folder)), f"out={out}"])
        html = (out / "index.html").read_text(encoding="utf-8")
        for name, sections in SECTIONS.items():
            page = Path(folder) / f"{name}.html"
            page.write_text(only(html, sections), encoding="utf-8")
            shot = Path(folder) / f"{name}.png"
            options = [f"--window-size={WIDTH},{HEIGHTS[name]}", f"--screenshot={shot}", f"--user-data-dir={folder}/c"]
            subprocess.run([CHROMIUM, *FLAGS, *options, page.as_uri() + ORDER[name]], check=True, capture_output=True)
            with Image.open(shot) as picture:
                size = int(WIDTH * SCALE), int(HEIGHTS[name] * SCALE)
                small = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
                small.save(DOCS / f"{name}.png", optimize=True)
            print(DOCS / f"{name}.png")
    HASH.write_text(hash_of_shown() + "\n")
    return 0


def hash_of_shown() -> str:
    """Return the SHA-256 of the files that determine what the pictures show."""
    return hashlib.sha256(b"\0".join((ROOT / name).read_bytes() for name in SHOWN)).hexdigest()


def only(html: str, sections: tuple[str, ...]) -> str:
    """Return the page with these sections only, and without its header if they do not begin the page."""
    for name in re.findall(r'<section id="(\w+)"', html):
        if name not in sections:
            html = re.sub(rf'<section id="{name}".*?</section>', "", html, flags=re.S)
    return html if "pictures" not in sections else re.sub(r'<header class="top">.*?</header>', "", html, flags=re.S)


if __name__ == "__main__":
    sys.exit(main())
