"""Installed as a package, away from the checkout, the jobs find their configuration, page and rubrics."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

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


def test_a_study_begins_and_ends_away_from_the_checkout(installed: Path) -> None:
    """The commands of the README, with the model that comes with the package, and a report of a file."""
    elsewhere = installed.parent / "elsewhere"
    remine = str(installed / "bin" / "remine")
    python(installed, remine, "init", "mood")
    (elsewhere / "photos").mkdir()
    for number in range(4):
        Image.new("RGB", (64, 48), (60 * number, 90, 120)).save(elsewhere / "photos" / f"{number}.png")
    rows = "".join(f"{number}.png,{'north' if number % 2 else 'south'}\n" for number in range(4))
    (elsewhere / "set.csv").write_text(f"file,region\n{rows}")
    study = [remine, "run", "pipeline=mood_study.yaml", "models=demo-judge", "by=region", "ray.num_cpus=1"]
    assert "remine judge model=demo-judge" in python(installed, *study, "plan=true")
    assert "4 pictures shown" in python(installed, *study)
    assert (elsewhere / "mood" / "report" / "index.html").exists()
    with (elsewhere / "mood" / "ratings.csv").open(encoding="utf-8-sig", newline="") as file:
        ratings = list(csv.DictReader(file))
    assert len(ratings) == 4 * (3 + 1)  # pictures x (targets of one question + the other)
    assert all(0 <= float(row["p_1"]) <= 1 for row in ratings if row["question"] == "shown")
    answers = "".join(f"{item},{rater},{item % 2}\n" for item in range(6) for rater in "ab")
    (elsewhere / "answers.csv").write_text(f"item,rater,value\n{answers}")
    python(installed, remine, "report", "input=answers.csv", "out=of_file")
    assert "index.html" in {path.name for path in (elsewhere / "of_file").iterdir()}
