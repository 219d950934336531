"""What jobs begin a run with: the identity of their rows, the amount of work, and the settings of their stages."""

import importlib
import json
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.encoders.encoder_sources import EncoderFacts
from actors.ids import content_id
from actors.linking import LinkSettings
from actors.rubrics.instructions import Instruction
from actors.vlm.settings import ModelSettings
from jobs import kb, zero_shot
from jobs.corpora.embeddings import find_corpus
from jobs.errors import InputError
from jobs.items_from import items_output
from jobs.judging import engine_choice, prompt_trial, vllm_engine
from jobs.judging.engine_choice import ChosenEngine
from jobs.judging.kept_rubric import of_prompt
from jobs.judging.zero_shot_inputs import read_sentences
from jobs.questioning.question_writer import TEXTS
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.outcomes import Plan
from jobs.runtime.selection.exclusions import identity, read_exclusions
from jobs.store.files import read_ahead
from jobs.store.reading import open_table
from jobs.workers.kb import PARTS
from tests.factories import DIM, picture, record, write_file, write_table, write_units
from tests.jobs.model_jobs import FACTS, IMAGES, write_inputs


class Begun:
    """Stands for the beginning of a run: keeps what a job begins it with, and lets the job stop there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: dict[str, Any] = {}
        self.shown: tuple[Any, ...] = ()
        self.marking: dict[str, Any] = {}
        monkeypatch.setattr(lifecycle, "begin", self._begin)
        monkeypatch.setattr(prompt_trial, "lines", self._show)
        monkeypatch.setattr(prompt_trial, "marking_lines", lambda *_, **keys: self.marking.update(keys) or ())
        monkeypatch.setattr(items_output, "describe", lambda *_, **__: Plan([]))

    def _show(self, *arguments: Any) -> list[str]:
        self.shown = arguments
        return []

    def _begin(self, name: str, cfg: Any, plan: Any, excluded: Any, **keys: Any) -> Plan:
        self.keys = {"name": name, "cfg": cfg, "plan": plan, **keys}
        return Plan([])

    def of(self, job: str, *keys: str) -> Any:
        """Return the plan with which a job begins."""
        cfg = config.load(job, cli.job(job).schema, [*keys, "out=/R"])
        assert importlib.import_module(f"jobs.{job}").execute(cfg) == Plan([])
        assert self.keys["name"] == job
        plan = self.keys["plan"]
        assert (plan.out, plan.config["out"]) == ("/R/images" if job == "generate_images" else "/R", "/R")
        return plan

    def values(self, *names: str) -> tuple[Any, ...]:
        return tuple(self.keys[name] for name in names)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    return Begun(monkeypatch)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("tables"))


def of(table: Path) -> str:
    return open_table(str(table)).identity


def excluded(tables: Path) -> dict[str, str]:
    return identity(read_exclusions(f"{tables}/list.txt"))


def test_links_are_identified_by_their_settings_and_every_table(tables: Path, begun: Begun) -> None:
    keys = ["method=lemma_vision", "k=3", "nearest=2", "lemma_aggregation=mean", "language=de", "contaminated=skip"]
    kb = [f"kb.path={tables}/kb", f"kb.vectors={tables}/text_vectors", f"kb.images={tables}/images"]
    inputs = [f"neighbors={tables}/near", f"pictures={tables}/vectors", f"images={tables}/images"]
    plan = begun.of("link", *keys, *kb, *inputs, f"exclusions={tables}/list.txt")
    settings = LinkSettings(method="lemma_vision", k=3, nearest=2, lemma_aggregation="mean", language="de")
    assert plan.identity == {
        **asdict(settings),
        "contaminated": "skip",
        "neighbors": of(tables / "near"),
        "kb": {part: of(tables / "kb" / part) for part in ("nodes", "node_images", "lemmas")},
        "vectors": {"pictures": of(tables / "vectors"), "texts": of(tables / "text_vectors")},
        "images": dict.fromkeys(("queries", "kb"), of(tables / "images")),
        **excluded(tables),
    }
    assert (plan.table, plan.metadata, plan.derived) == ("links", {"method": "lemma_vision"}, True)
    assert begun.values("pools", "note", "streamed", "calibrates") == (["link"], "lemma_vision", False, False)
    assert [unit.rows for unit in plan.units] == [3]
    limited = begun.of("link", "method=lemma", kb[0], inputs[0], "limit=1")
    assert (limited.limit.noun, limited.limit.rows) == ("pictures", 1)
    assert limited.identity["vectors"] == limited.identity["images"] == {}


def test_neighbours_are_identified_by_queries_corpus_and_calibration(tables: Path, begun: Begun) -> None:
    keys = ["k=2", "score=cosine", "logit_scale=2", "logit_bias=-1", f"exclusions={tables}/list.txt"]
    plan = begun.of("retrieve", f"queries={tables}/text_vectors", f"corpus.path={tables}/vectors", *keys)
    corpus = find_corpus(begun.keys["cfg"].corpus)
    units = open_table(f"{tables}/text_vectors").units()
    assert plan.identity == {
        "queries": content_id(*(f"{unit.name} {unit.version}" for unit in units)),
        "corpus": corpus.identity,
        "k": 2,
        "score": "cosine",
        "calibration": [2.0, -1.0],
        **excluded(tables),
    }
    assert (plan.table, plan.metadata, plan.models, plan.derived) == (
        "neighbors", FACTS | {"score": "cosine"}, {"encoder": "e@1"}, False
    )  # fmt: skip
    assert [unit.name for unit in plan.units] == [unit.name for unit in units]
    note = f"2 queries, 3 vectors of {DIM} numbers, the queries kept in memory"
    assert begun.values("pools", "note", "streamed", "calibrates") == (["search"], note, False, False)
    work = begun.keys["work"]
    assert (work.counted, work.per_row, work.pieces) == ("multiplications", 3 * DIM, len(corpus.units))
    plain = begun.of("retrieve", f"queries={tables}/text_vectors", f"corpus.path={tables}/vectors", "resident=corpus")
    assert (plain.identity["calibration"], begun.keys["work"].pieces) == (None, None)
    assert begun.keys["note"].endswith("the corpus kept in memory")


def test_matches_are_identified_by_corpus_terms_and_how_they_are_compared(
    tables: Path, begun: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [f"corpus.path={tables}/wit.tsv", f"terms.path={tables}/terms.txt", "corpus.language=de"]
    plan = begun.of("mine", *keys, "match=word", "fold.case=casefold", f"exclusions={tables}/list.txt", "limit=2")
    fold = begun.keys["cfg"].fold
    assert fold.case == "casefold"
    assert plan.identity | {"terms": ""} == {
        "corpus": {"name": "wit", "language": "de"}, "match": "word", "fold": asdict(fold), "terms": "", "limit": 2,
        **excluded(tables),
    }  # fmt: skip
    assert (plan.table, plan.derived, plan.limit.noun, len(plan.units)) == ("records", False, "records", 1)
    assert begun.values("pools", "note", "streamed") == (["mine"], "2 terms", False)
    assert begun.keys["get_bytes"] == 8 * 2**20
    (tables / "letters.txt").write_text("x\nwar\nz\n")
    capsys.readouterr()
    other = begun.of("mine", keys[0], f"terms.path={tables}/letters.txt")
    assert "terms of one character, which many titles contain: x, z\n" in capsys.readouterr().out
    assert other.identity["terms"] != plan.identity["terms"]
    begun.of("mine", keys[0], f"terms.path={tables}/letters.txt", "match=word")
    assert "terms of one character" not in capsys.readouterr().out


def test_questions_by_a_model_are_identified_by_texts_and_instructions(tables: Path, begun: Begun) -> None:
    keys = ["model=local-text-tiny", "role=generated", "unit_rows=1", "seed=7", "max_tokens=5", "temperature=0.5"]
    plan = begun.of("questions", f"texts={tables}/texts", *keys)
    model = begun.keys["cfg"].model
    drawing = {"temperature": 0.5, "max_tokens": 5, "seed": 7}
    assert plan.identity | drawing == plan.identity
    assert plan.identity | {"texts": of(tables / "texts"), "role": "generated", "unit_rows": 1} == plan.identity
    assert plan.identity["model"] == model.identity
    assert (plan.identity["scene_graph"]["name"], len(plan.identity["scene_graph"]["hash"])) == ("dsg", 32)
    assert (plan.table, plan.metadata) == ("questions", {"model": model.rater, "scene_graph": "dsg"})
    assert (plan.models, plan.derived, len(plan.units)) == ({"local-text-tiny": model.rater}, False, 1)
    assert [text for unit in plan.units for _, text in unit.extra[TEXTS]] == ["A cat."]
    note = "asks local-text-tiny in three steps about 1 text of role generated"
    assert begun.values("pools", "note", "streamed") == (["judge"], note, False)
    prompts = [{"text_id": name, "role": "prompt", "text": f"A {name}."} for name in ("dog", "cat", "bird")]
    write_table(tables / "prompts", "texts", prompts)
    for limit, texts in ((2, "2 texts"), (9, "3 texts")):
        begun.of("questions", f"texts={tables}/prompts", "model=local-text-tiny", f"limit={limit}")
        assert begun.keys["note"] == f"asks local-text-tiny in three steps about {texts} of role prompt"


def test_items_name_the_condition_of_what_a_model_writes_about_them(tables: Path, begun: Begun) -> None:
    item = {"item_id": "i", "image_ids": IMAGES[:1], "text_ids": ["t1", "t2"], "targets": ["Peru"]}
    write_units(tables / "named", "items", [[item]], condition="drawn")
    inputs = [f"input={tables}/named", f"images={tables}/images", f"texts={tables}/texts", "model=local-tiny"]
    for job, keys in (("generate", []), ("loglik", []), ("mark_spans", []), ("judge", ["rubric=century_labels"])):
        assert begun.of(job, *inputs, *keys).identity["condition"] == "drawn", job


def test_a_plan_names_each_model_and_the_memory_that_it_needs(tables: Path, begun: Begun) -> None:
    inputs = [f"input={tables}/items", f"images={tables}/images", f"texts={tables}/texts", "model=local-tiny"]
    jobs = {
        "generate": inputs,
        "loglik": inputs,
        "mark_spans": inputs,
        "judge": [*inputs, "rubric=cultural_relevance"],
        "questions": [f"texts={tables}/texts", "role=generated", "model=local-text-tiny"],
        "generate_images": [f"input={tables}/texts", "image_models=[local:sd3-tiny@a,local:sd3-tiny@b]"],
    }
    for job, keys in jobs.items():
        begun.of(job, *keys, "plan=true")
        kinds = [line.split()[0] for line in begun.keys["lines"]]
        asks = job in ("generate", "loglik", "judge")  # with a context, whose columns are named
        assert kinds == ["model", "memory"] * (2 if job == "generate_images" else 1) + ["prompt"] * asks, job
    names = [line.split()[1] for line in begun.keys["lines"] if line.startswith("model")]
    assert names == ["a", "b"]
    assert begun.values("note", "pools") == ("draws 2 pictures with a, b", ["judge"])


def test_fetched_pictures_are_identified_by_source_input_and_width(tables: Path, begun: Begun) -> None:
    (tables / "shards").mkdir()
    with tarfile.open(tables / "shards" / "a.tar", "w"):
        pass
    keys = [f"source.path={tables}/shards", "source.max_bytes=5", "width=8", f"exclusions={tables}/list.txt"]
    plan = begun.of("fetch", "source=webdataset", *keys)
    columns = {"bytes_column": None, "key_column": None}
    source = {"name": "webdataset", "max_bytes": 5, "path": f"{tables}/shards", **columns}
    assert plan.identity == {"source": source, "input": None, "width": 8, **excluded(tables)}
    assert (plan.table, plan.metadata, plan.derived, len(plan.units)) == ("images", {}, False, 1)
    assert begun.values("pools", "note", "streamed", "get_bytes") == (["fetch"], "1 file", False, read_ahead.BLOCK)
    write_table(tables / "records", "records", [record("a")])
    keys = [f"input={tables}/records", "source.contact=ada@uni-somewhere.edu"]
    plan = begun.of("fetch", "source=urls", *keys)
    assert (plan.identity["input"], plan.derived) == (of(tables / "records"), True)
    assert begun.values("streamed", "get_bytes") == (False, None)


def test_parts_of_a_knowledge_base_are_identified_by_its_keys_and_pictures_by_exclusions(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: dict[str, tuple[Any, dict[str, Any]]] = {}
    monkeypatch.setattr(kb, "prospect", lambda job, cfg, plan, *, part, **keys: planned.update({part: (plan, keys)}))
    monkeypatch.setattr(kb, "describe_all", lambda prospects: Plan([]))
    pq.write_table(pa.table({"node": ["a", "b", "c"], "lemmas": ["x", "y", "z"]}), tables / "kb.parquet")
    keys = [f"knowledge_base.path={tables}/kb.parquet", "knowledge_base.windows=2", f"exclusions={tables}/list.txt"]
    for limit, units in ((None, 3), (2, 1)):
        more = ["unit_rows=1", f"limit={limit or 'null'}", "plan=true", "out=/R"]
        cfg = config.load("kb", kb.KbConfig, [*keys, *more])
        assert kb.execute(cfg) == Plan([])
        source = {name: value for name, value in asdict(cfg.knowledge_base).items() if name != "path"}
        assert (list(planned), source["windows"]) == (list(PARTS), 2)
        for part, (plan, of_prospect) in planned.items():
            of_pictures = excluded(tables) if part == "node_images" else {}
            assert plan.identity == {"part": part, "knowledge_base": source, **of_pictures, **(
                {"limit": limit} if limit else {}
            )}  # fmt: skip
            assert (plan.out, plan.table, len(plan.units)) == (f"/R/{part}", PARTS[part], units)
            assert (plan.limit and plan.limit.limit, plan.derived) == (limit, False)
            assert plan.metadata == {"knowledge_base": cfg.knowledge_base.name}
            assert of_prospect == {"pools": ["kb"], "streamed": False, "calibrates": False}


def test_likelihoods_are_identified_by_prompt_labels_and_settings(tables: Path, begun: Begun) -> None:
    keys = ["model=local-tiny", "condition=c", "lambdas=[0,1]", "thresholds=[-9]", f"exclusions={tables}/list.txt"]
    inputs = [f"input={tables}/items", f"images={tables}/images", f"texts={tables}/texts"]
    plan = begun.of("loglik", *inputs, *keys, "max_context_tokens=7", "empty_context=skip")
    cfg = begun.keys["cfg"]
    part = {"condition": "c", "max_context_tokens": 7, "empty_context": "skip", "targets": content_id()}
    assert plan.identity | part | excluded(tables) == plan.identity
    assert plan.identity["settings"] == [pair.name for pair in cfg.pairs]
    assert (plan.identity["model"], plan.identity["prompt"]["name"]) == (cfg.model.identity, cfg.prompt["name"])
    assert of(tables / "items") in plan.identity.values()
    kept = of_prompt(Instruction.from_dict(cfg.prompt), "relevance", cfg.prompt)
    assert (plan.table, plan.metadata) == ("ratings", {**kept.metadata, "rater": cfg.model.rater})
    assert plan.files == kept.files
    labels = f"{3} labels under {len(cfg.pairs)} settings"
    assert begun.values("pools", "note") == (["decode", "judge"], f"scores {labels}")
    _, _, _, (prepare, rate) = begun.shown
    assert prepare.kwargs["answer_tokens"] == len("Türkei".encode()) + 1
    assert (rate.kwargs["targets"], rate.kwargs["threads"]) == ([], cfg.resources.judge.threads)
    assert rate.kwargs["settings"].condition == "c"
    assert rate.kwargs["model"] == ModelSettings.part_of(cfg.model)
    begun.of("loglik", f"input={tables}/images", *keys, "targets=[Mali,Somalia]", "limit=2")
    assert begun.keys["note"].startswith(f"scores labels under {len(cfg.pairs)} settings of the first 2 images")
    _, _, _, (prepare, rate) = begun.shown
    assert (prepare.kwargs["answer_tokens"], rate.kwargs["targets"]) == (8, ["Mali", "Somalia"])
    assert rate.rows_out == 2 * len(cfg.pairs)


def test_marks_are_identified_by_prompts_labels_and_threshold(tables: Path, begun: Begun) -> None:
    keys = ["model=local-tiny", "condition=c", "max_tokens=5", "draw.n=2", f"exclusions={tables}/list.txt"]
    inputs = [f"input={tables}/items", f"images={tables}/images", f"texts={tables}/texts"]
    plan = begun.of("mark_spans", *inputs, *keys, "method=claims", "threshold=0.7")
    cfg = begun.keys["cfg"]
    part = {"method": "claims", "threshold": 0.7, "max_tokens": 5, "condition": "c"}
    assert plan.identity | part | excluded(tables) | cfg.draw.identity == plan.identity
    assert cfg.draw.identity
    assert {plan.identity[key]["name"] for key in ("prompts", "labels")} == {"docent"}
    assert (plan.table, plan.metadata) == ("spans", {"rater": cfg.model.rater, "method": "claims"})
    assert begun.keys["note"] == "asks local-tiny to mark 4 texts of 2 items (claims)"
    assert begun.keys["lines"][-1].startswith("drew 2 of 3")
    assert begun.marking["settings"].threshold == 0.7
    assert begun.marking["model"] == ModelSettings.part_of(cfg.model)
    direct = begun.of("mark_spans", *inputs, "model=local-tiny", "limit=1")
    assert "threshold" not in direct.identity
    assert begun.keys["note"] == "asks local-tiny to mark 2 texts of 1 items (direct)"
    hashes = [{of_method.identity[key]["hash"] for of_method in (plan, direct)} for key in ("prompts", "labels")]
    assert [len(values) for values in hashes] == [2, 1]


def test_ratings_by_an_encoder_are_identified_by_encoder_sentences_and_vectors(
    tables: Path, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = EncoderFacts(FACTS["encoder"], DIM, FACTS["preprocessing"])
    checked: list[str] = []
    monkeypatch.setattr(zero_shot, "encoder_facts", lambda _: facts)
    monkeypatch.setattr(zero_shot, "check_available", lambda embedder: checked.append(embedder.name))
    keys = ["embedder=local-tiny", "embedder.dtype=bfloat16", "condition=c", f"exclusions={tables}/list.txt"]
    inputs = [f"input={tables}/items", f"embeddings={tables}/vectors"]
    plan = begun.of("zero_shot", *inputs, *keys)
    sentences = read_sentences("cultural_relevance", None)
    part = {"encoder": "e@1", "preprocessing": "p", "dtype": "bfloat16", "condition": "c"}
    assert plan.identity | part | sentences.identity | excluded(tables) == plan.identity
    assert all(of(tables / name) in json.dumps(plan.identity) for name in ("items", "vectors"))
    assert (plan.table, plan.metadata) == ("ratings", {**sentences.kept.metadata, "rater": "e@1"})
    assert (plan.models, plan.files, plan.derived) == ({"local-tiny": "e@1"}, sentences.kept.files, True)
    assert begun.values("pools", "note") == (["embed"], "rates 3 pairs of items and label")
    begun.of("zero_shot", f"input={tables}/images", *keys, "targets=[Mali,Peru]")
    assert begun.values("pools", "note") == (["decode", "embed"], "rates 6 pairs of images and label")
    assert checked == ["local-tiny"] * 2
    begun.of("zero_shot", f"input={tables}/images", *keys, "targets=[Mali]", "limit=2", "plan=true")
    assert begun.keys["note"] == "rates the first 2 images against each of their labels"
    assert len(checked) == 2
    facts = EncoderFacts("other@1", DIM, FACTS["preprocessing"])
    for named in (inputs, [f"input={tables}/vectors", "targets=[Mali]"]):
        with pytest.raises(InputError, match=r"vectors and embedder=local-tiny cannot be compared"):
            begun.of("zero_shot", *named, *keys)
    facts = EncoderFacts("seen@1", DIM, FACTS["preprocessing"], texts=False)
    with pytest.raises(InputError, match=r"encodes pictures only, but zero_shot compares pictures with sentences"):
        begun.of("zero_shot", *inputs, *keys)


def test_responses_are_identified_by_prompt_samples_and_refusals(tables: Path, begun: Begun) -> None:
    keys = ["model=local-tiny", "samples=2", "condition=c", "draw.n=2", "max_tokens=9", f"exclusions={tables}/list.txt"]
    plan = begun.of("generate", f"input={tables}/images", "prompt=explicit", *keys)
    cfg = begun.keys["cfg"]
    part = {"samples": 2, "condition": "c", "max_tokens": 9, "questions": None}
    assert plan.identity | part | excluded(tables) | cfg.draw.identity == plan.identity
    assert plan.identity["refusals"] == content_id(json.dumps(cfg.refusals, sort_keys=True))
    assert (plan.identity["model"], plan.identity["prompt"]["name"]) == (cfg.model.identity, "explicit")
    assert (plan.table, plan.metadata) == ("responses", {"model": cfg.model.rater, "prompt": "explicit"})
    note = "writes 4 texts (2 items x 2) of at most 9 tokens"
    assert begun.values("pools", "note") == (["decode", "judge"], note)
    assert begun.keys["lines"][-1].startswith("drew 2 of 3")
    _, _, _, (prepare, write) = begun.shown
    assert (prepare.kwargs["answer_tokens"], prepare.kwargs["keeps_pictures"], write.rows_out) == (9, False, 2)
    assert (write.kwargs["prompt"], write.kwargs["threads"]) == ("explicit", cfg.resources.judge.threads)
    hashes = {write.kwargs["prompt_hash"]}
    for key in (
        "max_tokens=8", "max_context_tokens=7", "empty_context=skip", "prompt=minimal", "seed=5", "samples=3",
        "model.max_pixels=9000",
    ):  # fmt: skip
        begun.of("generate", f"input={tables}/images", "prompt=explicit", *keys, key)
        hashes.add(begun.shown[3][1].kwargs["prompt_hash"])
    assert len(hashes) == 7, "all but the number of samples change a text"


def test_an_engine_is_chosen_for_the_texts_and_prompts_of_a_run(
    tables: Path, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def choose(_: Any, sample: Any, **keys: Any) -> ChosenEngine:
        asked.update(keys, prepare=sample(vllm_engine.NAME)[1]["prepare"])
        return ChosenEngine(vllm_engine.NAME, {"engine.json": b"{}"})

    monkeypatch.setattr(engine_choice, "choose", choose)
    monkeypatch.setattr(vllm_engine, "identity", lambda engine: {"engine": engine})
    keys = ["model=local-tiny", "samples=3", "max_tokens=9", "draw.n=2", f"exclusions={tables}/list.txt"]
    plan = begun.of("generate", f"input={tables}/images", "prompt=explicit", *keys)
    assert (asked["answers"], asked["prepare"]["answer_tokens"], len(asked["excluded"])) == (6, 9, 1)
    assert [unit.rows for unit in asked["units"]] == [2]
    assert (plan.identity["engine"], plan.files) == ("vllm", {"engine.json": b"{}"})
    prepare, write = begun.shown[3]
    assert (prepare.kwargs["keeps_pictures"], write.batches) == (True, vllm_engine.BATCHES_PER_CALL)


def test_answers_about_missing_pictures_are_not_asked_for(tables: Path, begun: Begun) -> None:
    missing = [picture(n, status="missing" if n else "ok") for n in range(1100)]
    write_table(tables / "some", "images", missing)
    keys = ["model=local-tiny", "rubric=century_labels", f"exclusions={tables}/list.txt"]
    plan = begun.of("judge", f"input={tables}/images", *keys, "condition=c")
    assert plan.identity | excluded(tables) | {"condition": "c"} == plan.identity
    note = "asks local-tiny for 24 closed answers about 3 images"
    assert begun.values("pools", "note") == (["decode", "judge"], note)
    assert len(begun.shown[3]) == 2
    begun.of("judge", f"input={tables}/some", *keys)
    note = "asks local-tiny for 8,800 closed answers about 1,100 images"
    assert begun.keys["note"] == f"{note}, of which 1,099 are missing and are not asked about"
    write_table(tables / "gone", "images", missing[1:3])
    begun.of("judge", f"input={tables}/gone", *keys)
    assert begun.keys["note"].endswith(" about 2 images, of which 2 are missing and are not asked about")
    write_file(tables / "foreign", "images", missing[:2])  # its statuses are not counted
    begun.of("judge", f"input={tables}/foreign", *keys)
    assert begun.keys["note"].endswith(" about 2 images")
    begun.of("judge", f"input={tables}/some", *keys, "limit=1000")
    assert begun.keys["note"] == "asks local-tiny for closed answers about the first 1,000 images"
