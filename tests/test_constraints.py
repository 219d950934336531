"""The pins of constraints.txt, and the ranges of pyproject.toml that they must be in."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.cluster_files import ROOT, pin_lines, pins

PIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[0-9][0-9A-Za-z.!]*")


def test_only_name_and_version() -> None:
    assert [line for line in pin_lines() if not PIN.fullmatch(line)] == []


def test_sorted_and_each_once() -> None:
    names = [canonicalize_name(line.split("==")[0]) for line in pin_lines()]
    assert len(names) == len(set(names))
    assert pin_lines() == sorted(pin_lines(), key=str.upper)


def test_tools_of_the_environment_are_not_pinned() -> None:
    assert not {"pip", "setuptools", "wheel", "remine"} & pins().keys()


def test_nothing_slows_the_start_of_each_process() -> None:
    """Ray imports jsonschema, which imports these if they are installed: 3 s of CPU in each worker."""
    assert not {"rfc3987-syntax", "chardet"} & pins().keys()


def test_every_dependency_is_pinned_inside_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wrong = []
    for line in [*project["dependencies"], *(line for extra in extras for line in extra)]:
        wanted = Requirement(line)
        if wanted.name in ("remine", "vllm"):  # an extra made of others; vLLM has a separate environment
            continue
        version = pins().get(canonicalize_name(wanted.name))
        if version is None or not wanted.specifier.contains(version):
            wrong.append(f"{line}: {version}")
    assert wrong == []


def test_the_environment_of_vllm_is_pinned_inside_the_same_ranges() -> None:
    """And has Ray's version, which must be equal on all machines."""
    vllm = pins("constraints-vllm.txt")
    assert [line for line in pin_lines("constraints-vllm.txt") if not PIN.fullmatch(line)] == []
    assert vllm["ray"] == pins()["ray"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        line
        for name in ("mining", "models", "vllm", "diffusion", "smolvlm")
        for line in project["optional-dependencies"][name]
    ]
    wanted = [Requirement(line) for line in (*project["dependencies"], *extras)]
    wrong = [str(one) for one in wanted if not one.specifier.contains(vllm.get(canonicalize_name(one.name), "0"))]
    assert wrong == []


def test_torch_fits_its_torchvision() -> None:
    # torch 2.13.0 is the one release with which no torchvision loads on some machines: its operators are missing.
    assert pins()["torch"] != "2.13.0"
    assert (pins()["torch"], pins()["torchvision"]) == ("2.15.0", "0.29.2")
