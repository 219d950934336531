"""The Dockerfile: its base, what it copies, and the environment that it installs."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster_files import CLUSTERS, ROOT, load


@pytest.fixture
def instructions() -> list[list[str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_small_pinned_and_without_root(instructions: list[list[str]]) -> None:
    images = {words[1] for words in instructions if words[0] == "FROM"}
    # The Python of constraints.txt and of the rayproject images; one version for both stages.
    (image,) = images
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", image)
    assert [words[1] for words in instructions if words[0] == "USER"] == ["ray"]


def run(instructions: list[list[str]], word: str, *, root: Path, **variables: str) -> None:
    """Run the RUN instruction that contains `word` with the folders of the image below `root`."""
    (line,) = [" ".join(words[1:]) for words in instructions if words[0] == "RUN" and word in " ".join(words)]
    line = line.replace("/home/ray", str(root)).replace("/etc/profile.d", str(root))
    subprocess.run(["sh", "-ec", line], cwd=ROOT, env={"PATH": os.defpath, **variables}, check=True)


def test_login_shells_find_the_environment(instructions: list[list[str]], tmp_path: Path) -> None:
    """The pods of deploy/kubernetes run `bash -lc`, and Debian's /etc/profile sets PATH."""
    run(instructions, "profile.d", root=tmp_path)
    profile = "PATH=/usr/local/bin:/usr/bin:/bin\nexport PATH\n"
    (tmp_path / ".bash_profile").write_text(profile + f". {tmp_path}/remine.sh\n")
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/env/bin:{os.defpath}"}
    shell = subprocess.run(
        ["bash", "-lc", "printenv PATH"], env=environment, capture_output=True, text=True, check=True
    )
    assert shell.stdout.split(":")[0] == f"{tmp_path}/env/bin"


def test_vllm_is_installed_with_its_own_constraints(instructions: list[list[str]], tmp_path: Path) -> None:
    """By the build argument of the Dockerfile, and by the second line of the files that start clusters."""
    calls, pip = tmp_path / "calls", tmp_path / "env/bin/pip"
    pip.parent.mkdir(parents=True)
    pip.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {calls}\n')
    pip.chmod(0o755)
    (tmp_path / "remine").symlink_to(ROOT)

    def arguments(extras: str) -> list[str]:
        run(instructions, "pip install", root=tmp_path, EXTRAS=extras)
        return [word for word in calls.read_text().splitlines() if word not in ("-q", "--no-cache-dir", "boto3")]

    assert ["ARG", "EXTRAS=all"] in instructions
    assert arguments("all") == ["install", "-c", "constraints.txt", ".[all]"]
    with_vllm = ["install", "-c", "constraints-vllm.txt", ".[mining,models,vllm,diffusion,smolvlm]"]
    assert arguments("mining,models,vllm,diffusion,smolvlm") == with_vllm
    for path in (ROOT / "cluster.yaml", CLUSTERS / "gcp.yaml", CLUSTERS / "on-premises.yaml"):
        text = path.read_text("utf-8")
        (line,) = re.findall(r"^  # - (cd .*vllm.*)$", text, re.M)
        assert text.index(line) > text.index(load(path)["setup_commands"][-1])
        subprocess.run(["sh", "-ec", line], env={"PATH": os.defpath, "HOME": str(tmp_path)}, check=True)
        words = calls.read_text().splitlines()
        assert [word for word in words if word not in ("-q", "--disable-pip-version-check")] == with_vllm


def test_it_copies_the_code_and_nothing_else(instructions: list[list[str]]) -> None:
    copied = {
        name for words in instructions if words[0] == "COPY" and "--from=build" not in words for name in words[1:-1]
    }
    assert copied == {
        "pyproject.toml",
        "setup.py",
        "constraints.txt",
        "constraints-vllm.txt",
        "README.md",
        "LICENSE",
        "actors",
        "conf",
        "jobs",
    }
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in allowed if line.startswith("!")} == copied
    assert "*" in allowed
