"""The site of the documentation is built without a warning, and the notebook of the first study runs."""

import csv
import os
from pathlib import Path

import nbformat
import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from nbclient import NotebookClient

from jobs.runtime.command_line import job_names
from jobs.tables import TABLES

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "first_study.ipynb"
# Runs what the notebook's commands compute in its kernel; Ray is tested elsewhere. A context without a name would end.
WITHOUT_RAY = "from tests.in_process import stages_in_process\ncontext = stages_in_process()\ncontext.__enter__()"
USES_NO_RAY = "import ray\nassert not ray.is_initialized()"


@pytest.mark.long
def test_the_site_has_all_pages_and_no_broken_link(tmp_path: Path) -> None:
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)  # raises for the first warning
    jobs = (tmp_path / "reference/jobs/index.html").read_text("utf-8")
    assert [name for name in job_names.JOBS if f'id="{name.replace(" ", "-")}"' not in jobs] == []
    tables = (tmp_path / "reference/tables/index.html").read_text("utf-8")
    assert [name for name in TABLES if f'id="{name}"' not in tables] == []
    assert "columns.questions.calm" in (tmp_path / "first_study/index.html").read_text("utf-8")
    assert not list(tmp_path.rglob("*.ipynb"))


@pytest.mark.long
def test_the_first_study_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")] == []
    notebook.cells.insert(0, nbformat.v4.new_code_cell(WITHOUT_RAY))
    notebook.cells.append(nbformat.v4.new_code_cell(USES_NO_RAY))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    alpha, plot = (cell.outputs for cell in notebook.cells if cell.cell_type == "code" and _shows(cell))
    assert "people" in alpha[0].data["text/plain"]
    assert "image/png" in plot[-1].data
    with (tmp_path / "study/ratings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["region"] for row in rows} == {"Africa", "Asia", "Europe"}
    assert len(rows) == 12 * 2 * 5  # pictures, questions, raters
    assert "region" in (tmp_path / "study/report/index.html").read_text("utf-8")


def _shows(cell: nbformat.NotebookNode) -> bool:
    """Return whether a cell's outputs have a table or a picture."""
    return any(
        "text/html" in output.get("data", {}) or "image/png" in output.get("data", {}) for output in cell.outputs
    )
