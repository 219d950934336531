"""The two passes over a dump before a worker runs: checks, what each table depends on, the plan, and the classes."""

import bz2
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError, RunError
from jobs.runtime.configuration.config import load
from jobs.terms_from import dump, graph_passes
from jobs.terms_from.class_tree import SUBCLASS, TITLE
from jobs.terms_from.dump import SPAN
from jobs.terms_from.graph_passes import GraphInput, write_entities
from jobs.terms_from.terms_config import TermSourcesConfig
from jobs.workers.wikidata import ClassUnit, EntityUnit
from tests.factories import write_table
from tests.wikidata import item


def config(folder: Path, *keys: str, **themes: Any) -> TermSourcesConfig:
    """Return the configuration of a dump, with concepts of a theme: name -> titles or ids."""
    path = folder / "concepts.json.yaml"
    path.write_text(json.dumps({"name": "mine", "source": "me", "themes": {"t": themes or {"war": ["War"]}}}))
    source = ["source=wikidata", f"source.path={folder}/dump.json", f"concepts={path}", f"out={folder}/out"]
    return load("terms", TermSourcesConfig, [*source, *keys])


def write_dump(path: Path, *lines: Any) -> list[dump.Unit]:
    """Write a dump of these entities, or lines of bytes; return its units."""
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"[\n" + b",\n".join(texts) + b"\n]\n")
    return dump.units(dump.TermsSource("wikidata", str(path)))


def test_an_entity_must_be_among_the_first_20_lines_of_each_file(tmp_path: Path) -> None:
    entity = item(1, "War")
    for lines in ([b"x"] * 19 + [entity], [entity, b"x"], [{"entity": "Q9", "redirect": "Q1"}], []):
        graph_passes._check_entities(write_dump(tmp_path / "dump.json", *lines))
    for lines, count in (([b"x"] * 20 + [entity], 20), ([{"id": 1}, b"", b'"text"'], 2)):
        units = write_dump(tmp_path / "dump.json", *lines)
        with pytest.raises(InputError, match=rf"dump\.json: none of its first {count} lines is an entity"):
            graph_passes._check_entities(units)
    with pytest.raises(InputError, match=r"the first is 'xxx") as raised:
        graph_passes._check_entities(write_dump(tmp_path / "dump.json", b"x" * 100))
    assert f"'{'x' * 60}'" in str(raised.value)
    (unit,) = write_dump(tmp_path / "dump.json", *[b"x"] * 30)
    later = replace(unit, extra={**unit.extra, SPAN: [20, 50]})  # a later part of a file
    graph_passes._check_entities([later])
    good = write_dump(tmp_path / "a.json", entity)
    with pytest.raises(InputError, match=r"dump\.json: none of"):
        graph_passes._check_entities([*good, later, unit])
    (tmp_path / "a.json.bz2").write_bytes(bz2.compress(b"x\n")[:-8])  # damage is reported by the run
    graph_passes._check_entities(dump.units(dump.TermsSource("wikidata", str(tmp_path / "a.json.bz2"))))


def test_each_pass_depends_on_what_it_reads(tmp_path: Path) -> None:
    units = write_dump(tmp_path / "dump.json", item(1, "War"))

    def identities(*keys: str, graph: dict[str, Any] | None = None, **themes: Any) -> tuple[str, str]:
        cfg = config(tmp_path, *keys, **themes)
        cfg = replace(cfg, graph={**cfg.graph, **(graph or {})})
        checked = GraphInput.of(cfg)
        edges = graph_passes._edges_plan(cfg, checked, units)
        entities = graph_passes._entities_plan(cfg, checked, units)
        assert (edges.out, entities.out) == (f"{tmp_path}/out/class_edges", f"{tmp_path}/out/entities")
        assert entities.metadata == checked.hashes
        return json.dumps(edges.identity, sort_keys=True), json.dumps(entities.identity, sort_keys=True)

    first = identities()

    def changed(*keys: str, **more: Any) -> tuple[bool, bool]:
        edges, entities = identities(*keys, **more)
        return edges != first[0], entities != first[1]

    assert changed() == (False, False)
    assert changed("subclass_depth=2") == (False, True)
    assert changed("dates=ignore", "names=[title]") == (False, False)
    assert changed(war=["War", "Battle"]) == (True, True)
    assert changed(conflict=["War"]) == (False, True)  # the name of the concept alone
    assert changed(graph={"site": "dewiki"}) == (True, True)
    assert changed(graph={"subclass_property": "P9"}) == (True, True)
    titles = [f"Title {number}" for number in range(9)]
    assert json.loads(identities(war=titles[::-1])[0])["wanted"] == graph_passes._hash(["P279", "enwiki", *titles])


def test_progress_is_in_megabytes_of_a_large_dump(tmp_path: Path) -> None:
    (unit,) = write_dump(tmp_path / "dump.json", item(1, "War"))
    for spans, step in (([[0, 10**7]], 1000), ([[0, 10**7 + 1]], 10**6), ([[0, 6 * 10**6], [10**6, 6 * 10**6]], 10**6)):
        assert graph_passes._step([replace(unit, extra={**unit.extra, SPAN: span}) for span in spans]) == step


def test_a_plan_names_both_tables_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = write_dump(tmp_path / "dump.json", *(item(number, "War") for number in range(1, 4)))
    whole_files: list[bool] = []

    def listed(_: dump.TermsSource, *, whole: bool = False) -> list[dump.Unit]:
        whole_files.append(whole)
        return units

    monkeypatch.setattr(dump, "units", listed)
    for keys, limits in (((), 0), (("limit=2",), 2)):
        cfg = config(tmp_path, "plan=true", *keys)
        plan = write_entities(cfg, GraphInput.of(cfg), class_unit=ClassUnit, entity_unit=EntityUnit)
        assert plan is not None
        assert whole_files[-1] == bool(limits), "a limit is of a file, not of its units"
        printed = "\n".join(plan.lines)
        for table in ("class_edges", "entities"):
            assert f"terms: would write table {table} to {tmp_path}/out/{table}" in printed
            assert f"no measurement of terms {table} on CPUs" in printed
        assert printed.count("only a run shows it") == 2
        assert printed.count("the driver then writes terms;") == 1
        assert printed.count("limit=2: the first 2 lines of each file") == limits
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="concepts"):
        GraphInput.of(replace(cfg, concepts={}))


def test_concepts_without_a_class_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = [("Q3", SUBCLASS, "Q2"), ("Q2", SUBCLASS, "Q1"), ("Q1", TITLE, "War")]
    rows = [{"entity_id": subject, "relation": relation, "value": value} for subject, relation, value in edges]
    write_table(tmp_path / "out" / "class_edges", "class_edges", rows)
    cfg = config(tmp_path, war=["War"], riot=["Riot"])
    tree = graph_passes._tree(cfg, GraphInput.of(cfg))
    assert set(tree.number.tolist()) >= {1, 2, 3}
    printed = capsys.readouterr().out
    assert printed.startswith("  2 subclass statements; ")
    assert printed.endswith("  concepts without an entity of their title or id in the dump: riot\n")
    cfg = config(tmp_path, "subclass_depth=1", war=["War"])
    assert set(graph_passes._tree(cfg, GraphInput.of(cfg)).number.tolist()) & {1, 2, 3} == {1, 2}
    assert "without an entity" not in capsys.readouterr().out
    for keys, where, use in (
        ((), "the dump", "another dump"), (("limit=1500",), "the first 1,500 lines of the dump", "a larger limit=")
    ):  # fmt: skip
        cfg = config(tmp_path, *keys, riot=["Riot"])
        message = rf"concepts: none of its titles is in {where} \(Riot, …\); use {use}, "
        with pytest.raises(RunError, match=message):
            graph_passes._tree(cfg, GraphInput.of(cfg))
