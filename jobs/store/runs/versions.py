"""Versions of the code and of packages, for footers and manifests."""

import platform
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from actors import ROOT
from actors.ids import content_id

PACKAGES = "remine ray torch torchvision transformers open_clip_torch diffusers accelerate pyarrow s3fs pillow".split()
SOURCES = (".py", ".j2", ".css", ".js")  # files whose text determines what tables and pages contain


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the versions of the code, of Python and of the packages that influence the output."""
    installed = {"python": platform.python_version(), "code": code_hash()}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def code_hash(root: Path = ROOT) -> str:
    """Return a hash of the source files below `root`, which identifies the code even outside a git checkout.

    Raises:
        RuntimeError: there are none; the hash would say nothing.
    """
    paths = (path for folder in ("jobs", "actors") for path in (root / folder).rglob("*"))
    files = sorted(path for path in paths if path.suffix in SOURCES)
    if not files:
        raise RuntimeError(f"{root}: has no source files")
    texts = (part for path in files for part in (path.relative_to(root).as_posix(), path.read_text("utf-8")))
    return content_id(*texts)
