"""Each job is run with planted secrets, and what it wrote and printed is searched: here, or in the test of a pipeline.

The jobs here work without models: those of `tests.jobs.small_jobs`, then those that read, compare and remove tables.
"""

from pathlib import Path

import pytest
import yaml

from jobs.runtime.command_line import cli
from jobs.runtime.command_line.job_names import JOBS
from jobs.runtime.configuration.config_files import CONF
from tests import secrets_found
from tests.factories import write_table
from tests.jobs.small_jobs import IMAGES, SMALL_JOBS, job_of, write_small_jobs

FOLDER = Path(__file__).parent
PIPELINES = ("century", "tric", "caire", "docent")  # whose outputs tests/jobs/test_NAME_pipeline.py searches
ELSEWHERE = {  # job -> the file whose tests search its outputs
    "demo": "test_corridors.py",  # it runs a pipeline
    "run": "test_corridors.py",
    "generate_images": "test_generate_images.py",
    "questions": "test_questions.py",
    "view": "test_secrets.py",
}
WITHOUT_INPUT = {"init", "models"}  # they read only what is part of the program
OF_TABLES = (
    "ls",
    "verify",
    "diff",
    "export",
    "choose",
    "link show",
    "release",
    "copy",
    "purge",
    "rm interrupted",
    "rm",
)


def commands_of_tables(written: Path, inputs: Path, exclusions: Path) -> dict[str, list[str]]:
    """Return commands that read or change tables below `written`, in order; `purge` removes a picture of `inputs`."""
    people = f"ratings=[{inputs}/people]"
    about = ["card.licence=cc-by-4.0", "card.title=Test", "card.date=2025-11-23", f"records={inputs}/records"]
    return {
        "ls": [str(written)],
        "verify": [f"input={written}/items/items"],
        "diff": [f"{written}/pairs/items", f"{written}/pairs/items", f"out={written}/differences.csv"],
        "export": [people, f"out={written}/ratings.csv"],
        "choose": [f"neighbors={inputs}/near", f"prompts={inputs}/prompts", f"out={written}/choose"],
        "link show": [
            *(f"pictures=[{IMAGES[0]}]", f"links=[{inputs}/links]", f"kb.path={inputs}/kb", f"out={written}/shown")
        ],
        "release": [people, f"images={inputs}/images", *about, f"out={written}/release"],
        "copy": [f"{written}/pairs", f"{written}/copied"],
        "purge": [f"input={inputs}", f"exclusions={exclusions}"],
        "rm interrupted": [str(written), "interrupted=true"],
        "rm": [f"{written}/pairs", "yes=true"],
    }


@pytest.mark.long
def test_jobs_without_models(tmp_path: Path) -> None:
    inputs, written = tmp_path / "inputs", tmp_path / "written"
    exclusions = tmp_path / "exclusions.txt"
    exclusions.write_text(f"{IMAGES[0]}\n")
    codes, small_jobs = {}, write_small_jobs(inputs)
    write_table(inputs / "kb" / "node_images", "node_images", [{"node_id": "n1", "image_id": IMAGES[1]}])
    with secrets_found.planting() as printed:
        for job, arguments in small_jobs.items():
            out = f"{written}/{job.replace(' ', '_')}"
            codes[job] = cli.main(job_of(job), [*arguments, f"out={out}"])
        for job, arguments in commands_of_tables(written, inputs, exclusions).items():
            codes[job] = cli.main(job_of(job), arguments)
    assert codes == dict.fromkeys(codes, 0), printed.getvalue()
    assert secrets_found.leaks([str(tmp_path)], printed.getvalue()) == []


def test_every_job_is_searched_for_secrets() -> None:
    in_pipelines = {
        step["job"]
        for name in PIPELINES
        for step in yaml.safe_load((CONF / "pipeline" / f"{name}.yaml").read_text("utf-8"))["steps"]
    }
    here = {job_of(job) for job in SMALL_JOBS} | {job_of(job) for job in OF_TABLES}
    assert set(JOBS) == in_pipelines | here | ELSEWHERE.keys() | WITHOUT_INPUT
    assert not ELSEWHERE.keys() & (in_pipelines | here)


def test_the_tests_that_search_for_secrets_do() -> None:
    files = {*ELSEWHERE.values(), *(f"test_{name}_pipeline.py" for name in PIPELINES)}
    assert {file for file in files if "secrets_found." not in (FOLDER / file).read_text("utf-8")} == set()
