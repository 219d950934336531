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
    assert "StoredTable" in (tmp_path / "first_study/index.html").read_text("utf-8")
    assert not list(tmp_path.rglob("*.ipynb"))


@pytest.mark.long
def test_the_first_study_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    committed = [_data(cell) for cell in notebook.cells]
    notebook.cells.insert(0, nbformat.v4.new_code_cell(WITHOUT_RAY))
    notebook.cells.append(nbformat.v4.new_code_cell(USES_NO_RAY))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    executed = [_data(cell) for cell in notebook.cells[1:-1]]
    assert [data.keys() for data in executed] == [data.keys() for data in committed]
    tables = [data["text/plain"] for data in committed if "text/html" in data]
    assert [data["text/plain"] for data in executed if "text/html" in data] == tables
    assert len(tables) == 2
    assert any("image/svg+xml" in data for data in executed)
    with (tmp_path / "study/ratings.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["region"] for row in rows} == {"Africa", "Asia", "Europe"}
    assert len(rows) == 12 * (3 + 1) * 4  # pictures, targets of one question and the other, raters
    assert str(tmp_path) not in (tmp_path / "study/report/index.html").read_text("utf-8")
    assert "/tmp" not in NOTEBOOK.read_text("utf-8")  # nor another place of the machine that wrote its outputs


def _data(cell: nbformat.NotebookNode) -> dict[str, str]:
    """Return what a cell shows besides printed text, by media type."""
    return {kind: text for output in cell.get("outputs", []) for kind, text in output.get("data", {}).items()}
