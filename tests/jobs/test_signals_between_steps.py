"""A signal at the moment when one step of a pipeline has ended and the next begins: the same command continues."""

import contextlib
import itertools
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests import reliability
from tests.factories import write_pictures
from tests.jobs.kill_drill import GONE_S, Tables, check_equal, read_tables
from tests.jobs.running_job import Running

PROGRAM = """
import os, sys
from jobs.runtime.command_line import cli

number, at, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
execute, ended = cli.execute_loaded, []

def executed(name, cfg, overrides):
    if name != "run" and (at, len(ended)) == ("begin", steps):
        os.kill(os.getpid(), number)
    returned = execute(name, cfg, overrides)
    ended.append(name)
    if (at, len(ended)) == ("end", steps):
        os.kill(os.getpid(), number)
    return returned

cli.execute_loaded = executed
sys.exit(cli.main("run", sys.argv[4:]))
"""
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
TABLES = ("images", "embeddings", "near")


def write_pipeline(folder: Path) -> Path:
    read = {"resources.read.num_cpus": 0.3, "resources.write.num_cpus": 0.3}
    vectors = "${out}/embeddings"
    steps = {
        "fetch": {"source": "folder", "source.path": f"{folder}/pictures", "unit_rows": 4, "out": "${out}/images"},
        "embed": {"input": "${out}/images", "embedder": "local-tiny", "out": vectors, **read},
        "retrieve": {"queries": vectors, "corpus.path": vectors, "k": 2, "out": "${out}/near"},
    }
    write_pictures(folder / "pictures", ["red", "green", "blue", "black", "white", "grey"])
    file = folder / "three.yaml"
    file.write_text(
        yaml.safe_dump({"name": "three", "steps": [{"job": job, "set": keys} for job, keys in steps.items()]})
    )
    return file


def written(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.glob("*/*.parquet")}


def end_of(running: Running) -> int:
    """Wait for a pipeline that gets its signal from itself, and note its processes meanwhile; return its exit code."""
    while running.process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            running.family |= set(psutil.Process(running.process.pid).children(recursive=True))
        time.sleep(0.1)
    return int(running.process.returncode)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_pipeline_continues_with_the_next_step(tmp_path: Path) -> None:
    out = tmp_path / "R"
    keys = [f"pipeline={write_pipeline(tmp_path)}", "profile=full", f"out={out}"]

    def tables() -> list[Tables]:
        """Without the names of a search's partial results, which depend on the times of its inputs."""
        read = [read_tables(f"{out}/{name}") for name in TABLES]
        return [([name for name in names if "/_" not in name], rows, counts) for names, rows, counts in read]

    calm = Running("run", keys, tmp_path / "log")
    assert end_of(calm) == 0, calm.log.read_text()
    expected, cases = tables(), itertools.product(CODES, (("end", 1), ("begin", 2)))
    for number, (at, steps) in cases:
        shutil.rmtree(out)
        program = ["-c", PROGRAM, str(int(number)), at, str(steps)]
        disturbed = Running("run", keys, tmp_path / "log", program=program)
        try:
            assert end_of(disturbed) == CODES[number], disturbed.log.read_text()
            assert disturbed.left_over(seconds=GONE_S, agents=True) == []
        finally:
            disturbed.end()
        if number != signal.SIGKILL:
            assert disturbed.log.read_text().splitlines()[-1].startswith("interrupted: completed units are kept")
        done = written(out)
        assert {path.parent.name for path in done} == set(TABLES[:steps])
        again = Running("run", keys, tmp_path / "log")
        assert end_of(again) == 0, again.log.read_text()
        for table, calm_table in zip(tables(), expected, strict=True):
            check_equal(table, calm_table)
        assert {path: written(out)[path] for path in done} == done
        reliability.record(
            "signals between steps",
            signal=number.name,
            at={"end": "end of a step", "begin": "begin of the next"}[at],
            runs=1,
            **{"tables compared": len(TABLES)},
        )
