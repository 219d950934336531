"""Linking on tables written by hand: the nodes a loop would give, what is left out counted."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.ids import content_id
from actors.linking import by_frequency
from jobs import (
    link,
)
from jobs.errors import InputError
from jobs.link import LinkConfig, _fault
from jobs.retrieval import linking
from jobs.retrieval.linking import NEAR, SHORT, UNKNOWN, LinkedKbConfig
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import Manifest
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import DIM, embedding_rows, rows_of, write_units

ARTICLE = [f"word{number}" for number in range(60)]  # of node a


def test_a_run_without_any_link_fails_unless_its_pictures_were_left_out() -> None:
    def outcome(
        method: str, *, rows_in: int = 2, rows_out: int = 0, vectors: str | None = None, **filtered: int
    ) -> str:
        kb = LinkedKbConfig(path="K", vectors=vectors)
        cfg = LinkConfig(out="/R", neighbors="n", method=method, kb=kb)
        neighbors: Any = SimpleNamespace(rows=rows_in)
        fault = _fault(cfg, neighbors, Manifest({"counts": {"rows_out": rows_out, "filtered": filtered}}))
        return str(fault or "").partition("no picture has a link: ")[2]

    assert outcome("lemma", rows_out=1) == outcome("lemma", rows_in=0) == outcome("lemma", contaminated=2) == ""
    assert outcome("lemma", contaminated=0) == outcome("lemma")
    assert outcome("lemma") == "no neighbor is a text of K/lemmas; search there for lemma"
    assert outcome("frequency_vision") == "no neighbor is a picture of a node of K"
    assert outcome("gloss_vision", vectors="V") == (
        "no neighbor is a picture of a node of K, or V has no vectors of the nodes' glosses"
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, in_process: None) -> dict[str, Any]:
    """A knowledge base of nodes a to d read by remine kb, with two queries, their neighbours and random vectors."""
    folder = tmp_path_factory.mktemp("link")
    (folder / "kb.csv").write_text(
        "node,lemmas,gloss,images,title,article\n"
        f"a,apple|Apfel,a fruit,1.jpg,Apple,{' '.join(ARTICLE)}\n"
        "b,bread,baked,1.jpg|2.jpg,,\n"
        "c,corn,a plant,2.jpg|3.jpg,,\n"
        "d,dog,an animal,,,\n"
        ",nobody,,,,\n",
        encoding="utf-8",
    )
    keys = {f"columns.{name}": name for name in ("gloss", "images", "title", "article")}
    keys |= {"separator": "'|'", "language": "en"}
    source = [f"knowledge_base.{key}={value}" for key, value in keys.items()]
    kb = ["knowledge_base=table", f"knowledge_base.path={folder}/kb.csv", f"out={folder}/kb", *source]
    assert cli.main("kb", kb) == 0
    draw = np.random.default_rng(0)
    lemmas = [row["text_id"] for row in rows_of(f"{folder}/kb/lemmas")]
    lemma_vectors = draw.normal(size=(len(lemmas), DIM))
    queries = ["q1", content_id("3.jpg")]
    query_vectors = draw.normal(size=(2, DIM))
    near = [
        {"query_id": query, "rank": rank, "item_id": content_id(f"{number}.jpg"), "score": 1 - rank / 10}
        for query, order in zip(queries, [(2, 1, 3), (3, 2, 1)], strict=True)
        for rank, number in enumerate(order, 1)
    ]
    facts = {"encoder": "e", "preprocessing": "p"}
    return {
        "folder": folder,
        "queries": queries,
        "query_vectors": query_vectors,
        "lemma_vectors": lemma_vectors,
        "near": write_units(folder / "near", "neighbors", [near[:3], near[3:]]),
        "pictures": write_units(
            folder / "pictures",
            "embeddings",
            [
                embedding_rows(queries[:1], "image", query_vectors[:1]),
                embedding_rows(queries[1:], "image", query_vectors[1:]),
            ],
            **facts,
        ),
        "lemmas": write_units(
            folder / "lemmas", "embeddings", [embedding_rows(lemmas, "text", lemma_vectors)], **facts
        ),
    }


def run_link(world: dict[str, Any], out: str, *keys: str) -> list[dict[str, Any]]:
    place = f"{world['folder']}/{out}"
    assert cli.main("link", [f"kb.path={world['folder']}/kb", f"out={place}", *keys]) == 0
    return rows_of(place)


def test_excluded_pictures_are_no_pictures_of_nodes(
    tmp_path: Path, in_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = "https://i/one.jpg", "https://i/two.jpg"
    (tmp_path / "kb.csv").write_text(f"node,lemmas,images\na,apple,{one}|{two}\nb,bread,{two}\nc,corn,three.jpg\n")
    (tmp_path / "list.txt").write_text(f"http://i/two.jpg\n{content_id('three.jpg')}\n")
    source = [
        f"knowledge_base.path={tmp_path}/kb.csv",
        "knowledge_base.columns.images=images",
        "knowledge_base.separator='|'",
    ]
    keys = ["knowledge_base=table", *source, f"out={tmp_path}/kb", f"exclusions={tmp_path}/list.txt"]
    assert cli.main("kb", keys) == 0
    assert [(row["node_id"], row["image_id"]) for row in rows_of(f"{tmp_path}/kb/node_images")] == [
        ("a", content_id(one))
    ]
    assert [row["node_id"] for row in rows_of(f"{tmp_path}/kb/nodes")] == ["a", "b", "c"]
    assert open_table(f"{tmp_path}/kb/node_images").counts().filtered["excluded"] == 3
    assert "2 of 2" in capsys.readouterr().out


def test_the_knowledge_base_as_read(world: dict[str, Any]) -> None:
    kb = f"{world['folder']}/kb"
    assert [row["node_id"] for row in rows_of(f"{kb}/nodes")] == ["a", "b", "c", "d"]
    lemmas = rows_of(f"{kb}/lemmas")
    assert [(row["source"], row["text"], row["role"]) for row in lemmas][:2] == [
        ("a", "apple", "lemma"),
        ("a", "Apfel", "lemma"),
    ]
    assert len(rows_of(f"{kb}/node_images")) == 5
    (article,) = rows_of(f"{kb}/articles")
    assert (article["source"], article["text"], article["role"]) == ("a", " ".join(ARTICLE), "article")
    windows = rows_of(f"{kb}/windows")
    assert [row["text"] for row in windows] == [" ".join(ARTICLE[:40]), " ".join(ARTICLE[30:])]
    assert {row["role"] for row in windows} == {"window"}
    node = rows_of(f"{kb}/nodes")[0]
    assert (node["titles"], node["article_text_ids"]) == ([("en", "Apple")], [("en", article["text_id"])])
    assert open_table(f"{kb}/nodes").counts().rejected == {"no_node": 1}


def test_a_limit_takes_the_first_rows_of_a_file_and_all_neighbours_of_the_first_pictures(
    tmp_path: Path, world: dict[str, Any], in_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["knowledge_base=table", f"knowledge_base.path={world['folder']}/kb.csv", f"out={tmp_path}/kb"]
    assert cli.main("kb", [*keys, "knowledge_base.separator='|'", "limit=2"]) == 0
    assert [row["node_id"] for row in rows_of(f"{tmp_path}/kb/nodes")] == ["a", "b"]
    assert [row["text"] for row in rows_of(f"{tmp_path}/kb/lemmas")] == ["apple", "Apfel", "bread"]
    assert open_table(f"{tmp_path}/kb/nodes").counts().rejected == {}, "the fifth row has no node"
    assert cli.main("kb", [*keys, "knowledge_base.separator='|'", "limit=2", "unit_rows=1", "plan=true"]) == 0
    assert "limit=2: the first 2 rows of each file" in capsys.readouterr().out

    links = run_link(world, "whole", f"neighbors={world['near']}", "method=frequency_vision")
    first = run_link(world, "first", f"neighbors={world['near']}", "method=frequency_vision", "limit=1")
    assert first == [row for row in links if row["image_id"] == first[0]["image_id"]]
    assert len({row["image_id"] for row in links}) == 2
    assert "limit=1: the first 1 pictures; the table has no more" in capsys.readouterr().out


def test_lemma_vision_equals_a_plain_loop(world: dict[str, Any]) -> None:
    links = run_link(
        world, "lv", f"neighbors={world['near']}", f"pictures={world['pictures']}", f"kb.vectors={world['lemmas']}"
    )
    counts = open_table(f"{world['folder']}/lv").counts()
    assert counts.tallies[linking.SHORT] == {"": 2}  # three nodes have pictures, and k is greater
    lemmas = rows_of(f"{world['folder']}/kb/lemmas")
    names = [row["text"] for row in lemmas]
    nodes = [row["source"] for row in lemmas]
    unit = world["lemma_vectors"] / np.linalg.norm(world["lemma_vectors"], axis=1, keepdims=True)
    for number, query in enumerate(world["queries"]):
        vector = world["query_vectors"][number]
        scores = unit @ (vector / np.linalg.norm(vector))
        best = {
            node: max(scores[i] for i, of_item in enumerate(nodes) if of_item == node) for node in "abc"
        }  # d has no picture
        expected = sorted(best, key=lambda node: -best[node])
        mine = [row for row in links if row["image_id"] == query]
        assert [row["node_id"] for row in mine] == expected
        assert [row["rank"] for row in mine] == [1, 2, 3]
        assert [row["score"] for row in mine] == pytest.approx([best[node] for node in expected], abs=2e-3)
        for row in mine:
            assert row["lemma"] == names[int(np.argmin(np.abs(scores - row["score"])))]


def test_a_query_at_which_the_ranking_raises_costs_no_other(
    world: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cursed(near: Any, k: int) -> Any:
        if near[0].nodes == ("c",):  # of the second query
            raise ZeroDivisionError("cursed")
        return by_frequency(near, k)

    monkeypatch.setattr(linking, "by_frequency", cursed)
    links = run_link(world, "cursed", f"neighbors={world['near']}", "method=frequency_vision", "nearest=2")
    assert {row["image_id"] for row in links} == {"q1"}
    table = open_table(f"{world['folder']}/cursed")
    assert [(r.file, r.reason, r.message) for r in table.rejects()] == [
        (content_id("3.jpg"), "ZeroDivisionError", "cursed")
    ]
    assert table.counts().balances()


def test_frequency_and_pictures_of_the_knowledge_base_left_out(world: dict[str, Any]) -> None:
    links = run_link(
        world, "fv", f"neighbors={world['near']}", "method=frequency_vision", "nearest=2", "contaminated=skip"
    )
    assert [(row["image_id"], row["node_id"], row["score"], row["lemma"]) for row in links] == [
        ("q1", "b", 2.0, "bread"),
        ("q1", "c", 1.0, "corn"),  # its picture is nearer than a's
        ("q1", "a", 1.0, "apple"),
    ]
    counts = open_table(f"{world['folder']}/fv").counts()
    assert counts.filtered in ({"excluded": 0, "in_knowledge_base": 1}, {"in_knowledge_base": 1})


def test_pictures_of_the_knowledge_base_are_recognised_by_their_bytes(
    world: dict[str, Any], tmp_path: Path, capsys
) -> None:
    """q1 has the bytes of 2.jpg; the other query has its id and, were that not so, looks like 1.jpg."""
    hashes = {"1.jpg": ("a" * 64, "00000000000000ff"), "2.jpg": ("b" * 64, "ff00000000000000")}
    pictures = [
        {"image_id": content_id(name), "rendition": "original", "sha256": sha, "phash": look, "status": "ok"}
        for name, (sha, look) in hashes.items()
    ]
    near = [{"query_id": q, "rank": 1, "item_id": content_id("1.jpg"), "score": 0.9} for q in ("q1", "q2", "q3", "q4")]
    digests = {"q1": ("b" * 64, "1" * 16), "q2": ("c" * 64, "00000000000000f1"), "q3": ("d" * 64, "0f" * 8)}
    asked = [
        {"image_id": name, "rendition": "original", "sha256": sha, "phash": look, "status": "ok"}
        for name, (sha, look) in digests.items()
    ]
    tables = {
        "neighbors": write_units(tmp_path / "near", "neighbors", [near]),
        "images": write_units(tmp_path / "asked", "images", [asked]),
        "kb.images": write_units(tmp_path / "kb_images", "images", [pictures[:1], pictures[1:]]),
    }
    ratings = [f"{key}={uri}" for key, uri in tables.items()]
    links = run_link(world, "bytes", *ratings, "method=frequency_vision", "contaminated=skip")
    assert sorted({row["image_id"] for row in links}) == ["q2", "q3", "q4"]  # of q4 nothing is known
    assert open_table(f"{world['folder']}/bytes").counts().filtered["bytes_in_knowledge_base"] == 1
    assert "1 pictures resemble one of the knowledge base" in capsys.readouterr().out


def test_lemma_over_the_whole_knowledge_base(world: dict[str, Any], tmp_path: Path) -> None:
    lemmas = rows_of(f"{world['folder']}/kb/lemmas")
    order = [3, 1, 0, 4, 2]
    near = [
        {"query_id": "q", "rank": rank, "item_id": lemmas[place]["text_id"], "score": 1 - rank / 10}
        for rank, place in enumerate(order, 1)
    ]
    links = run_link(
        world, "l", f"neighbors={write_units(tmp_path / 'near', 'neighbors', [near])}", "method=lemma", "k=3"
    )
    assert [(row["node_id"], row["lemma"]) for row in links] == [("c", "corn"), ("a", "Apfel"), ("d", "dog")]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["method=lemma"], "no neighbor is a text of {kb}/lemmas"),
        (["method=frequency_vision"], "no neighbor is a picture of a node of {kb}"),
        (
            ["method=lemma_vision", "pictures={p}", "kb.vectors={v}"],
            "a node of {kb}, or {v} has no vectors of the nodes' lemmas",
        ),
    ],
)
def test_neighbours_of_another_table_are_no_result(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture, keys: list[str], message: str
) -> None:
    strange = write_units(
        tmp_path / "near", "neighbors", [[{"query_id": "q1", "rank": 1, "item_id": "x", "score": 0.5}]]
    )
    places = {"kb": f"{world['folder']}/kb", "p": world["pictures"], "v": world["lemmas"]}
    common = [f"neighbors={strange}", f"kb.path={places['kb']}", f"out={tmp_path}/out"]
    assert cli.main("link", [*common, *(key.format(**places) for key in keys)]) == 1
    reported = " ".join(capsys.readouterr().err.split())
    assert f"out={tmp_path}/out: " in reported
    assert message.format(**places) in reported


@pytest.mark.parametrize("method", ["frequency_vision", "lemma"])
def test_neighbours_that_the_knowledge_base_lacks_are_counted(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture, method: str
) -> None:
    apple = next(row["text_id"] for row in rows_of(f"{world['folder']}/kb/lemmas") if row["text"] == "apple")
    node_text = apple if method == "lemma" else content_id("1.jpg")
    rows = [
        {"query_id": "q1", "rank": rank, "item_id": item, "score": 1 - rank / 10}
        for rank, item in enumerate([node_text, "x", "y"], 1)
    ]
    near, out = write_units(tmp_path / "near", "neighbors", [rows]), tmp_path / "out"
    keys = [f"neighbors={near}", f"kb.path={world['folder']}/kb", f"out={out}", f"method={method}"]
    assert cli.main("link", keys) == 0
    assert "2 neighbors are not in the knowledge base" in capsys.readouterr().out
    assert {row["node_id"] for row in rows_of(str(out))} == ({"a"} if method == "lemma" else {"a", "b"})


def test_wrong_keys_are_named(world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    common = [f"neighbors={world['near']}", f"kb.path={world['folder']}/kb", f"out={tmp_path}/out"]
    cases = [
        ("method=magic", ["method=magic"]),
        ("pictures= is required", ["method=lemma_vision"]),
        ("kb.vectors= is required", ["method=lemma_vision", "pictures=x"]),
        ("pictures=x", ["method=lemma", "pictures=x"]),
        ("kb.vectors=x", ["method=frequency_vision", "kb.vectors=x"]),
        ("lemma_aggregation=mean", ["method=lemma", "lemma_aggregation=mean"]),
        ("k=0", ["method=lemma", "k=0"]),
        ("contaminated=drop", ["method=lemma", "contaminated=drop"]),
        ("images= and kb.images=", ["method=lemma", "images=x"]),
        ("contaminated=skip", ["method=lemma", "images=x", "kb.images=y"]),
        ("plan=calibrate", ["method=lemma", "plan=calibrate"]),
    ]
    missed = []
    for expected, keys in cases:
        code, error = cli.main("link", [*common, *keys]), capsys.readouterr().err
        if code != 2 or expected not in error:
            missed.append((keys, code, error))
    assert not missed
    assert cli.main("link", [*common, "method=lemma", "plan=true"]) == 0
    (uses,) = (line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  uses"))
    assert (uses[1], uses.count("x")) == ("link", 1)  # its workers read and write
    assert not (tmp_path / "out").exists()


def test_vectors_of_two_encoders_are_not_compared(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    rows = [embedding_rows(["x"], "text", np.ones((1, DIM)))]
    other = write_units(tmp_path / "other", "embeddings", rows, encoder="f", preprocessing="p")
    keys = [f"neighbors={world['near']}", f"pictures={world['pictures']}", f"kb.vectors={other}"]
    assert cli.main("link", [*keys, f"kb.path={world['folder']}/kb", f"out={tmp_path}/out"]) == 2
    assert "cannot be compared: their encoder is e and f" in capsys.readouterr().err


def test_a_ranking_is_refused_with_tables_that_it_lacks_or_does_not_read() -> None:
    def check(keys: dict[str, Any], message: str | None) -> None:
        images, vectors = keys.pop("kb_images", None), keys.pop("vectors", None)
        kb = link.LinkedKbConfig(path="k", images=images, vectors=vectors)
        cfg = link.LinkConfig(neighbors="n", out="o", kb=kb, **keys)
        if message is None:
            assert link.checked(cfg).method == cfg.method
            return
        with pytest.raises(InputError, match=message):
            link.checked(cfg)

    lemma, vision = {"method": "lemma"}, {"method": "lemma_vision", "pictures": "p", "vectors": "v"}
    check_cases(check, [
        (dict(lemma), None), (dict(vision), None), (lemma | {"contaminated": "skip"}, None),
        (lemma | {"contaminated": "skip", "images": "i", "kb_images": "j"}, None),
        (lemma | {"contaminated": "drop"}, "^contaminated=drop: must be one of keep, skip$"),
        (lemma | {"contaminated": "skip", "images": "i"}, "^images= and kb.images=: set both or neither"),
        (lemma | {"contaminated": "skip", "kb_images": "i"}, "^images= and kb.images=: set both or neither"),
        (lemma | {"images": "i", "kb_images": "j"}, "^images=i, kb.images=j: only read with contaminated=skip"),
        (vision | {"pictures": None}, "^method=lemma_vision compares vectors: pictures= is required"),
        (vision | {"vectors": None}, r"^method=lemma_vision compares vectors: kb\.vectors= is required"),
        (lemma | {"pictures": "p"}, "^pictures=p: method=lemma does not read vectors"),
        (lemma | {"vectors": "v"}, r"^kb\.vectors=v: method=lemma does not read vectors"),
    ])  # fmt: skip


def test_counts_of_a_ranking_are_summed_over_their_kinds() -> None:
    tallies = {NEAR: {"a": 1000, "b": 1}, UNKNOWN: {"": 2}, SHORT: {"1": 2, "2": 1}}
    for method, key in (("lemma", "k of the search"), ("lemma_vision", "nearest= (and k of the search)")):
        cfg: Any = SimpleNamespace(method=method, k=5)
        assert list(link._tally_lines(cfg, tallies)) == [
            "  1,001 pictures resemble one of the knowledge base and were kept",
            "  2 neighbors are not in the knowledge base and were ignored",
            f"  3 pictures have fewer than 5 nodes; increase {key}",
        ]
        assert list(link._tally_lines(cfg, {})) == []
