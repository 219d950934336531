"""Versions of the code and of packages, for footers and manifests."""

import platform
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from actors.ids import content_id

PACKAGES = "remine ray torch torchvision transformers open_clip_torch diffusers accelerate pyarrow s3fs pillow".split()


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the versions of the code, of Python and of the packages that influence the output."""
    installed = {"python": platform.python_version(), "code": _code_hash()}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _code_hash() -> str:
    """Return a hash of the project's source files, which identifies the code even outside a git checkout."""
    root = Path(__file__).parents[2]
    files = sorted(path for folder in ("jobs", "actors") for path in (root / folder).rglob("*.py"))
    texts = (part for path in files for part in (path.relative_to(root).as_posix(), path.read_text("utf-8")))
    return content_id(*texts)
