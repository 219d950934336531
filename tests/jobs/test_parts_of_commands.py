"""Parts of commands by themselves: checks of keys, identities, and what is printed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import (
    concepts,
    curate,
    evaluate,
    generate_images,
    import_ratings,
    link,
    loglik,
    purge,
    retrieve,
    show_links,
    tric_statistics,
    verify,
)
from jobs.analysis.gold_answers import GoldAnswers
from jobs.annotation import import_config
from jobs.annotation.reading import RatingColumns
from jobs.curation.apply_rules import CurationTables
from jobs.errors import InputError, RunError
from jobs.purging import purged_files
from jobs.retrieval.linking import NEAR, SHORT, UNKNOWN
from jobs.retrieval.queries import Calibration
from jobs.runtime import lifecycle
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.draws import DrawConfig
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files.objects import Object
from jobs.store.identity import identity_of
from jobs.store.table_faults import Fault
from tests.cases import check_cases
from tests.factories import TableInMemory, century_rating, record, write_table

Printed = pytest.CaptureFixture[str]


def source(name: str) -> Any:
    return SimpleNamespace(identity=name, uri=name)


def test_the_identity_of_a_curation_has_the_keys_of_the_rules_that_are_applied() -> None:
    def identity(images: bool = False, **keys: Any) -> dict[str, Any]:
        cfg = curate.CurateConfig(input="i", out="o", **keys)
        tables = CurationTables(source("records"), source("images") if images else None, [source("a"), source("b")])
        selection: Any = SimpleNamespace(decision=SimpleNamespace(applied=("https", curate.EXCLUDED, "draw")))
        entries = curate.identity_entries(cfg, tables, selection)
        return identity_of(cfg, entries, instead_of=curate.OF_SOME_RULES)

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


def test_tables_of_ratings_are_opened_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    records = write_table(tmp_path / "m", "records", [record(title) for title in "abc"])
    uris = [write_table(tmp_path / name, "ratings", [century_rating(name, "sensitive", 3)]) for name in "pqr"]
    for order in (uris, uris[::-1]):
        tables = curate.open_tables(curate.CurateConfig(input=records, out="o", ratings=order, limit=2))
        assert [table.uri for table in tables.ratings] == uris
        assert (tables.records.rows, tables.images) == (2, None)


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
    def identity(**keys: Any) -> dict[str, Any]:
        return import_config.identity(import_ratings.ImportRatingsConfig(**{"input": "/i", "out": "o", **keys}))

    def plan(*arguments: Any) -> Any:
        cfg = import_ratings.ImportRatingsConfig(input="/i", out="o", table="spans")
        return import_ratings._plan(cfg, *arguments, knows_reports=True)

    usual = identity()
    assert (usual["rubric"], usual["span_labels"]) == (None, None)
    changes: list[dict[str, Any]] = [
        {"input": "/other"},
        {"table": "spans"}, {"answers": ["1", "2"]}, {"scale": "nominal"}, {"condition": "c"}, {"question": "q"},
        {"rater": "r"}, {"items": "url"}, {"encoding": "cp1252"}, {"delimiter": ";"}, {"duplicates": "first"},
        {"format": "prodigy"}, {"name": "n"}, {"method": "m"}, {"rubric": {"a": 1}}, {"span_labels": {"a": 1}},
        {"rater_kind": "gold"}, {"rater_from": "assigned"}, {"columns": RatingColumns(item_id="x")},
        {"columns": RatingColumns(questions={"q": "x"})},
    ]  # fmt: skip
    identities = [usual, *(identity(**change) for change in changes)]
    assert all(one != other for n, one in enumerate(identities) for other in identities[:n])
    for key in ("rubric", "span_labels"):
        assert identity(**{key: {"a": 1, "b": 2}}) == identity(**{key: {"b": 2, "a": 1}})
    items: Any = SimpleNamespace(identity="of items")
    excluded = Exclusions(("p",), (frozenset({"p"}),))
    whole = plan([Object("/i", 1, "e")], SimpleNamespace(fingerprint="f"), excluded, items)
    added = {"items": "of items", "anonymised": "f"} | exclusions.identity(excluded)
    assert whole.identity == identity(table="spans") | added
    assert len(exclusions.identity(excluded)) == 1
    bare = plan([], None, Exclusions(), None).identity
    assert ("items" in bare, bare["anonymised"]) == (False, None)
    assert ([file.uri for file in whole.units[0].inputs], whole.metadata, whole.files) == (["/i"], {}, {})


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


def test_a_page_of_links_has_1_to_100_pictures_and_a_table() -> None:
    def check(keys: dict[str, Any], message: str | None) -> None:
        cfg = show_links.ShowLinksConfig(out="o", **{"pictures": ["p"], "links": ["l"], **keys})
        if message is None:
            show_links._check(cfg)
            return
        with pytest.raises(InputError, match=message):
            show_links._check(cfg)

    check_cases(check, [
        ({}, None), ({"pictures": ["p"] * 100, "nearest": 1, "k": 1}, None), ({"links": [], "neighbors": ["n"]}, None),
        ({"pictures": []}, r"^pictures=\[\]: name 1 to 100"), ({"pictures": ["p"] * 101}, "name 1 to 100 image_ids$"),
        ({"links": []}, "^neighbors= and links=: at least one"), ({"k": 0}, "^k=0: must be"),
        ({"nearest": 0}, "^nearest=0: must be at least 1"),
    ])  # fmt: skip


def test_pictures_of_one_or_several_models_depend_on_their_settings_and_prompts() -> None:
    models: list[Any] = [SimpleNamespace(identity={"model": n}, rater=f"org/{n}", name=n) for n in "ab"]
    prompts: Any = SimpleNamespace(units=lambda drawn: drawn, identity={"input": "texts"})

    def plan(count: int, **keys: Any) -> Any:
        cfg = generate_images.GenerateImagesConfig(input="i", out="o", **keys)
        return generate_images._plan(cfg, prompts, models[:count], [], Exclusions())

    alone, both = plan(1), plan(2)
    assert (alone.out, alone.table, alone.derived) == (str(Path("o").absolute() / "images"), "images", True)
    assert (alone.identity["model"], "models" in alone.identity) == ("a", False)
    assert (both.identity["models"], "model" in both.identity) == ([{"model": "a"}, {"model": "b"}], False)
    assert (alone.metadata, both.metadata) == ({"image_model": "org/a"}, {"image_model": "org/a, org/b"})
    assert both.models == {"a": "org/a", "b": "org/b"}
    for key, value in {"seed": 1, "samples": 2, "prompt_role": "caption"}.items():
        changed = plan(1, **{key: value}).identity
        assert {name for name in changed if changed[name] != alone.identity[name]} == {key}
    assert plan(1, steps=3).identity == alone.identity | {"num_inference_steps": 3}


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
    changed = purged_files.ChangedFiles()
    changed.left += [f"R/page{n}.html" for n in range(purged_files.SHOWN + 1)]
    purge._show("removed", {"R/b": 1, "R/a": 1200}, {"R/c": 2}, changed)
    shown = capsys.readouterr().out.splitlines()
    assert shown[:4] == [
        "purge: removed 1,201 rows of 2 tables",
        "  R/a: 1,200 rows",
        "  R/b: 1 row",
        "  R/c: removed the picture's id or URL from texts or attributes of 2 other rows",
    ]
    assert [line.partition(": ")[0] for line in shown[4:6]] == ["  R/page0.html", "  R/page1.html"]
    assert "remove it yourself" in shown[4]
    assert shown[-1] == "  1 more files name a picture"
    assert len(shown) == 4 + purged_files.SHOWN + 1
    changed.left[:] = changed.left[: purged_files.SHOWN]
    purge._show("removed", {}, {}, changed)
    assert len(capsys.readouterr().out.splitlines()) == 1 + purged_files.SHOWN


def test_the_limit_of_a_table_is_read_from_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "_run").mkdir()
    manifest = tmp_path / "_run" / "manifest.json"
    for limit, text in (
        ("null", "None"),
        ('{"limit": 3, "rows": 3, "of": 9, "each_file": false, "noun": "rows"}', "limit=3: the first 3 of 9 rows"),
    ):
        manifest.write_text(f'{{"limit": {limit}}}')
        assert str(verify._kept_limit(str(tmp_path))) == text


def test_ranked_lists_are_evaluated_over_all_and_by_group() -> None:
    """Recall is given only where a query has several right answers; queries without a list lower the coverage."""
    right = {"a": {"x", "y"}, "b": {"z"}, "c": {"w"}, "d": {"v"}}
    gold = GoldAnswers(right, {"a": "g", "b": "g", "c": "h", "d": "h"})
    ranks = {"c": [2], "a": [1, 3], "b": list[int]()}
    metrics = list(evaluate.ranking_metrics(ranks, gold, [1, 2], group_by="kind"))
    groups = list(dict.fromkeys(metric.dims.get("kind", "all") for metric in metrics))
    assert groups == ["all", "g", "h"]
    values = {
        (metric.name, metric.dims.get("k", ""), metric.dims.get("kind", "all")): (
            metric.value,
            metric.n,
            metric.coverage,
        )
        for metric in metrics
    }
    first = {
        group: [values[name] for name in values if name[0].startswith("accuracy") and name[2] == group]
        for group in groups
    }
    assert first == {
        "all": [(1 / 3, 3, 0.75), (2 / 3, 3, 0.75)],
        "g": [(0.5, 2, 1), (0.5, 2, 1)],
        "h": [(0, 1, 0.5), (1, 1, 0.5)],
    }
    assert {name[2] for name in values if name[0].startswith("recall")} == {"all", "g"}
    (reciprocal,) = (values[name] for name in values if name[0] == "mrr" and name[2] == "all")
    assert reciprocal == ((1 + 0 + 0.5) / 3, 3, 0.75)


def test_intervals_do_not_depend_on_the_order_of_the_lists() -> None:
    ranks = {f"q{number:02}": [number * number % 7 + 1] for number in range(40)}
    gold = GoldAnswers({query: {"x"} for query in ranks}, {})
    orders = (ranks, dict(reversed(ranks.items())))
    first, second = (list(evaluate.ranking_metrics(order, gold, [1], group_by=None)) for order in orders)
    assert first == second
    assert any(metric.low is not None for metric in first)


def test_ids_of_lists_and_of_gold_are_shown_side_by_side() -> None:
    links: Any = TableInMemory("links", [{"image_id": "i", "rank": 1, "node_id": "n1", "method": "m", "score": 0.0}])
    links.name = "links"
    assert evaluate._line_of_ids(links, "gold.csv", GoldAnswers({"i": {"Q5"}}, {}), "i") == (
        "  no list contains a right answer: node_id has ids like 'n1', gold.csv like 'Q5'; use one kind"
    )


def test_texts_of_a_models_proposals_are_in_order_and_usable() -> None:
    rows = [
        {"response_id": f"r{n}", "item_id": item, "model": "m", "prompt": "p", "condition": "", "sample": sample,
         "text": text, "status": status}
        for n, (item, sample, text, status) in enumerate([
            ("b", 1, "b1", "ok"), ("a", 1, "a1", "truncated"), ("a", 0, "a0", "ok"), ("a", 2, "a2", "error"),
            ("a", 3, "", "ok"), ("a", 4, None, "ok"),
        ])
    ]  # fmt: skip
    responses: Any = TableInMemory("responses", rows, batch=10)
    assert dict(concepts._texts_by_item(responses)) == {"a": ["a0", "a1"], "b": ["b1"]}


def test_titles_are_of_articles_in_the_preferred_language() -> None:
    rows: list[dict[str, Any]] = [
        {"node_id": "a", "titles": [("de", "Tee"), ("en", "Tea")]}, {"node_id": "b", "titles": [("de", "Kunst")]},
        {"node_id": "c", "article_text_ids": [("en", "t")], "lemmas": [("en", ["first", "second"])]},
        {"node_id": "d", "article_text_ids": [("en", "t")]}, {"node_id": "e", "lemmas": [("en", ["bare"])]},
        {"node_id": "f", "titles": [("en", "Unwanted")]},
    ]  # fmt: skip
    nodes: Any = TableInMemory("nodes", rows)
    assert concepts._titles(nodes, set("abcde"), "en") == {"a": "Tea", "b": "Kunst", "c": "first", "d": "d"}
    assert concepts._titles(nodes, {"a"}, "de") == {"a": "Tee"}


def test_splits_of_a_release_are_those_with_pictures_in_its_order(tmp_path: Path) -> None:
    for name in ("test-A", "train", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in.tsv").write_text("x")
    (tmp_path / "dev-0").mkdir()
    (tmp_path / "dev-0" / "captions.tsv").write_text("x")
    assert tric_statistics._present(str(tmp_path)) == (str(tmp_path), ["train", "test-A"])
    assert tric_statistics._present(f"{tmp_path}/train/") == (str(tmp_path), ["train"])
    for name in ("test-A", "train"):
        (tmp_path / name / "in.tsv").unlink()
    with pytest.raises(InputError, match=r"has none of the folders train, .* with in\.tsv"):
        tric_statistics._present(str(tmp_path))


def test_a_calibration_tries_some_units_and_a_complete_table_needs_no_ray(tmp_path: Path) -> None:
    def complete(manifest: str | None, **keys: Any) -> bool:
        folder = tmp_path / "t" / "_run"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "manifest.json").unlink(missing_ok=True)
        if manifest is not None:
            (folder / "manifest.json").write_text(manifest)
        cfg: Any = SimpleNamespace(**{"overwrite": False, "retry": [], **keys})
        plan: Any = SimpleNamespace(out=f"{tmp_path}/t")
        return lifecycle._is_complete(cfg, plan)

    whole = '{"complete": true}'
    assert complete(whole)
    assert not any([complete(None), complete('{"complete": false}'), complete("{}"), complete(whole, overwrite=True)])
    assert not complete(whole, retry=["error"])
