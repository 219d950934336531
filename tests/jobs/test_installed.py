"""Installed as a package, away from the checkout, the jobs find their configuration, page and rubrics."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip installs it, from a copy of the sources."""
    base = tmp_path_factory.mktemp("install")
    copy, target = base / "copy", base / "site"
    for name in ("jobs", "actors", "conf"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "LICENSE"):
        shutil.copyfile(ROOT / name, copy / name)
    (copy / "README.md").write_text("# remine\n")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "."],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def python(installed: Path, *arguments: str) -> str:
    """Return the output of the installed package, run in another folder so that the checkout is not on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    elsewhere = installed.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=elsewhere,
        env=kept | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_files_of_the_sources_are_installed(installed: Path) -> None:
    def files(root: Path) -> set[str]:
        paths = {path.relative_to(root) for top in ("jobs", "actors", "conf") for path in (root / top).rglob("*")}
        return {path.as_posix() for path in paths if path.suffix in {".yaml", ".j2", ".css", ".py"}}

    ours = files(ROOT)
    assert {"jobs/page/page.html.j2", "jobs/html/page.css", "conf/rubric/century_labels.yaml"} <= ours
    assert ours - files(installed) == set()


def test_the_installed_code_is_what_runs(installed: Path) -> None:
    places = "jobs.__file__, actors.__file__, conf.__path__[0]"
    where = python(installed, "-c", f"import jobs, actors, conf; print({places})")
    assert all(name.startswith(str(installed)) for name in where.split())


def test_the_command_remine(installed: Path) -> None:
    output = python(
        installed, str(installed / "bin" / "remine"), "curate", "--cfg", "--out", "R/x", "--ratings", "a", "b"
    )
    assert "out: R/x" in output
    assert "- a\n- b" in output


def test_help_and_configuration(installed: Path) -> None:
    process = python(installed, "-m", "jobs.mine", "--help")
    assert process.startswith("Find the records of a corpus whose page title contains a search term")
    assert "terms.path" in process
    shown = python(installed, "-m", "jobs.judge", "--cfg", "model=local-tiny", "resources=cluster")
    assert "checkpoint: local:qwen2.5-vl-tiny" in shown
    assert "autoscaling: true" in shown
