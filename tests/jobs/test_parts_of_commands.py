"""Parts of commands by themselves: checks of keys, identities, and what is printed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import curate, import_ratings, link, loglik, purge, retrieve, verify
from jobs.curation.apply_rules import CurationTables
from jobs.errors import InputError, RunError
from jobs.purging import files
from jobs.retrieval.link_unit import NEAR, SHORT, UNKNOWN
from jobs.retrieval.neighbor_rows import Calibration
from jobs.runtime.selection.draws import DrawConfig
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.table_faults import Fault
from tests.cases import check_cases

Printed = pytest.CaptureFixture[str]


def source(name: str) -> Any:
    return SimpleNamespace(identity=name, uri=name)


def test_the_identity_of_a_curation_has_the_keys_of_the_rules_that_are_applied() -> None:
    def identity(images: bool = False, **keys: Any) -> dict[str, Any]:
        cfg = curate.CurateConfig(input="i", out="o", **keys)
        tables = CurationTables(source("records"), source("images") if images else None, [source("a"), source("b")])
        selection: Any = SimpleNamespace(decision=SimpleNamespace(applied=("https", curate.EXCLUDED, "draw")))
        return curate.identity(cfg, tables, selection, Exclusions())

    usual = identity()
    assert usual == {
        "input": "records", "rules": ["https", "draw"], "unit_rows": curate.CurateConfig.unit_rows,
        "thumbnails": "wikimedia", "page_rule": {"by": "page_url", "methods": None},
        "precedence": ["knowledge_graph", "language_model", "manual"],
    }  # fmt: skip
    assert identity(limit=3) == usual | {"limit": 3}
    assert identity(images=True) == usual | {"images": "images"}
    near = identity(near_duplicates="drop", near_distance=2)
    assert near == usual | {"near_duplicates": {"mode": "drop", "distance": 2}}
    drawn = identity(draw=DrawConfig(n=5), downsample_from="manual")
    assert drawn == usual | {"draw": {"n": 5, "seed": 0, "by": "picture"}, "downsample_from": "manual"}
    starter = identity(select="starter", draw=DrawConfig(seed=4))["starter"]
    assert (starter["seed"], starter["ratings"], starter["per_region"]) == (4, ["a", "b"], 6)


def test_keys_of_a_curation_that_need_other_tables_are_refused_without_them() -> None:
    def check(keys: dict[str, Any], message: str | None) -> None:
        cfg = curate.CurateConfig(input="i", out="o", **keys)
        if message is None:
            curate.check(cfg)
            return
        with pytest.raises(InputError, match=message):
            curate.check(cfg)

    check_cases(check, [
        ({}, None), ({"unit_rows": 1}, None), ({"limit": 1}, None),
        ({"near_duplicates": "report", "images": "I"}, None), ({"images": "I"}, None),
        ({"select": "starter", "ratings": ["r"]}, None),
        ({"unit_rows": 0}, "^unit_rows=0: must be at least 1"), ({"limit": 0}, "^limit=0"),
        ({"near_duplicates": "report"}, "^near_duplicates=report: needs images="),
        ({"select": "starter"}, "^select=starter: needs ratings="),
        ({"ratings": ["r", "s"]}, r"^ratings=\[r,s\]: only read with select=starter"),
    ])  # fmt: skip


def test_the_identity_of_imported_ratings_changes_with_how_they_are_read() -> None:
    def identity(pseudonyms: Any = None, **keys: Any) -> dict[str, Any]:
        cfg = import_ratings.ImportRatingsConfig(input="i", out="o", **keys)
        return import_ratings._identity(cfg, pseudonyms, Exclusions())

    usual = identity()
    assert (usual["rubric"], usual["span_labels"], usual["anonymised"]) == (None, None, None)
    changes: list[dict[str, Any]] = [
        {"table": "spans"}, {"answers": ["1", "2"]}, {"scale": "nominal"}, {"condition": "c"}, {"question": "q"},
        {"rater": "r"}, {"items": "url"}, {"encoding": "cp1252"}, {"delimiter": ";"}, {"duplicates": "first"},
        {"format": "prodigy"}, {"name": "n"}, {"method": "m"}, {"rubric": {"a": 1}}, {"span_labels": {"a": 1}},
        {"pseudonyms": SimpleNamespace(fingerprint="f")},
    ]  # fmt: skip
    identities = [usual, *(identity(**change) for change in changes)]
    assert all(one != other for n, one in enumerate(identities) for other in identities[:n])
    assert identity(rubric={"a": 1, "b": 2})["rubric"] == identity(rubric={"b": 2, "a": 1})["rubric"]


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
        ({"retry": ["error"]}, "^retry=: neighbors have no status"),
    ):
        cfg: Any = SimpleNamespace(**{
            "resident": "auto", "logit_scale": None, "logit_bias": None, "retry": [], **keys
        })  # fmt: skip
        with pytest.raises(InputError, match=message):
            retrieve._check(cfg)


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


def test_counts_of_a_ranking_are_summed_over_their_kinds(capsys: Printed) -> None:
    tallies = {NEAR: {"a": 1000, "b": 1}, UNKNOWN: {"": 2}, SHORT: {"1": 2, "2": 1}}
    for method, key in (("lemma", "k of the search"), ("lemma_vision", "nearest= (and k of the search)")):
        cfg: Any = SimpleNamespace(method=method, k=5)
        link._show_tallies(cfg, tallies)
        assert capsys.readouterr().out.splitlines() == [
            "  1,001 pictures resemble one of the knowledge base and were kept",
            "  2 neighbors are not in the knowledge base and were ignored",
            f"  3 pictures have fewer than 5 nodes; increase {key}",
        ]
        link._show_tallies(cfg, {})
        assert capsys.readouterr().out == ""


def test_the_longest_label_is_counted_in_bytes_with_its_space() -> None:
    assert [loglik._longest(labels) for labels in ([], ["a"], ["Peru", "Türkei"], ["Peru", "Mali"])] == [1, 2, 8, 5]


def test_the_first_faults_are_printed_and_a_repair_is_offered_if_it_helps(capsys: Printed) -> None:
    verify._refuse("R", [])
    many = [Fault(f"f{n}", "broken") for n in range(verify.FAULTS_SHOWN + 2)]
    for faults, message in ((many, rf"^R: {len(many)} faults$"), ([*many[:1], Fault("g", "b", "g")], "repair=true")):
        with pytest.raises(RunError, match=message):
            verify._refuse("R", faults)
        shown = capsys.readouterr().err.splitlines()
        first = [f"  fault: {fault}" for fault in faults[: verify.FAULTS_SHOWN]]
        assert shown == [*first, *(["  … and 2 more"] if faults is many else [])]
    with pytest.raises(RunError):
        verify._refuse("R", many[: verify.FAULTS_SHOWN])
    assert "more" not in capsys.readouterr().err


def test_what_a_purge_did_is_printed_by_table_and_file(capsys: Printed) -> None:
    changed = files.ChangedFiles()
    left = [f"R/t/_run/{name}" for name in ("inputs.jsonl", "units.jsonl", "other.json")]
    changed.left += [*left, *(f"R/page{n}.html" for n in range(files.SHOWN - 2))]
    purge._show("removed", {"R/b": 1, "R/a": 1200}, {"R/c": 2}, changed)
    shown = capsys.readouterr().out.splitlines()
    assert shown[:4] == [
        "purge: removed 1,201 rows of 2 tables",
        "  R/a: 1,200 rows",
        "  R/b: 1 row",
        "  R/c: removed the picture's id or URL from texts or attributes of 2 other rows",
    ]
    assert ["lists the source files" in line for line in shown[4:7]] == [True, True, False]
    assert shown[-1] == "  1 more files name a picture"
    assert len(shown) == 4 + files.SHOWN + 1
    changed.left[:] = changed.left[: files.SHOWN]
    purge._show("removed", {}, {}, changed)
    assert len(capsys.readouterr().out.splitlines()) == 1 + files.SHOWN


def test_the_limit_of_a_table_is_read_from_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "_run").mkdir()
    manifest = tmp_path / "_run" / "manifest.json"
    for limit, text in (
        ("null", "None"),
        ('{"limit": 3, "rows": 3, "of": 9, "each_file": false, "noun": "rows"}', "limit=3: the first 3 of 9 rows"),
    ):
        manifest.write_text(f'{{"limit": {limit}}}')
        assert str(verify._kept_limit(str(tmp_path))) == text
