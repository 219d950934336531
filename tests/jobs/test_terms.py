"""`terms`: from a dump to search terms, by two passes and a choice; from models' responses to search terms."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError, RunError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import load
from jobs.runtime.outcomes import Plan
from jobs.store.reading import open_table
from jobs.terms_from import graph_terms
from jobs.terms_from.terms_config import TermSourcesConfig
from jobs.workers.wikidata import EntityUnit
from tests.cases import check_cases
from tests.factories import rows_of, write_table
from tests.wikidata import CLASSES, THEMES, compress, dump, item, statement

DAY = ("+1914-07-28T00:00:00Z", 11)
ENTITIES: list[Any] = [
    *CLASSES,
    item(1, "First War", "First War", P31=["Q198"], P580=[DAY], P582=[("+1918-11-11T00:00:00Z", 11)]),
    item(2, "Battle of X", "Battle of X (1916)", P31=["Q178561"], P361=["Q1"], P585=[("+1916-00-00T00:00:00Z", 9)]),
    item(3, "Jane Doe", P31=["Q5"], P607=["Q1"], P569=[("-0044-03-15T00:00:00Z", 11)]),
    item(4, "Sit-in", P31=[statement("Q124757", rank="deprecated")]),
    item(5, None, P31=["Q124757"]),
    item(6, "Sit-in  riots", P31=["Q124757"], P585=[statement(None, snaktype="somevalue")]),
    item(8, "The Eighth", P31=["Q17149090"], P361=["Q8465"]),
    item(9, "Part of a part", P31=["Q178561"], P361=["Q2"]),
    item(10, "Of no class", P31=[statement(None, snaktype="novalue")]),
    item(1, "First War again", P31=["Q198"]),
    {"entity": "Q99", "redirect": "Q1"},
    b'{"type":"item","id":"Q7","lab',
    b"",
    b",",
    b'"text"',
    {"type": "property", "id": "P31", "claims": []},
    {"type": "lexeme", "id": "L1", "claims": [], "lemmas": {}},
]


def concepts(tmp_path: Path) -> str:
    path = tmp_path / "concepts.yaml"
    path.write_text(json.dumps({"name": "mine", "source": "me", "themes": THEMES}))
    return f"concepts={path}"


def run(tmp_path: Path, *keys: str, name: str = "dump.json.bz2", parts: int = 1, out: str = "out") -> dict[str, Any]:
    (tmp_path / name).write_bytes(compress(dump(ENTITIES), name, parts=parts))
    source = ["source=wikidata", f"source.path={tmp_path / name}"]
    manifest = cli.execute("terms", [*source, concepts(tmp_path), f"out={tmp_path / out}", *keys])
    assert isinstance(manifest, dict)
    return manifest


def terms(path: Path) -> set[tuple[str, str, str]]:
    return {(row["term"], row["concept"], row["entity_id"]) for row in rows_of(f"{path}/terms")}


TERMS = {  # by hand
    ("First War", "war", "Q1"),
    ("civil war", "war", "Q8465"),
    ("Civil war", "war", "Q8465"),
    ("battle", "war", "Q178561"),
    ("Battle", "war", "Q178561"),
    ("Battle of X", "war", "Q2"),
    ("Battle of X (1916)", "war", "Q2"),
    ("Jane Doe", "war", "Q3"),
    ("Sit-in riots", "riot", "Q6"),
    ("The Eighth", "war", "Q8"),
    ("The Eighth", "civil war", "Q8"),
}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("name", "parts"), [("dump.json.bz2", 3), ("dump.json", 1)])
def test_a_limit_reads_the_first_lines_of_a_dump(tmp_path: Path, name: str, parts: int) -> None:
    last = next(number for number, one in enumerate(ENTITIES) if isinstance(one, dict) and one.get("id") == "Q2")
    run(tmp_path, f"limit={last + 1}", "source.unit_mb=1", name=name, parts=parts)
    assert {entity for *_, entity in terms(tmp_path / "out")} == {"Q1", "Q2", "Q8465", "Q178561"}
    edges = open_table(f"{tmp_path}/out/class_edges").counts()
    assert edges.tallies["dump"]["lines"] == last + 1
    with pytest.raises(InputError, match="limit was"):
        run(tmp_path, "source.unit_mb=1", name=name, parts=parts)


@pytest.mark.usefixtures("in_process")
def test_a_limit_takes_the_first_entities_of_a_table(tmp_path: Path) -> None:
    run(tmp_path)
    keys = ["source=wikidata", f"entities={tmp_path}/out/entities", concepts(tmp_path)]
    manifest: Any = cli.execute("terms", [*keys, "limit=3", f"out={tmp_path}/some"])
    assert (manifest["limit"]["rows"], manifest["limit"]["noun"]) == (3, "entities")
    first = {row["entity_id"] for row in rows_of(f"{tmp_path}/out/entities")[:3]}
    assert {entity for *_, entity in terms(tmp_path / "some")} <= first
    counts = open_table(f"{tmp_path}/some/terms")
    assert counts.counts().tallies["total"]["entities"] + counts.counts().filtered.total() == 3


LINKING: list[Any] = [  # number of an entity that a battle is part of, what it is
    item(20, None, P31=["Q198"]) | {"labels": {"fr": {"value": "Guerre d'Y"}}},
    item(21, "War of Z", P31=["Q300"]),  # a class below war that no type contains
    item(22, "massacres", "Massacres", P279=["Q124757"], P31=["Q198"]),  # a class below riot, and a war
    item(23, "First War", P31=["Q198"]),
    item(24, None, P31=["Q198"]) | {"aliases": {"en": [{"value": "Small war"}]}},
    item(25, None, "Small war (1920)", P31=["Q198"]),
    item(26, "No war", P31=[statement("Q198", rank="deprecated")]),
    {"entity": "Q27", "redirect": "Q20"},
    item(28, "Battle of a war", P31=["Q178561"], P361=["Q23"]),  # not itself a war
    {"entity": "Q29", "redirect": "Q198"},  # of a class
]


@pytest.mark.usefixtures("in_process")
def test_an_entity_is_linked_through_others_without_name_or_type(tmp_path: Path) -> None:
    classes = [*CLASSES[:5], *CLASSES[6:], item(1190554, "occurrence"), item(300, "own wars", P279=["Q198"])]
    classes[0] = item(198, "war", "War")  # below nothing, so an instance has no type
    battles = [item(100 + n, f"Battle {n}", P31=["Q1190554"], P361=[f"Q{n}"]) for n in range(20, 30)]
    (tmp_path / "dump.json").write_bytes(dump([*classes, *LINKING, *battles]))
    keys = ["source=wikidata", f"source.path={tmp_path}/dump.json", concepts(tmp_path), f"out={tmp_path}/out"]
    cli.execute("terms", keys)
    linked: dict[str, set[str]] = {}
    for term, concept, _ in terms(tmp_path / "out"):
        linked.setdefault(term, set()).add(concept)
    assert {n: linked.get(f"Battle {n}", set()) for n in range(20, 30)} == {
        20: {"war"}, 21: {"war"}, 22: {"riot", "war"}, 23: {"war"}, 24: {"war"}, 25: {"war"}, 26: set(),
        27: {"war"}, 28: set(), 29: {"war"},
    }  # fmt: skip
    assert "War of Z" not in linked, "it has no type"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("name", "parts"), [("dump.json.bz2", 3), ("dump.json.gz", 4), ("dump.json", 1)])
def test_a_dump_becomes_terms(tmp_path: Path, name: str, parts: int) -> None:
    manifest = run(tmp_path, name=name, parts=parts)
    assert terms(tmp_path / "out") == TERMS
    entities = open_table(f"{tmp_path}/out/entities", "entities").counts()
    assert entities.rejected == {"malformed": 1, "not_an_entity": 1}
    assert entities.filtered == {
        "no_concept": 9,  # seven classes, the riot whose statement is deprecated, and the item with novalue
        "not_an_item": 2,
        "duplicate_entity": 1,
    }
    # Part of Q2, which is not an instance of a concept's class; the riot and the redirect only link others.
    assert manifest["counts"]["filtered"] == {"no_concept": 1, "no_name": 1, "redirect": 1}
    sizes = json.loads((tmp_path / "out/entities/_run/concepts.json").read_text())
    assert sizes == {"war": 2, "civil war": 1, "riot": 1, "peace": 0}
    rows = {row["term"]: row for row in rows_of(f"{tmp_path}/out/terms")}
    assert rows["First War"]["name_kinds"] == ["label", "title"]
    assert (rows["Battle"]["name_kinds"], rows["battle"]["name_kinds"]) == (["title"], ["label"])
    assert (rows["Jane Doe"]["entity_date"], rows["Jane Doe"]["period"]) == ("-0043-03-15", "outside")
    assert (rows["Jane Doe"]["linked_by"], rows["Jane Doe"]["entity_type"]) == (["conflict"], "person")
    assert rows["The Eighth"]["entity_type"] == "organization"
    counts = json.loads((tmp_path / "out/terms/_run/term_counts.json").read_text())
    assert counts["entities_by_concept"] == {"war": 6, "civil war": 1, "riot": 1}
    assert counts["entities_by_type"] == {"event": 5, "organization": 1, "person": 1}
    assert (counts["entities"], counts["rows"], counts["distinct_terms"]) == (7, 11, 8)


@pytest.mark.usefixtures("in_process")
def test_a_second_run_does_nothing_and_an_unfinished_one_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dumps").mkdir()
    for number in range(3):
        run_name = f"dumps/{number}.json.gz"
        (tmp_path / run_name).write_bytes(compress(dump(ENTITIES[number::3]), run_name))
    keys = [f"source.path={tmp_path}/dumps", concepts(tmp_path), f"out={tmp_path}/out"]
    seen = Counter[str]()
    call = EntityUnit.__call__

    def counted(self: EntityUnit, task: Any, writer: Any, report: Any) -> None:
        seen[task.unit.name] += 1
        if len(seen) == 2 and seen.total() == 2:
            raise OSError("the machine is gone")
        call(self, task, writer, report)

    monkeypatch.setattr(EntityUnit, "__call__", counted)
    with pytest.raises(Exception, match="the machine is gone"):
        cli.execute("terms", keys)
    assert not (tmp_path / "out/terms").exists()
    cli.execute("terms", keys)
    assert sorted(seen.values()) == [1, 1, 2]
    assert terms(tmp_path / "out") == TERMS
    cli.execute("terms", keys)
    assert seen.total() == 4


@pytest.mark.usefixtures("in_process")
def test_entities_are_chosen_again_without_the_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(graph_terms, "ROWS_AT_A_TIME", 2)
    run(tmp_path)
    keys = [f"entities={tmp_path}/out/entities", concepts(tmp_path)]
    cli.execute("terms", [*keys, f"out={tmp_path}/strip", "punctuation=strip", "names=[label]"])
    assert {term for term, _, _ in terms(tmp_path / "strip")} >= {"Sitin riots", "First War", "Battle of X"}
    counts = json.loads((tmp_path / "strip/terms/_run/term_counts.json").read_text())
    assert counts["names_changed_by_punctuation_or_space"] == 1
    assert isinstance(cli.execute("terms", [*keys, f"out={tmp_path}/planned", "plan=true"]), Plan)
    assert not (tmp_path / "planned").exists()

    cli.execute("terms", [*keys, f"out={tmp_path}/require", "dates=require"])
    assert {entity for _, _, entity in terms(tmp_path / "require")} == {"Q1", "Q2"}
    # inside the period first, of these the one with more articles or, among equals, the smaller number
    capsys.readouterr()
    cli.execute("terms", [*keys, f"out={tmp_path}/two", "entities_per_concept=2"])
    printed = capsys.readouterr().out
    assert "at most 2 of each concept are taken" in printed
    assert "entities by concept (table 6)" in printed
    assert {(concept, entity) for _, concept, entity in terms(tmp_path / "two")} == {
        ("war", "Q1"),
        ("war", "Q2"),
        ("civil war", "Q8"),
        ("riot", "Q6"),
    }
    cli.execute("terms", [*keys, f"out={tmp_path}/ignore", "entities_per_concept=2", "dates=ignore"])
    assert {entity for _, concept, entity in terms(tmp_path / "ignore") if concept == "war"} == {"Q1", "Q2"}
    cli.execute("terms", [*keys, f"out={tmp_path}/bc", "entities_per_concept=1", "period.first=-100", "period.last=0"])
    assert {entity for _, concept, entity in terms(tmp_path / "bc") if concept == "war"} == {"Q3"}
    assert not (tmp_path / "two/entities").exists()
    with pytest.raises(InputError, match=r"concepts=century: .* was collected with other concepts"):
        cli.execute("terms", [keys[0], f"out={tmp_path}/other"])
    assert not (tmp_path / "other").exists()


@pytest.mark.usefixtures("in_process")
def test_concepts_by_id_and_a_depth(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps({"name": "c", "source": "me", "themes": {"t": {"event": ["Q1190554"]}}}))
    run(tmp_path, f"concepts={path}", "subclass_depth=1", out="near")
    assert {entity for _, _, entity in terms(tmp_path / "near")} >= {"Q6"}  # a riot is one step below an occurrence
    assert "Q1" not in {entity for _, _, entity in terms(tmp_path / "near")}  # a war is two
    run(tmp_path, f"concepts={path}", out="far")
    assert "Q1" in {entity for _, _, entity in terms(tmp_path / "far")}


REFUSED = [
    ([], "either source.path="),
    (["source.path=x.json", "entities=y"], "either source.path="),
    (["source.path=absent.json"], "does not exist"),
    (["source.path=x.json", "names=[title,name]"], "names=name: must be one of label, alias, title"),
    (["source.path=x.json", "names=[]"], "name one or several"),
    (["source.path=x.json", "punctuation=drop"], "punctuation=drop: must be one of keep, strip"),
    (["source.path=x.json", "dates=modern"], "dates=modern: must be one of"),
    (["source.path=x.json", "entities_per_concept=0"], "entities_per_concept=0: must be at least 1"),
    (["source.path=x.json", "period.first=2200"], "must not be after"),
    (["source.path=x.json", "responses=[y]"], "only read with source=language_model"),
    (["source.path=x.json", "exclusions=list.txt"], "terms have no pictures"),
    (["source.path=x.json", "graph.subclass_property=Q5"], "must be the id of a property"),
    (["source=language_model"], "responses="),
    (["source=language_model", "responses=[y]", "entities=y"], "entities=y: only read with source=wikidata"),
    (["source.path=x.json", "subclass_depth=0"], "subclass_depth=0: must be at least 1"),
    (["source.path=x.json", "names=[label,label]"], "label,label.*each once"),
    (["source=language_model", "responses=[y]", "source.path=x.json"], "only read with source=wikidata"),
    (["source=language_model", "responses=[y]", "unknown=ask"], "unknown=ask: must be one of drop, keep"),
    (["source.path=x.json", "source.name=dbpedia"], "source.name=dbpedia: must be one of wikidata, language_model"),
    (["source.path=x.json", "limit=0"], "limit=0: must be at least 1"),
]


def test_what_is_refused(tmp_path: Path) -> None:
    def check(keys: list[str], message: str) -> None:
        with pytest.raises(InputError, match=message):
            cli.execute("terms", [*keys, f"out={tmp_path}/out"])
        assert not (tmp_path / "out").exists()

    check_cases(check, REFUSED)


@pytest.mark.usefixtures("in_process")
def test_a_dump_without_the_concepts_ends_the_run_with_their_titles(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps({"name": "c", "source": "me", "themes": {"t": {"war": ["Absent"]}}}))
    with pytest.raises(RunError, match=r"none of its titles is in the dump \(Absent"):
        run(tmp_path, f"concepts={path}")
    path.write_text(json.dumps({"name": "c", "source": "me", "themes": {"t": {"war": []}}}))
    with pytest.raises(InputError, match=r"themes\.t\.war: empty; list at least one id"):
        run(tmp_path, f"concepts={path}")


def test_a_file_without_entities_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(compress(b'["a",\n{"id": 1},\n{"x"\n', "a.gz"))
    with pytest.raises(InputError, match=r"none of its first 3 lines is an entity \(the first is"):
        cli.execute("terms", [f"source.path={tmp_path}/a.json.gz", f"out={tmp_path}/out"])
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("in_process")
def test_published_samples_of_dumps_and_entities(tmp_path: Path, data: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        json.dumps({"name": "c", "source": "me", "themes": {"t": {"state": ["Q3624078"], "human": ["Q5"]}}})
    )
    graph = load("terms", TermSourcesConfig, ["out=x"]).graph
    graph["types"] = {"person": ["Q5"], "location": ["Q3624078"]}
    (tmp_path / "g.yaml").write_text(json.dumps(graph))
    expected = {  # lines, rows, states and people without a name, terms; the samples' items have no names
        "sample-dump-20150815.json.gz": (101, 15, 15, set()),
        "mock-dump-with-bugs.json": (101, 15, 15, set()),
        "item.json": (1, 0, 0, set()),
        "property.json": (1, 0, 0, set()),
        "wd_Q42.json": (1, 1, 0, {"Douglas Adams"}),
        "wbgetentities-Douglas-Adams.json": (1, 1, 0, {"Douglas Adams"}),
    }
    for name, (lines, rows, nameless, names) in expected.items():
        out = f"{tmp_path}/{name}"
        keys = [f"source.path={data}/wikidata/{name}", f"concepts={tmp_path}/c.yaml", f"graph={tmp_path}/g.yaml"]
        cli.execute("terms", [*keys, f"out={out}"])
        counts, without = (open_table(f"{out}/{table}", table).counts() for table in ("entities", "terms"))
        actual = (counts.tallies["dump"]["lines"], counts.rows_out, without.filtered["no_name"])
        assert actual == (lines, rows, nameless), name
        assert not counts.rejected, name
        batches = open_table(f"{out}/terms", "terms").batches(["term"])
        assert {term for batch in batches for term in batch["term"].to_pylist()} == names, name


@pytest.mark.usefixtures("ray_session")
def test_a_dump_on_s3_through_ray(tmp_path: Path, s3: str) -> None:
    from jobs.store.files import locations

    locations.create(f"{s3}/wikidata/dump.json.bz2", compress(dump(ENTITIES), "dump.bz2", parts=4))
    keys = [f"source.path={s3}/wikidata/dump.json.bz2", concepts(tmp_path), f"out={s3}/terms-out"]
    cli.execute("terms", keys)
    rows = rows_of(f"{s3}/terms-out/terms")
    assert {(row["term"], row["concept"], row["entity_id"]) for row in rows} == TERMS


def line(title: str, topic: str = "war") -> str:
    return json.dumps({"sub_region": "none", "category": "conflict", "topic": topic, "page_title": title})


def responses(out: Path, model: str, texts: list[tuple[str | None, str]]) -> None:
    rows = [
        {"response_id": f"{model}{n}", "item_id": "i", "model": model, "prompt": "p", "condition": "", "sample": n,
         "seed": n, "text": text, "finish_reason": "stop", "status": status}
        for n, (text, status) in enumerate(texts)
    ]  # fmt: skip
    write_table(out, "responses", rows)


def test_responses_of_models_become_terms(tmp_path: Path) -> None:
    responses(
        tmp_path / "responses/a",
        "a",
        [
            (f"{line('One')}\n{line('Two')}\nSure!", "ok"),
            (f"{line('ONE')}\n{line('Three')}\n{{'cut", "truncated"),
            ("I cannot", "refused"),
            (None, "error"),
        ],
    )
    responses(tmp_path / "responses/b", "b", [(f"{line('one')}\n{line('Four', 'peace')}", "ok")])
    out = tmp_path / "out"
    keys = ["source=language_model", f"responses=[{tmp_path}/responses/*]", f"out={out}"]
    manifest = cli.execute("terms", keys)
    assert isinstance(manifest, dict)
    rows = {(row["term"], row["model"], row["sample"], row["concept"], row["theme"]) for row in rows_of(f"{out}/terms")}
    assert rows == {
        ("One", "a", 0, "war", "conflict"),
        ("Two", "a", 0, "war", "conflict"),
        ("ONE", "a", 1, "war", "conflict"),
        ("Three", "a", 1, "war", "conflict"),
        ("one", "b", 0, "war", "conflict"),
    }
    assert manifest["counts"]["filtered"] == {
        "not_json": 1,
        "cut": 1,
        "response_refused": 1,
        "response_error": 1,
        "topic_of_other_category": 1,
    }
    counts = json.loads((out / "terms/_run/title_counts.json").read_text())
    assert counts["distinct_titles"] == 3
    assert counts["models"]["a"]["valid_share"] == 4 / 6
    (pair,) = counts["overlap"]
    assert (pair["common"], pair["of_union"], pair["of_smaller"]) == (1, 1 / 3, 1.0)

    kept = cli.execute("terms", [*keys[:2], f"out={tmp_path}/kept", "unknown=keep"])
    assert isinstance(kept, dict)
    assert kept["counts"]["rows_out"] == 6
