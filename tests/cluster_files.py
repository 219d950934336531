"""The files that build a cluster and an environment, as several tests read them."""

import itertools
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
CLUSTERS = ROOT / "deploy" / "cluster"
SCAN_MODULE = "_remine_byte_index.abi3.so"  # what pip compiles, for any Python from 3.11


def load(path: Path) -> dict[str, Any]:
    safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # KubeRay's definitions are megabytes
    loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=safe)
    assert isinstance(loaded, dict)
    return loaded


def pin_lines(file: str = "constraints.txt") -> list[str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def pins(file: str = "constraints.txt") -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in pin_lines(file))}


def opening_comment(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(itertools.takewhile(lambda line: line.startswith("#"), lines))
