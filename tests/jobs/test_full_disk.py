"""A full disk under `out=`, `TMPDIR` or Ray's folder: one sentence with key, cause and remedy, then resumption.

The disk is a file system in memory, which only root may mount. `make torture` fills it in all jobs, `make test` in one.
"""

import contextlib
import errno
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jobs.errors import InputError, RunError
from jobs.runtime.cluster import local_ray
from jobs.runtime.command_line import cli
from jobs.runtime.worker_reports import as_run_errors
from tests import reliability
from tests.in_process import stages_in_process
from tests.jobs.kill_drill import arguments_of, check_equal, read_tables, write_corpus_files
from tests.jobs.running_job import Running
from tests.jobs.runtime.cluster.ray_clusters import environment, running_cluster
from tests.jobs.runtime.ending_stage import LocalBoard
from tests.jobs.small_jobs import SMALL_JOBS, write_small_jobs

SIZE_MB = 8
BLOCK = 4096
TRIES = int(os.environ.get("REMINE_FULL_DISKS", "3"))  # of each job, with another amount of free space each


class Disk:
    """A small disk that tests fill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, left: int) -> None:
        """Leave at most `left` bytes."""
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            file.write(bytes(max(0, shutil.disk_usage(self.folder).free - left)))

    def free(self) -> None:
        self._ballast.unlink()

    def used(self) -> int:
        return shutil.disk_usage(self.folder).used

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
def disk() -> Iterator[Disk]:
    folder = tempfile.mkdtemp(prefix="full-")
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", folder]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        Path(folder).rmdir()
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield Disk(Path(folder))
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        Path(folder).rmdir()


@pytest.fixture(scope="module")
def small_jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return write_small_jobs(tmp_path_factory.mktemp("small"))


def check_sentence(printed: str, place: str) -> None:
    """Check that the last line alone is an error, and that it names the key, the cause and the remedy."""
    *before, last = printed.splitlines()
    assert last.startswith(f"error: {place}: "), printed
    assert "No space left on device; free space there" in last, printed
    assert not [line for line in before if "error" in line or "Traceback" in line], printed


@pytest.mark.parametrize("full", ["out", "TMPDIR"])
@pytest.mark.parametrize(
    "job", [pytest.param(job, marks=[pytest.mark.torture] * (job != "pairs")) for job in SMALL_JOBS]
)
def test_a_disk_that_is_full_under_a_job(
    small_jobs: dict[str, list[str]], disk: Disk, tmp_path: Path, job: str, full: str
) -> None:
    def run(out: Path) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
            return cli.main(job.split(maxsplit=1)[0], [*small_jobs[job], f"out={out}"]), printed.getvalue()

    fill_under(disk, run, tmp_path, job=job, full=full, tries=TRIES)


def fill_under(
    disk: Disk, run: Callable[[Path], tuple[int, str]], folder: Path, *, job: str, full: str, tries: int, least: int = 0
) -> None:
    """Run a job with little space on `disk`, with more or less in each try, and again when there is enough.

    Args:
        least: bytes that the first run has.
    """
    assert run(disk.folder / "calm")[0] == 0
    expected, needed = read_tables(str(disk.folder / "calm")), disk.used()
    shutil.rmtree(disk.folder / "calm")
    draw, stopped = random.Random(job), 0
    with pytest.MonkeyPatch.context() as patch:
        if full == "TMPDIR":
            patch.setattr(tempfile, "tempdir", str(disk.folder))
        for number in range(tries):
            out = (disk.folder if full == "out" else folder) / str(number)
            disk.fill(draw.randrange(0, needed, BLOCK) if number else least)
            code, printed = run(out)
            if code:
                stopped += 1
                check_sentence(printed, f"out={out}" if full == "out" else f"TMPDIR={disk.folder}")
            disk.free()
            assert run(out)[0] == 0
            check_equal(read_tables(str(out)), expected)
            left = [path for path in disk.files() if path.suffix == ".tmp" or not path.is_relative_to(out)]
            assert left == []
            shutil.rmtree(out)
    assert stopped > 0
    reliability.record("full disks", full=full, job=job, runs=tries, stopped=stopped, **{"tables compared": tries})


@pytest.mark.torture
@pytest.mark.parametrize("full", ["out", "TMPDIR"])
def test_a_disk_that_is_full_under_workers(disk: Disk, tmp_path: Path, full: str) -> None:
    write_corpus_files(tmp_path)
    temporary = {"TMPDIR": str(disk.folder)} if full == "TMPDIR" else {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        with running_cluster(environment(tmp_path / "home", RAY_AUTH_MODE="disabled", **temporary)) as cluster:
            keys = [*arguments_of("mine", tmp_path), f"ray.address={cluster.address}"]

            def run(out: Path) -> tuple[int, str]:
                command = [sys.executable, "-m", "jobs.mine", *keys, f"out={out}"]
                ended = subprocess.run(command, check=False, capture_output=True, text=True)
                return ended.returncode, ended.stdout + ended.stderr

            # A process whose TMPDIR has no room for the file by which Python tries it takes another folder.
            fill_under(disk, run, tmp_path, job="mine", full=full, tries=3, least=BLOCK * (full == "TMPDIR"))


@pytest.mark.torture
def test_rays_folder_that_fills_while_a_job_works(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that its memory holds need no disk, and Ray does without the logs that it cannot write."""
    write_corpus_files(tmp_path)
    keys, calm, out = arguments_of("mine", tmp_path), tmp_path / "calm", tmp_path / "out"
    with stages_in_process():
        assert cli.main("mine", [*keys, f"out={calm}"]) == 0
    monkeypatch.setenv("RAY_TMPDIR", str(disk.folder))
    running = Running("mine", [*keys, f"out={out}"], tmp_path / "log")
    try:
        running.wait_for(lambda: any(out.glob("*.parquet")))
        disk.fill(0)
        assert running.process.wait(timeout=600) == 0, running.log.read_text()
    finally:
        running.end()
    check_equal(read_tables(str(out)), read_tables(str(calm)))


@pytest.mark.torture
def test_objects_for_which_ray_has_neither_memory_nor_disk(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(1)
    (tmp_path / "pictures").mkdir()
    for number in range(32):
        pixels = draw.integers(0, 255, (1200, 1200, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
    images, calm, out = (tmp_path / name for name in ("images", "calm", "out"))
    keys = [f"input={images}", "embedder=local-tiny", "resources.object_store_memory_gb=0.08"]
    with stages_in_process():
        source = ["source=folder", f"source.path={tmp_path}/pictures", "unit_rows=8"]
        assert cli.main("fetch", [*source, f"out={images}"]) == 0
        assert cli.main("embed", [*keys, f"out={calm}"]) == 0
    monkeypatch.setenv("RAY_TMPDIR", str(disk.folder))
    running = Running("embed", [*keys, f"out={out}"], tmp_path / "log")
    try:
        assert running.process.wait(timeout=600) == 1
    finally:
        running.end()
    *before, last = running.log.read_text().splitlines()
    assert last.startswith(f"error: RAY_TMPDIR={disk.folder}: ")
    assert "object_store_memory_gb" in last
    assert [line for line in before if "Traceback" in line] == []
    with stages_in_process():
        assert cli.main("embed", [*keys, f"out={out}"]) == 0
    check_equal(read_tables(str(out)), read_tables(str(calm)))


def test_ray_is_not_started_on_a_full_disk(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(disk.folder))
    local_ray.check_ray_folder()
    assert disk.files() == []
    disk.fill(0)
    with pytest.raises(InputError, match=f"^RAY_TMPDIR={disk.folder}: No space left on device.*; free space there"):
        local_ray.check_ray_folder()
    monkeypatch.setenv("RAY_TMPDIR", f"{disk.folder}/absent")  # Ray makes it
    disk.free()
    local_ray.check_ray_folder()


def test_what_ray_raises_when_its_memory_and_the_disk_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import OutOfDiskError

    monkeypatch.setenv("RAY_TMPDIR", "/scratch")
    sentence = r"^RAY_TMPDIR=/scratch: .*; free space there .*object_store_memory_gb"
    with pytest.raises(RunError, match=sentence), as_run_errors(LocalBoard()):
        raise OutOfDiskError
    with (
        pytest.raises(RunError, match=r"^RAY_TMPDIR=/scratch: No space left on device .*; free"),
        as_run_errors(LocalBoard()),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")  # of Ray on the driver
