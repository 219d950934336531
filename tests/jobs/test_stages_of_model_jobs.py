"""What jobs hand to the workers of their runs, and what they keep and print afterwards, without Ray or a model."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.encoders.encoder_sources import EncoderFacts
from actors.ids import content_id
from actors.linking import LinkSettings
from actors.search_queries import SearchSettings
from actors.vlm.settings import ModelSettings, SamplingSettings
from jobs import generate, generate_images, link, loglik, questions, retrieve, zero_shot
from jobs.corpora.embeddings import layout_of
from jobs.corpora.terms import unpack
from jobs.judging import rating_tables
from jobs.runtime import lifecycle, stages
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.outcomes import Manifest, Plan, show
from jobs.runtime.selection import exclusions
from jobs.runtime.stage_contract import Read, Stage
from jobs.tables import TABLES
from tests.factories import DIM, rating, write_units
from tests.jobs.model_jobs import FACTS, IMAGES, write_inputs
from tests.jobs.small_jobs import response

KEPT = "kept/exclusions.txt"
TALLIES = {"truncated": {"items": 2}, "truncated field": {"text": 3}, "prompts": {"written": 4}, "term": {"war": 5}}
MANIFEST: dict[str, Any] = {"counts": {"tallies": TALLIES, "rows_out": 1, "filtered": {}}}


def recording(calls: list[Any]) -> Callable[[Any], list[str]]:
    """Return a function without lines that keeps what it is called with."""

    def record(value: Any) -> list[str]:
        calls.append(value)
        return []

    return record


class Started:
    """Stands for a run: keeps what a job starts its stages with, and the raters that it stores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: dict[str, Any] = {}
        self.raters: list[Mapping[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.cfg: Any = None
        self.run: Any = SimpleNamespace(
            todo=[], keep=self._keep, is_trial=False, part=lambda _: self.run, target=SimpleNamespace(out="/R")
        )
        monkeypatch.setattr(lifecycle, "begin", self._begin)
        monkeypatch.setattr(lifecycle.JobRun, "end", lambda _: Manifest(MANIFEST))
        monkeypatch.setattr(stages, "process", lambda run, **keys: self._start(keys | {"stages": [keys["stage"]]}))
        monkeypatch.setattr(stages, "stream", lambda run, **keys: self._start(keys))
        monkeypatch.setattr(rating_tables, "keep_raters", lambda run, rows: self.raters.extend(rows))

    def _keep(self, name: str, data: bytes) -> str:
        self.files[name] = data
        return f"kept/{name}"

    def _begin(self, name: str, cfg: Any, plan: Any, excluded: Any, **_: Any) -> lifecycle.JobRun:
        return lifecycle.JobRun(name, self.run, excluded, exclusions.keep(self.run, excluded))

    def _start(self, keys: dict[str, Any]) -> None:
        self.keys = keys

    def of(self, job: str, *keys: str) -> list[Stage]:
        """Return the stages that a job starts."""
        self.keys, self.raters, self.files = {}, [], {}
        self.cfg = config.load(job, cli.job(job).schema, [*keys, "out=/R"])
        show(importlib.import_module(f"jobs.{job}").execute(self.cfg))
        assert self.keys["name"] == job
        assert self.keys["resources"] == self.cfg.resources
        started: list[Stage] = self.keys["stages"]
        return started

    @property
    def read(self) -> Read:
        """The reader of the rows of a unit."""
        read: Read = self.keys["read"]
        return read


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_inputs(tmp_path_factory.mktemp("tables"))
    answers = write_units(folder / "answers", "responses", [[response(IMAGES[0], "{}")]], model="m@1")
    raters = pa.Table.from_pylist([{"rater": "m@1", "kind": "model"}], schema=TABLES["raters"].schema())
    pq.write_table(raters, f"{answers}/_run/raters.parquet")
    people = [rating(f"i{n}", "p1", "match", str(n + 1), target="Mali") for n in range(3)]
    write_units(folder / "people", "ratings", [people])
    return folder


def test_questions_are_written_with_the_instructions_and_drawn_as_configured(
    tables: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(questions, "_lines", recording(shown))
    keys = ["model=local-text-tiny", "role=generated", "seed=7", "max_tokens=5", "resources.judge.threads=3"]
    (stage,) = started.of("questions", f"texts={tables}/texts", *keys)
    cfg = started.cfg
    assert (stage.pool, stage.name, started.keys["total"], started.keys["counted"]) == (
        "judge", "QuestionWriter", 1, "texts"
    )  # fmt: skip
    settings = SamplingSettings.part_of(cfg)
    assert (settings.seed, settings.max_tokens) == (7, 5)
    assert stage.kwargs == {
        "instructions": cfg.scene_graph, "model": ModelSettings.part_of(cfg.model), "settings": settings, "threads": 3
    }  # fmt: skip
    assert started.raters == rating_tables.raters_of_model(cfg.model, {})
    assert shown == ["/R"]


def test_an_encoder_rates_with_the_sentences_and_is_kept_as_a_rater(
    tables: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zero_shot, "encoder_facts", lambda _: EncoderFacts("e@1", DIM, FACTS["preprocessing"]))
    monkeypatch.setattr(zero_shot, "check_available", lambda _: None)
    keys = ["embedder=local-tiny", "embedder.dtype=bfloat16", "embedder.pretrained=tag", "condition=c"]
    inputs = [f"input={tables}/images", "targets=[Mali,Peru]", f"exclusions={tables}/list.txt"]
    decode, rate = started.of("zero_shot", *inputs, *keys)
    assert (decode.name, rate.name, rate.rows_out) == ("PictureDecoder", "ZeroShotRater", 2)
    assert (rate.kwargs["targets"], rate.kwargs["condition"]) == (("Mali", "Peru"), "c")
    assert rate.kwargs["template"]["name"] == "cultural_relevance"
    assert (started.read.excluded, started.read.item) == (KEPT, "image_id")
    checkpoint = started.cfg.embedder.checkpoint
    assert started.raters == [
        {"rater": "e@1", "kind": "encoder", "dtype": "bfloat16", "model": checkpoint, "revision": "tag"}
    ]
    (rate,) = started.of("zero_shot", f"input={tables}/items", f"embeddings={tables}/vectors", "embedder=local-tiny")
    assert callable(rate.rows_out)
    assert (started.read.item, started.read.excluded) == ("item_id", None)


def test_pictures_are_embedded_by_their_tower_and_texts_by_theirs(tables: Path, started: Started) -> None:
    listed = f"exclusions={tables}/list.txt"
    names = {
        table: [stage.name for stage in started.of("embed", f"input={tables}/{table}", "embedder=local-tiny", listed)]
        for table in ("images", "texts")
    }
    assert names == {"images": ["PictureDecoder", "Embedder"], "texts": ["TextEmbedder"]}
    assert (started.read.item, started.read.excluded) == ("text_id", KEPT)


def test_answers_are_read_by_the_rubric_and_keep_their_model(tables: Path, started: Started) -> None:
    keys = [f"input={tables}/answers", "rubric=century_labels", "condition=c", f"exclusions={tables}/list.txt"]
    (stage,) = started.of("parse", *keys)
    assert (stage.pool, stage.name, stage.rows_out) == ("decode", "AnswerReader", 8)
    assert stage.kwargs == {"rubric": started.cfg.rubric, "condition": "c"}
    assert (started.read.item, started.read.output_item, started.read.excluded) == ("item_id", "item_id", KEPT)
    assert [row["rater"] for row in started.raters] == ["m@1"]


def test_links_are_ranked_without_excluded_queries_and_perhaps_those_of_the_knowledge_base(
    tables: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    tallies: list[Any] = []
    monkeypatch.setattr(link, "_tally_lines", lambda _, shown: recording(tallies)(shown))
    keys = ["method=lemma", "k=3", f"kb.path={tables}/kb", f"neighbors={tables}/near"]
    (stage,) = started.of("link", *keys)
    settings = LinkSettings(method="lemma", k=3)
    assert (stage.name, stage.kwargs["settings"], stage.kwargs["kb_pictures"]) == ("LinkUnit", settings, None)
    assert (started.keys["total"], started.keys["counted"], stage.kwargs["excluded"]) == (3, "rows", None)
    more = ["contaminated=skip", "limit=1", f"exclusions={tables}/list.txt"]
    (stage,) = started.of("link", *keys, *more)
    assert (stage.kwargs["kb_pictures"] is None, started.keys["total"], stage.kwargs["excluded"]) == (False, None, KEPT)
    assert tallies == [TALLIES] * 2


def test_a_corpus_is_mined_with_the_terms_and_progress_in_its_bytes(
    tables: Path, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    def sized(size: int) -> Any:
        return SimpleNamespace(unit=SimpleNamespace(inputs=[SimpleNamespace(size=size)]))

    keys = [f"corpus.path={tables}/wit.tsv", f"terms.path={tables}/terms.txt", f"exclusions={tables}/list.txt"]
    more = ["match=word", "corpus.language=de", "fold.case=casefold"]
    for sizes, limit, (total, counted, step) in (
        ([7 * 10**6, 4 * 10**6], "null", (11, "MB", 10**6)),
        ([10**7], "null", (10**4, "kB", 10**3)),
        ([10**8], "5", (None, "kB", 10**3)),
        ([999], "null", (None, "kB", 10**3)),
    ):
        started.run.todo = [sized(size) for size in sizes]
        (stage,) = started.of("mine", *keys, *more, f"limit={limit}")
        assert (started.keys["total"], started.keys["counted"], stage.kwargs["step"]) == (total, counted, step)
    arguments = stage.kwargs
    assert (stage.name, arguments["terms"], arguments["excluded"]) == ("MineUnit", "kept/terms.json", KEPT)
    assert list(unpack(started.files["terms.json"])) == ["dog", "war"]
    assert (arguments["match"], arguments["corpus"], arguments["language"]) == ("word", "wit", "de")
    assert arguments["fold"].case == "casefold"
    assert "  hits by term: war 5\n" in capsys.readouterr().out


def test_the_corpus_is_searched_without_excluded_vectors_and_accounted_for(
    tables: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[str, Any] = {}
    monkeypatch.setattr(retrieve, "search", lambda run, task, inputs, **keys: calls.update(keys, task=task, of=inputs))
    monkeypatch.setattr(retrieve, "corpus_fault", lambda out, _, corpus: calls.update(accounted=(out, corpus)))
    monkeypatch.setattr(retrieve, "export_faiss_index", lambda faiss, *_: calls.update(exported=faiss.out) or ())
    keys = [f"queries={tables}/text_vectors", f"corpus.path={tables}/vectors", f"exclusions={tables}/list.txt"]
    more = ["k=2", "score=cosine", "logit_scale=2", "logit_bias=-1", "resources.search.threads=3", "overwrite=true"]
    cfg = config.load("retrieve", retrieve.RetrieveConfig, [*keys, *more, "out=/R"])
    assert retrieve.execute(cfg) == MANIFEST
    task = calls["task"]
    assert (task.search, task.layout) == (SearchSettings.part_of(cfg), layout_of(cfg.corpus))
    assert (task.threads, task.excluded, task.search.k) == (3, KEPT, 2)
    assert calls["of"].calibration == (2.0, -1.0)
    assert calls["accounted"] == ("/R", calls["of"].corpus)
    assert (calls["side"], calls["resources"], calls["overwrite"]) == ("queries", cfg.resources, True)
    assert "exported" not in calls
    index = retrieve.FaissConfig(out=f"{tables}/index", factory="Flat")
    retrieve.execute(replace(cfg, faiss=index, resident="corpus"))
    assert (calls["exported"], calls["side"]) == (f"{tables}/index", "corpus")
    monkeypatch.setattr(retrieve, "_purged", lambda _: Manifest({"purged": True}, ["purged"]))
    kept = replace(cfg, overwrite=False)
    assert retrieve.execute(kept) == {"purged": True}
    assert retrieve.execute(replace(kept, plan=True)) == Plan(["purged"])
    assert retrieve.execute(cfg) == retrieve.execute(replace(kept, faiss=index)) == MANIFEST


def test_models_are_asked_about_items_that_are_drawn_and_not_excluded(
    tables: Path, started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(generate, "keep_refusals", recording(counted))
    inputs = [f"input={tables}/items", f"images={tables}/images", f"texts={tables}/texts"]
    asked = {
        "generate": (["draw.n=2", "samples=3"], ("judge", "Generator", 3)),
        "mark_spans": (["draw.n=2"], ("judge", "SpanMarker", None)),
        "judge": (["rubric=cultural_relevance", "method=reasoned", "samples=2"], ("judge", "ReasoningJudge", "own")),
        "loglik": ([], ("judge", "LoglikRater", "own")),
    }
    for job, (keys, expected) in asked.items():
        capsys.readouterr()
        stage = started.of(job, *inputs, *keys, "model=local-tiny", f"exclusions={tables}/list.txt")[-1]
        rows_out = "own" if callable(stage.rows_out) else stage.rows_out
        assert (stage.pool, stage.name, rows_out) == expected
        assert (started.read.item, started.read.output_item, started.read.excluded) == ("item_id", "item_id", KEPT)
        printed = capsys.readouterr().out
        assert ("  drew 2 of 3 " in printed) == ("draw.n=2" in keys), job
        expected_line = "  prompts  4 written" if job == "mark_spans" else "  context truncated of 2 items (text 3)"
        assert expected_line in printed, job
        assert started.raters == rating_tables.raters_of_model(started.cfg.model, {})
        assert stage.kwargs["model"] == ModelSettings.part_of(started.cfg.model)
        assert stage.kwargs["threads"] == started.cfg.resources.judge.threads
    assert counted == [started.run]


def test_likelihoods_of_each_setting_are_compared_with_a_reference(
    tables: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps: list[Any] = []
    monkeypatch.setattr(loglik, "keep_sweep", lambda _, *values: recording(sweeps)(values))
    keys = [f"input={tables}/images", "model=local-tiny", "targets=[Mali]", "lambdas=[0,1]", "thresholds=[-9]"]
    started.of("loglik", *keys, "condition=c")
    started.of("loglik", *keys, "condition=c", f"reference={tables}/people")
    ((reference, names),) = sweeps
    assert reference == {(f"i{n}", "Mali"): n + 1 for n in range(3)}
    assert names == ["c; lambda=0,T=-9", "c; lambda=1,T=-9"]


def test_pictures_are_drawn_with_their_models_author_and_licence(
    tables: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[Any, ...]] = []

    def write(*rows: Any, job: str) -> Manifest:
        written.append((job, *rows))
        return Manifest({})

    monkeypatch.setattr(generate_images.items_output, "write", write)
    checked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(generate_images.items_output, "check", lambda *rows: checked.append(rows))
    keys = [f"input={tables}/texts", "image_model=local-tiny", "image_model.licence=mine", "steps=2", "seed=5"]
    (stage,) = started.of("generate_images", *keys, f"exclusions={tables}/list.txt", "retry=[error]")
    assert (stage.pool, stage.name, stage.kwargs["author"], stage.kwargs["licence"]) == (
        "judge", "ImageGenerator", started.cfg.image_model.rater, "mine"
    )  # fmt: skip
    assert (stage.kwargs["settings"].steps, stage.kwargs["settings"].seed) == (2, 5)
    assert (started.read.item, started.read.output_item, started.read.excluded) == ("image_id", "image_id", KEPT)
    ((job, cfg, plan, excluded),) = written
    assert (job, cfg.retry, len(plan.units), len(excluded)) == ("generate_images", [], 1, 1)
    assert checked == [(cfg, plan, excluded)]
    requests = started.read.rows(SimpleNamespace(unit=plan.units[0])).to_pylist()  # type: ignore[arg-type]
    assert [row["prompt"] for row in requests] == ["A bird."]
    assert requests[0]["image_id"] != content_id("A bird.")
