"""Kill a job at any moment, run the same command again: the table is the one of an undisturbed run."""

import gzip
import shutil
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from jobs.checkpoints.encoder import EmbedderConfig, encoder_facts
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.testbed.synthetic import write_corpus
from tests.jobs.running_job import Running

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.timeout(900)]
FILES = 12
FEW_PROCESSES = ["resources.read.num_cpus=0.3", "resources.write.num_cpus=0.3"]  # each takes seconds to start


def written(out: Path) -> int:
    return len(list(out.glob("*.parquet")))


def table(out: Path, key: str) -> tuple[set[str], pa.Table]:
    """Object names, and all rows by key."""
    names = {path.name for path in out.glob("*.parquet")}
    return names, pa.concat_tables(open_table(str(out)).batches()).sort_by(key)


def kill_midway(job: str, arguments: list[str], out: Path, *, units: int, log: Path) -> dict[str, int]:
    """Start a job, kill its driver when a third of its units are written; their objects, and when they were written."""
    killed = Running(job, [*arguments, f"out={out}"], log)
    try:
        killed.wait_for(lambda: written(out) >= units // 3)
        assert killed.send(signal.SIGKILL) == -signal.SIGKILL
        assert killed.left_over() == []
    finally:
        killed.end()
    done = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert units // 3 <= len(done) < units
    assert cli.main("verify", [f"input={out}"]) == 1  # not complete, and it says so
    return done


def interrupt_midway(arguments: list[str], out: Path, *, done: int, log: Path) -> None:
    """Start `mine` again and interrupt it as soon as it has written more than the `done` units."""
    second = Running("mine", [*arguments, f"out={out}"], log)
    try:
        second.wait_for(lambda: written(out) > done)
        assert second.send(signal.SIGINT) == 130
        assert second.left_over() == []
    finally:
        second.end()
    lines = second.log.read_text().splitlines()
    assert lines[-1] == "interrupted: completed units are kept; run the same command again to resume"
    assert not [line for line in lines if "Traceback" in line]
    assert written(out) < FILES


@pytest.mark.torture  # one kill of each kind in `make long`: test_kills
@pytest.mark.parametrize("interrupted", [False, True])
def test_mine_killed_then_finished(tmp_path: Path, interrupted: bool) -> None:
    corpus = tmp_path / "corpus"
    facts = write_corpus(corpus, rows=2000, pictures=20)
    parts = sorted(corpus.glob("*.tsv.gz"))
    # A file of the corpus over and over makes units of about a second each; every file has another name, hence other
    # records.
    body = gzip.decompress(parts[0].read_bytes())
    header, rows = body.split(b"\n", 1)
    many = gzip.compress(header + b"\n" + rows * 50, 1, mtime=0)
    for number in range(FILES):
        (corpus / f"big-{number:02}.tsv.gz").write_bytes(many)
    assert facts.matched
    arguments = [f"corpus.path={corpus}/big-*.tsv.gz", f"terms.path={corpus}/terms.csv", *FEW_PROCESSES]
    out, calm = tmp_path / "out", tmp_path / "calm"

    after_kill = kill_midway("mine", arguments, out, units=FILES, log=tmp_path / "killed.log")

    if interrupted:
        interrupt_midway(arguments, out, done=len(after_kill), log=tmp_path / "interrupted.log")
    assert cli.main("mine", [*arguments, f"out={out}"]) == 0
    assert cli.main("mine", [*arguments, f"out={calm}"]) == 0
    assert {name: (out / name).stat().st_mtime_ns for name in after_kill} == after_kill  # done once
    ours, undisturbed = table(out, "record_id"), table(calm, "record_id")
    assert ours[0] == undisturbed[0]
    assert len(ours[0]) == FILES
    assert ours[1].equals(undisturbed[1])
    assert ours[1].num_rows > 0
    assert cli.main("verify", [f"input={out}"]) == 0
    assert not list(out.glob(".*.tmp"))


@pytest.mark.torture  # as above, for units that stream through pools of actors
def test_embed_killed_then_finished(tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(40):  # large enough that decoding takes a while, small enough as files
        picture = Image.new("RGB", (1600, 1600), (number * 6, 90, 200 - number))
        picture.paste((255, 255, 0), (number * 20, 100, number * 20 + 300, 800))
        picture.save(folder / f"{number:02}.jpg", quality=60)
    (folder / "broken.jpg").write_bytes(b"no picture")
    images, out, calm = tmp_path / "images", tmp_path / "out", tmp_path / "calm"
    fetch = ["source=folder", f"source.path={folder}", f"out={images}", "unit_rows=4", *FEW_PROCESSES]
    assert cli.main("fetch", fetch) == 0
    units = written(images)
    arguments = [f"input={images}", "embedder=local-tiny", *FEW_PROCESSES, "resources.embed.threads=1"]
    arguments += [
        f"resources.{pool}.{key}" for pool in ("decode", "embed") for key in ("batch_size=4", "max_in_flight=1")
    ]

    done = kill_midway("embed", arguments, out, units=units, log=tmp_path / "killed.log")

    assert cli.main("embed", [*arguments, f"out={out}"]) == 0
    assert cli.main("embed", [*arguments, f"out={calm}"]) == 0
    assert {name: (out / name).stat().st_mtime_ns for name in done} == done
    ours, undisturbed = table(out, "item_id"), table(calm, "item_id")
    assert ours[0] == undisturbed[0] == {path.name for path in images.glob("*.parquet")}
    assert ours[1].equals(undisturbed[1])
    assert ours[1].num_rows == 41
    assert ours[1]["status"].to_pylist().count("ok") == 40


@pytest.mark.torture  # a scan, whose units are the corpus's, and the merge of what they found
def test_retrieve_killed_then_finished(tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(FILES):
        rows = draw.standard_normal((30_000, 768), dtype=np.float32)
        rows[:5] = 1  # ties within and across units
        np.save(corpus / f"{number:02}.npy", (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16))
    near = np.load(corpus / "00.npy")[:64].astype(np.float64)
    queries = embeddings_table(tmp_path / "queries", (near / np.linalg.norm(near, axis=1, keepdims=True)))
    out, calm = tmp_path / "out", tmp_path / "calm"
    arguments = [f"queries={queries}", "corpus=npy", f"corpus.path={corpus}/*.npy", "corpus.unit_mb=47", "k=8"]
    arguments += [
        "corpus.embedder.checkpoint=ViT-B-16-SigLIP-i18n-256",
        "corpus.embedder.pretrained=webli",
        *FEW_PROCESSES,
    ]

    killed = Running("retrieve", [*arguments, f"out={out}"], tmp_path / "killed.log")
    try:
        killed.wait_for(lambda: written(out / "_partial") >= FILES // 3)
        assert killed.send(signal.SIGKILL) == -signal.SIGKILL
        assert killed.left_over() == []
    finally:
        killed.end()
    done = {path.name: path.stat().st_mtime_ns for path in (out / "_partial").glob("*.parquet")}
    assert FILES // 3 <= len(done) < FILES
    assert written(out) == 0

    assert cli.main("retrieve", [*arguments, f"out={out}"]) == 0
    assert cli.main("retrieve", [*arguments, f"out={calm}"]) == 0
    after = {path.name: path.stat().st_mtime_ns for path in (out / "_partial").glob("*.parquet")}
    assert {name: after[name] for name in done} == done  # scanned once
    assert len(after) == FILES
    keys = [("query_id", "ascending"), ("rank", "ascending")]
    ours, undisturbed = (pa.concat_tables(open_table(str(place)).batches()).sort_by(keys) for place in (out, calm))
    assert ours.equals(undisturbed)
    assert ours.num_rows == 64 * 8
    shutil.rmtree(corpus)  # half a gigabyte
    assert cli.main("verify", [f"input={out}"]) == 0


def embeddings_table(out: Path, vectors: np.ndarray) -> Path:
    """Return a table of the encoder that the arrays are declared to be of."""
    facts = encoder_facts(EmbedderConfig(checkpoint="ViT-B-16-SigLIP-i18n-256", pretrained="webli"))
    files = {"encoder": facts.encoder, "preprocessing": facts.preprocessing}
    plan = TablePlan(str(out), "embeddings", {"test": 1}, [Unit("all", ())], {}, files, False, dim=vectors.shape[1])
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float16).reshape(-1)), vectors.shape[1])
    ids, nothing = [f"q{n:03}" for n in range(len(vectors))], pa.nulls(len(vectors), pa.string())
    with UnitWriter(run.target, run.todo[0]) as writer:
        writer.counts.rows_in = len(vectors)
        writer.write(pa.table({
            "item_id": ids, "kind": ["image"] * len(ids), "embedding": column, "status": ["ok"] * len(ids),
            "error_kind": nothing, "error_message": nothing,
        }))  # fmt: skip
    run.finish()
    return out
