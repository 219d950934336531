"""`retrieve` from end to end: both sides resident, killed half-way, inputs that do not fit together."""

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs import (
    retrieve,
)
from jobs.errors import InputError, RunError
from jobs.retrieval.queries import Calibration
from jobs.retrieve import RetrieveConfig, _calibration
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.outcomes import Plan
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter

DIM = 16
MADE = {"encoder": "tiny@1", "preprocessing": "none"}
SCALARS: dict[str, Any] = {"logit_scale": "2.0", "logit_bias": "-3.0"}


def embeddings(out: Path, vectors: np.ndarray, ids: list[str], *, units: int = 3, **metadata: str) -> Path:
    """Return a table `embeddings`; a vector of NaN alone stands for a picture that failed."""
    names = [f"{out.name}{n:02}" for n in range(units)]
    pieces = np.array_split(np.arange(len(ids)), units)
    plan = TablePlan(
        str(out), "embeddings", {"test": out.name}, [Unit(n, ()) for n in names], {}, MADE | metadata, False, dim=DIM
    )
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task, rows in zip(run.todo, pieces, strict=True):
        failed = np.isnan(vectors[rows]).all(axis=1)
        column = pa.FixedSizeListArray.from_arrays(
            pa.array(vectors[rows].reshape(-1)), type=pa.list_(pa.float16(), DIM), mask=pa.array(failed)
        )
        status = ["missing" if bad else "ok" for bad in failed]
        nothing = pa.nulls(len(rows), pa.string())
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows)
            writer.write(pa.table({
                "item_id": [ids[n] for n in rows], "kind": ["image"] * len(rows), "embedding": column,
                "status": status, "error_kind": nothing, "error_message": nothing,
            }))  # fmt: skip
    run.finish()
    return out


def drawn(rows: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((rows, DIM))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def rows_of(out: Path) -> pa.Table:
    return pa.concat_tables(open_table(str(out), "neighbors").batches())


def counts_of(out: Path) -> dict[str, Any]:
    counts = json.loads((out / "_run" / "manifest.json").read_text())["counts"]
    return {name: counts[name] for name in ("rows_in", "rows_out", "rejected")}


def rejects_of(out: Path) -> list[dict[str, Any]]:
    paths = sorted((out / "_rejects").glob("*.parquet"))
    rows: list[dict[str, Any]] = pa.concat_tables(map(pa.parquet.read_table, paths)).to_pylist()
    return rows


def objects(out: Path) -> list[Path]:
    return sorted(out.glob("*.parquet"))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Queries and a corpus, each with rows that cannot be used."""
    folder = tmp_path_factory.mktemp("tables")
    corpus, queries = drawn(300, 1), drawn(20, 2)
    corpus[200:210] = corpus[7]
    queries[0] = corpus[7]
    corpus[5], corpus[50, 3], corpus[60], queries[4], queries[9] = 0, np.nan, np.nan, np.nan, 0
    ids, names = [f"c{n * 37 % 300:03}" for n in range(300)], [f"q{n:02}" for n in range(20)]
    uris = {
        "corpus": embeddings(folder / "corpus", corpus, ids, units=5),
        "queries": embeddings(folder / "queries", queries, names, **SCALARS),
    }
    scores = queries.astype(float) @ corpus.astype(float).T
    usable = [n for n in range(300) if n not in (5, 50, 60)]
    best = {
        names[q]: sorted((-scores[q, n].round(12), ids[n]) for n in usable)[:4] for q in range(20) if q not in (4, 9)
    }
    return uris | {"expected": [(q, rank + 1, item) for q, hits in best.items() for rank, (_, item) in enumerate(hits)]}


@pytest.mark.usefixtures("in_process")
@pytest.mark.timeout(200)
def test_both_sides_and_after_a_kill(
    tables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"queries={tables['queries']}", f"corpus.path={tables['corpus']}", "k=4", "resident=queries"]
    out, other = tmp_path / "out", tmp_path / "other"
    assert cli.main("retrieve", [*arguments, f"out={out}"]) == 0
    text = capsys.readouterr().out
    assert counts_of(out) == {"rows_in": 82, "rows_out": 72, "rejected": {"not_finite": 1, "zero_vector": 1}}
    assert "searched 297, missing 1, not_finite 1, zero_vector 1" in text
    neighbors = rows_of(out)
    assert (
        list(zip(*(neighbors[c].to_pylist() for c in ("query_id", "rank", "item_id")), strict=True))
        == tables["expected"]
    )
    score, probability = neighbors["score"].to_pylist(), neighbors["probability"].to_pylist()
    assert probability == pytest.approx([1 / (1 + math.exp(3 - math.exp(2) * s)) for s in score])
    rejects = rejects_of(out)
    assert [(r["reason"], r["position"]) for r in rejects] == [("zero_vector", 5), ("not_finite", 50)]
    assert cli.main("verify", [f"input={out}"]) == 0

    # What a kill leaves: units of the scan without their neighbours, a merge that was begun.
    for gone in (*objects(out / "_partial")[:1], *objects(out)[1:]):
        gone.unlink()
    kept = objects(out)[0].stat().st_mtime_ns
    assert cli.main("retrieve", [*arguments, f"out={out}"]) == 0
    assert rows_of(out).equals(neighbors)
    assert objects(out)[0].stat().st_mtime_ns == kept

    index = [f"faiss.out={tmp_path / 'index'}", "faiss.factory=Flat"]
    assert cli.main("retrieve", [*arguments[:3], "resident=corpus", f"out={other}", *index]) == 0
    assert "Flat, 297 vectors, recall@4 " in (text := capsys.readouterr().out)
    assert float(text.split("recall@4 ")[1]) > 0.9  # ties go another way there
    assert {path.name for path in (tmp_path / "index").iterdir()} == {"corpus.faiss", "ids.parquet"}
    assert rows_of(other).equals(neighbors)
    assert (counts_of(other), rejects_of(other)) == (counts_of(out), rejects)
    assert cli.main("verify", [f"input={other}"]) == 0
    for side in ("queries", "corpus"):
        few = tmp_path / f"few-{side}"
        assert cli.main("retrieve", [*arguments[:3], f"resident={side}", "limit=3", f"out={few}"]) == 0
        assert rows_of(few).equals(neighbors.slice(0, 12))
    assert cli.main("retrieve", [*arguments[:2], "k=5", f"out={out}"]) == 2
    assert "k was 4, now 5" in capsys.readouterr().err


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("resident", ["queries", "corpus"])
def test_a_corpus_without_a_row_to_search(
    tables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], resident: str
) -> None:
    corpus = embeddings(tmp_path / "failed", np.full((3, DIM), np.nan, np.float16), list("abc"), units=1)
    out = tmp_path / "out"
    arguments = [f"queries={tables['queries']}", f"corpus.path={corpus}", f"resident={resident}", f"out={out}"]
    assert cli.main("retrieve", arguments) == 0
    assert "180 filtered by fewer_than_k" in (text := capsys.readouterr().out)
    assert "corpus rows: missing 3" in text
    assert open_table(str(out), "neighbors").rows == 0


def refused(**arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        cli.execute("retrieve", [f"{key.replace('__', '.')}={value}" for key, value in arguments.items()])
    return str(caught.value)


def test_inputs_that_do_not_belong_together_are_refused(
    tables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = embeddings(tmp_path / "other", drawn(4, 3), list("abcd"), encoder="huge@2")
    same = embeddings(tmp_path / "same", drawn(4, 3), list("abcd"), preprocessing="cropped")
    arguments = {"queries": tables["queries"], "corpus__path": tables["corpus"], "out": tmp_path / "out"}
    message = refused(**arguments | {"corpus__path": other})
    assert all(part in message for part in (str(tables["queries"]), str(other), "encoder", "tiny@1", "huge@2"))
    message = refused(**arguments | {"corpus__path": same})
    assert all(part in message for part in ("preprocessing", "none", "cropped"))
    assert "cannot be compared" in refused(**arguments | {"queries": tmp_path / "*"})
    none = embeddings(tmp_path / "none", drawn(0, 3), [], units=1)
    plan_of_none = [f"queries={none}", f"corpus.path={tables['corpus']}", "out=x", "plan=true"]
    assert isinstance(cli.execute("retrieve", plan_of_none), Plan)
    (uses,) = (line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  uses"))
    assert (uses[1], uses.count("x")) == ("search", 1)  # its workers read and write
    embeddings(twice := tmp_path / "twice", drawn(6, 3), list("abcabe"))
    for queries in (twice, tmp_path / "tw[i]*"):
        message = refused(**arguments | {"queries": queries})
        assert f"queries={queries}: duplicate item_id a (and 1 others)" in message
    refusals: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"k": 0}, ("k=0",)),
        ({"plan": "calibrate"}, ("plan=calibrate",)),
        ({"score": "dot"}, ("score=dot", "inner_product, cosine")),
        ({"logit_scale": 1.0}, ("logit_scale=", "logit_bias=")),
        ({"resident": "both"}, ("resident=both", "auto, queries, corpus")),
        ({"retry": "[error]"}, ("retry=",)),
        ({"corpus__where": "language = en"}, ("'language'", "item_id, kind, status")),
        ({"device": "zzz"}, ("device=zzz",)),
        ({"corpus": "npy"}, ("corpus.embedder.checkpoint=",)),
        ({"corpus": "wit"}, ("corpus=wit",)),
    ]
    for keys, parts in refusals:
        message = refused(**arguments, **keys)
        assert all(part in message for part in parts), (keys, message)
    assert not (tmp_path / "out").exists()


def test_an_index_that_cannot_be_built_is_refused_before_the_search(tables: dict[str, Any], tmp_path: Path) -> None:
    out, corpus = tmp_path / "out", tables["corpus"]
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"factory": "hallo"}, "faiss.factory=hallo"),
        ({"factory": "'IVF301,Flat'"}, "faiss.factory=IVF301,Flat: 301 lists"),
        ({"factory": "'PCA8,IVF301,Flat'"}, "301 lists"),
        ({"factory": "PQ8x12"}, "Number of training points (300)"),
        ({"factory": "'OPQ4,IVF8,PQ4x9'"}, "number of clusters (512)"),
        ({"factory": "'IVF8,RQ2x9'"}, "number of clusters (512)"),
        ({"factory": "PQ7"}, "multiple of the number of subquantizers"),
        ({"factory": "'NSG32,Flat'"}, "NSG does not support incremental addition"),
        ({"factory": "'IDMap,Flat'"}, "add does not make sense with IndexIDMap"),
        ({"factory": "Flat", "nprobe": 0}, "faiss.nprobe=0"),
        ({"factory": "Flat", "out": f"{out}/index"}, f"faiss.out={out}/index: is inside out={out}"),
        ({"factory": "Flat", "out": corpus}, f"faiss.out={corpus}: is inside corpus.path={corpus}"),
    ]
    for keys, part in refusals:
        index = {f"faiss__{key}": value for key, value in ({"out": tmp_path / "index"} | keys).items()}
        message = refused(queries=tables["queries"], corpus__path=corpus, out=out, **index)
        assert part in message, (keys, message)
        assert not out.exists()
        assert not (tmp_path / "index").exists()


def test_an_index_is_tried_quietly_and_as_a_whole(capfd: pytest.CaptureFixture[str]) -> None:
    from jobs.retrieval import faiss_index

    opened = set()
    for factory in ("OPQ4,IVF64,PQ4x6", "IVF64_HNSW8,PQ4x4fs,RFlat", "HNSW8_PQ4", "PCA8,SQ8", "Flat"):
        faiss_index.check(factory, 4, dim=16, rows=300)
        opened.add(len(list(Path("/proc/self/fd").iterdir())))
    assert len(opened) == 1  # stderr's copy is closed
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InputError, match=r"7 vectors of 16 numbers \(PCA matrix cannot output 8 dimensions"):
        faiss_index.check("PCA8,SQ8", 4, dim=16, rows=7)


def test_an_index_behind_a_rotation_looks_into_as_many_lists(
    tables: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    import faiss

    from jobs.corpora.embeddings import VectorsConfig, find_corpus
    from jobs.corpora.vectors import VectorLayout
    from jobs.retrieval import faiss_index

    corpus = find_corpus(VectorsConfig(path=str(tables["corpus"])))
    settings: dict[str, Any] = {"nprobe": 5, "cosine": False, "exclusion_filter": ExclusionFilter(frozenset())}
    index, ids = faiss_index.build(corpus, VectorLayout(table=True), factory="OPQ4,IVF8,Flat", **settings)
    text = capfd.readouterr().err.splitlines()
    assert len(text) == 2 == len(set(text))  # of the rotation's and of the lists' centroids
    assert all(line.startswith("  FAISS: WARNING clustering 297 points to ") for line in text)
    assert (faiss.extract_index_ivf(index).nprobe, index.ntotal, len(ids)) == (5, 297, 297)
    with pytest.raises(RunError, match=r"faiss\.factory=IVF298,Flat: .* 297 vectors"):
        faiss_index.build(corpus, VectorLayout(table=True), factory="IVF298,Flat", **settings)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("side", ["queries", "corpus"])
def test_exclusions_of_queries_and_of_the_corpus_are_counted(
    tables: dict[str, Any], tmp_path: Path, side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "withdrawn.txt").write_text("q03\nq15\nc007\nc111\nnowhere\n")
    arguments = [f"queries={tables['queries']}", f"corpus.path={tables['corpus']}", "k=4", f"resident={side}"]
    arguments += [f"exclusions={tmp_path}/withdrawn.txt", f"out={tmp_path}/out"]
    assert cli.main("retrieve", arguments) == 0
    text = capsys.readouterr().out
    assert "exclusions: 1 of 5 entries match no picture here, for example nowhere" in text
    assert "excluded 2" in text
    neighbors = rows_of(tmp_path / "out")
    assert not {"q03", "q15"} & set(neighbors["query_id"].to_pylist())
    assert not {"c007", "c111"} & set(neighbors["item_id"].to_pylist())
    assert cli.main("retrieve", arguments) == 0  # resumed: the counts are those of the units
    assert "1 of 5 entries match no picture here" in capsys.readouterr().out


@pytest.mark.usefixtures("in_process")
def test_neighbours_are_kept_after_a_purge_unless_there_are_other_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, ids = tmp_path / "R", [f"{number:032x}" for number in range(16)]
    embeddings(root / "q", drawn(6, 1), ids[:6], units=2)
    embeddings(root / "c", drawn(10, 2), ids[6:], units=2)
    (tmp_path / "withdrawn.txt").write_text(f"{ids[1]}\n{ids[7]}\n")
    keys, withdrawn = (
        [f"queries={root}/q", f"corpus.path={root}/c", f"out={root}/n"],
        f"exclusions={tmp_path}/withdrawn.txt",
    )
    assert cli.main("retrieve", [*keys, "k=9"]) == 0
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    left = rows_of(root / "n")
    assert left.num_rows == 5 * 8
    capsys.readouterr()
    assert cli.main("retrieve", [*keys, "k=9", withdrawn]) == 0
    assert "40 neighbours remain after a purge; overwrite=true" in capsys.readouterr().out
    assert rows_of(root / "n").equals(left)
    assert isinstance(cli.execute("retrieve", [*keys, "k=9", withdrawn, "plan=true"]), Plan)
    assert "40 neighbours remain after a purge" in capsys.readouterr().out, "a plan says what the run would do"
    assert cli.main("retrieve", [*keys, "k=8", withdrawn]) == 2
    assert cli.main("retrieve", [*keys, "k=9", withdrawn, f"faiss.out={root}/index"]) == 2  # there is none without them
    assert cli.main("retrieve", [*keys, "k=9"]) == 2  # without the list
    embeddings(root / "q2", drawn(1, 3), ["f" * 32], units=1)
    assert cli.main("retrieve", [f"queries={root}/q*", *keys[1:], "k=9", withdrawn]) == 2  # another configuration
    assert cli.main("retrieve", [*keys, "k=9", withdrawn, "overwrite=true"]) == 0
    assert "left them" not in capsys.readouterr().out
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0


def test_a_plan_writes_nothing(tables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        f"queries={tables['queries']}",
        f"corpus.path={tables['corpus']}",
        f"out={tmp_path / 'out'}",
        "plan=true",
    ]
    assert cli.main("retrieve", arguments) == 0
    assert "20 queries, 300 vectors of 16 numbers, the queries kept in memory" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_texts_are_sent_to_embed(tmp_path: Path, tables: dict[str, Any]) -> None:
    from jobs.tables import TABLES

    run = open_run(
        TablePlan(str(tmp_path / "t"), "texts", {}, [Unit("u", ())], {}, {}, False),
        resume=True,
        overwrite=False,
        retry=[],
    )
    with UnitWriter(run.target, run.todo[0]) as writer:
        writer.write(TABLES["texts"].schema().empty_table())
    run.finish()
    text = refused(queries=tmp_path / "t", corpus__path=tables["corpus"], out=tmp_path / "out")
    assert f"remine embed input={tmp_path / 't'}" in text


def test_the_probability_is_of_cosines() -> None:
    from jobs.retrieval.queries import Calibration

    actual = Calibration(math.log(100), -10).probability(np.array([0.1, 0.0, -1.0]))
    assert actual.tolist() == pytest.approx([0.5, 1 / (1 + math.exp(10)), 0], abs=1e-12)
    assert pc.all(pa.array(actual >= 0)).as_py()


def test_a_scale_and_a_bias_of_the_user_replace_those_of_the_encoder(tables: dict[str, Any]) -> None:
    """Without them, only a cosine has a probability."""
    queries = open_table(str(tables["queries"]), "embeddings")
    keys = [f"queries={tables['queries']}", f"corpus.path={tables['corpus']}", "out=o"]
    of_table = {"logit_scale": None, "logit_bias": None}
    for changes, layout, expected in (
        (of_table, "table", (2.0, -3.0)),
        (of_table | {"score": "cosine"}, "npy", (2.0, -3.0)),
        (of_table | {"score": "inner_product"}, "npy", None),
        ({"logit_scale": 1.0, "logit_bias": 0.0, "score": "inner_product"}, "npy", (1.0, 0.0)),
    ):
        cfg = dataclasses.replace(config.load("retrieve", RetrieveConfig, keys), **changes)
        cfg.corpus.layout = layout
        assert _calibration(cfg, queries) == expected


def test_only_cosines_have_the_calibration_of_the_queries() -> None:
    metadata = {"remine.logit_scale": "2.0", "remine.logit_bias": "-1.0"}
    queries: Any = SimpleNamespace(metadata=metadata)

    def calibration(**keys: Any) -> Calibration | None:
        layout = keys.pop("layout", "table")
        cfg: Any = SimpleNamespace(**{"logit_scale": None, "logit_bias": None, "score": "dot", **keys})
        cfg.corpus = SimpleNamespace(layout=layout)
        return retrieve._calibration(cfg, queries)

    kept = Calibration(2.0, -1.0)
    assert calibration() == calibration(score="cosine", layout="npy") == kept
    assert calibration(layout="npy") is None
    assert calibration(logit_scale=0.0, logit_bias=0.5, layout="npy") == Calibration(0.0, 0.5)
    queries.metadata = {"remine.logit_scale": "2.0"}
    assert calibration() is None


def test_keys_of_a_search_that_do_not_fit_are_refused() -> None:
    for keys, message in (
        ({"resident": "both"}, "^resident=both"),
        ({"logit_scale": 1.0}, "^logit_scale= and logit_bias=: set both or neither"),
        ({"logit_bias": 0.0}, "^logit_scale= and logit_bias="),
        ({"retry": ["error"]}, "^retry: neighbors have no status"),
    ):
        cfg: Any = SimpleNamespace(**{
            "resident": "auto", "logit_scale": None, "logit_bias": None, "retry": [], **keys
        })  # fmt: skip
        with pytest.raises(InputError, match=message):
            retrieve._check(cfg)
