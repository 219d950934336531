"""Keys that `run` passes to its steps, without running them."""

import re
import shlex
from typing import Any

import pytest

from actors.local_models import resolve
from jobs import run
from jobs.errors import InputError, NotAnsweredError
from jobs.run import RunConfig
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config, config_files
from jobs.runtime.configuration.resources import RayConfig
from jobs.runtime.outcomes import show
from jobs.runtime.pipeline import pipeline_plan
from jobs.runtime.pipeline.pipelines import PipelineConfig, ProfileConfig, Step

CENTURY = ("mine", "curate", "fetch", "curate", "fetch", "embed", "judge", "curate", "report")
INPUTS = [f"pipeline.inputs.{name}=x" for name in ("corpus", "terms", "pictures")]


def steps(monkeypatch: pytest.MonkeyPatch, *overrides: str) -> dict[str, Any]:
    """Return the configuration that each step's job was started with; not of jobs that only print their plan."""
    seen: dict[str, Any] = {}

    execute = cli.job("run").execute
    monkeypatch.setattr(pipeline_plan, "problems", lambda *_: iter(()))  # the inputs do not exist
    monkeypatch.setattr(cli, "execute_loaded", lambda name, cfg, _: seen.__setitem__(name, cfg))
    show(execute(config.load("run", RunConfig, ["pipeline=century", "out=/r", *INPUTS, *overrides])))
    return {name: cfg for name, cfg in seen.items() if not getattr(cfg, "plan", False)}


def commands(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the printed commands, without the amounts of each step."""
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("remine ")]


def test_resources_chosen_for_the_run_reach_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = steps(monkeypatch, "profile=debug", "resources=gpu-node", "resources.judge.batch_size=3")
    assert seen["embed"].resources.embed.num_gpus == 1.0
    assert seen["judge"].resources.judge.batch_size == 3
    assert seen["mine"].resources.mine.actors == 6


def test_all_resources_of_each_file_reach_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in config_files.options("resources", None):
        chosen = config.load("run", RunConfig, ["pipeline=century", "out=/r", *INPUTS, f"resources={name}"]).resources
        for job, cfg in steps(monkeypatch, f"resources={name}").items():
            assert getattr(cfg, "resources", chosen) == chosen, (name, job)


def test_keys_of_a_step_come_before_those_of_the_run() -> None:
    def overrides(job: str, step: dict[str, Any], **keys: Any) -> dict[str, str]:
        listed = run._overrides(RunConfig(out="/r", **keys), Step(job, step))
        return {key: value.strip("'") for key, value in (entry.split("=", 1) for entry in listed)}

    usual = overrides("embed", {"input": "i"})
    assert usual.items() >= {"resume": "true", "overwrite": "false", "timings": "false", "input": "i"}.items()
    assert (usual["resources.embed.threads"], "exclusions" in usual) == ("null", False)
    single = overrides("embed", {"resources.embed.threads": 1}, timings=True, exclusions="gone.txt")
    assert (single["resources.embed.threads"], single["timings"], single["exclusions"]) == ("1", "true", "gone.txt")
    assert single["resources.embed.num_cpus"] == usual["resources.embed.num_cpus"]
    named = overrides("embed", {"resources": "gpu-node", "exclusions": "own.txt"}, exclusions="gone.txt")
    assert (named["resources"], named["exclusions"]) == ("gpu-node", "own.txt")
    assert not [key for key in named if key.startswith("resources.")]
    local = overrides("embed", {}, ray=RayConfig(address="local", num_cpus=3, verbose=True))
    assert [local[f"ray.{name}"] for name in ("address", "num_cpus", "verbose")] == ["local", "3", "true"]
    assert set(overrides("annotate", {"input": "i"})) == {"resume", "overwrite", "input"}  # has no other of these keys
    assert overrides("nothing", {"a": 1}) == {"a": "1"}


def test_steps_are_announced_and_timed_and_return_what_their_jobs_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = [Step("ls", {"inputs": ["R"]}), Step("ls", {"inputs": ["S"]}, each={"model": "m"})]
    cfg = RunConfig(out="/r", pipeline=PipelineConfig("p", steps=listed), profile=ProfileConfig("q"))
    monkeypatch.setattr(cli, "execute_loaded", lambda job, loaded, overrides: (job, loaded.inputs, overrides))
    results = run.execute(cfg)
    assert isinstance(results, list)
    assert [(result.job, result.label, result.returned) for result in results] == [
        ("ls", "ls", ("ls", ["R"], ["inputs=['R']"])), ("ls", "ls model=m", ("ls", ["S"], ["inputs=['S']"]))
    ]  # fmt: skip
    first, second, total, *times = capsys.readouterr().out.splitlines()
    assert (first, second, total) == ("[1/2] ls", "[2/2] ls model=m", "run: pipeline p, profile q")
    assert [re.sub(r" +\d+\.\d s$", "", line) for line in times] == ["  ls", "  ls model=m"]
    for job in ("run", "demo", "nothing"):
        refused = RunConfig(out="/r", pipeline=PipelineConfig("p", steps=[Step(job)]), profile=ProfileConfig("q"))
        with pytest.raises(InputError, match=rf"^pipeline: no such job {job}; must be one of annotate, .*"):
            run.execute(refused)
        of_profile = RunConfig(out="/r", pipeline=cfg.pipeline, profile=ProfileConfig("q", {job: {}}))
        with pytest.raises(InputError, match=f"^profile: no such job {job}; must be one of"):
            run.execute(of_profile)


def test_exclusions_of_the_run_reach_every_step_that_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {job for job, cfg in steps(monkeypatch, "exclusions=gone.txt").items() if cfg.exclusions == "gone.txt"}
    assert {"mine", "curate", "fetch", "embed", "judge", "report"} <= listed
    assert {job for job, cfg in steps(monkeypatch).items() if getattr(cfg, "exclusions", None)} == set()
    both = steps(monkeypatch, "exclusions=gone.txt", "pipeline.inputs.exclusions=page.txt")
    assert (both["report"].exclusions, both["fetch"].exclusions) == ("page.txt", "gone.txt")


def test_a_profile_changes_the_models_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    debug, full = steps(monkeypatch, "profile=debug"), steps(monkeypatch, "profile=full")
    assert (debug["embed"].embedder.name, full["embed"].embedder.name) == ("local-tiny", "siglip-i18n-base")
    assert (debug["judge"].model.name, full["judge"].model.name) == ("debug-qwen2.5-vl-7b", "qwen2.5-vl-7b")
    assert debug["judge"].model.checkpoint.startswith("local:")
    assert debug["curate"] == full["curate"]
    assert debug["judge"].input == full["judge"].input == "/r/images"
    assert (full["judge"].rubric["name"], full["judge"].layout) == ("century_labels", "paper")
    # pictures as wide as the paper's models saw them
    assert (full["fetch"].width, full["judge"].model.max_pixels) == (300, 1280 * 28 * 28)


def test_century_has_as_many_judges_as_its_input_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile=debug", "pipeline.inputs.judges=[qwen2.5-vl-7b,pangea-7b]", "plan=true"]
    assert steps(monkeypatch, *arguments) == {}
    lines = [shlex.split(line)[2:] for line in commands(capsys) if "remine judge " in line]
    judges = [config.load("judge", cli.job("judge").schema, keys) for keys in lines]
    names = ["qwen2.5-vl-7b", "pangea-7b"]
    assert [judge.model.name for judge in judges] == [f"debug-{name}" for name in names]
    assert [judge.out for judge in judges] == [f"/r/ratings/labels-{name}" for name in names]
    # different raters: two tables of one rater's answers to the same questions would be refused
    assert [judge.model.rater for judge in judges] == [f"local:qwen2.5-vl-tiny@{name}" for name in names]
    assert {resolve(judge.model.checkpoint) for judge in judges} == {resolve("local:qwen2.5-vl-tiny")}


def planned(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, Any]]:
    """Return the job and the configuration of each command of a printed plan."""
    split = [shlex.split(line)[1:] for line in commands(capsys)]
    jobs = [(command[0], command[1:]) for command in split]
    return [(job, config.load(job, cli.job(job).schema, keys)) for job, keys in jobs]


@pytest.mark.long
def test_century_with_descriptions_and_people_takes_every_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {
        "source": "urls",
        "contact": "me@example.org",
        "downsample_from": "knowledge_graph",
        "wikidata": "dump.json.bz2",
        "term_models": "[qwen2.5-7b-text]",
        "writers": "[qwen3-vl-8b,gemma-3-12b]",
        "joint": "[qwen2.5-vl-7b]",
        "raters": "raters.csv",
        "people_pictures": "200",
        "people_labels": "labels.json",
        "people_ratings": "ratings.json",
        "ensembles": "{both: [qwen*]}",
        "leave_out": "{century_contextualisation: [gemma*]}",
    }
    ratings = [f"pipeline.inputs.{name}={value}" for name, value in whole.items()]
    assert steps(monkeypatch, "plan=true", *ratings) == {}
    jobs = planned(capsys)
    by_job: dict[str, list[Any]] = {}
    for job, keys in jobs:
        by_job.setdefault(job, []).append(keys)
    assert [(c.width, c.verify_only) for c in by_job["fetch"]] == [(None, True), (300, False), (1024, False)]
    assert by_job["curate"][1].draw.n == 1500
    assert by_job["curate"][1].downsample_from == "knowledge_graph"
    assert [(keys.source.name, keys.out) for keys in by_job["terms"]] == [
        ("wikidata", "/r/graph"),
        ("language_model", "/r/model_terms"),
    ]
    assert by_job["mine"][0].terms.path == ["x", "/r/graph/terms", "/r/model_terms/terms"]
    rules = [(keys.page_rule.by, keys.page_rule.methods) for keys in by_job["curate"]]
    assert rules == [*[("page_title", ["knowledge_graph"])] * 2, ("page_url", [])]
    titles, *asked_of_pictures = by_job["generate"]
    assert (titles.prompt["name"], titles.samples) == ("page_titles", 50)
    written = [keys for keys in asked_of_pictures if not keys.rubric]
    assert [(keys.model.name, keys.prompt["name"]) for keys in written] == [
        (model, prompt)
        for model in ("qwen3-vl-8b", "gemma-3-12b")
        for prompt in ("explicit", "minimal", "explicit_context")
    ]
    # appendix P: 500 pictures, three samples at temperature 1 and top-p 1 of at most 1,024 tokens
    settings = {(k.draw.n, k.samples, k.temperature, k.top_p, k.max_tokens) for k in written}
    assert settings == {(500, 3, 1.0, 1.0, 1024)}
    asked = [(keys.prompt["name"], keys.rubric["name"]) for keys in by_job["generate"] if keys.rubric]
    assert asked == [("rubric_json", "century_labels"), ("rubric_json_response", "century_contextualisation")]
    assert {(k.temperature, k.samples) for k in by_job["generate"] if k.rubric} == {(0.0, 1)}
    assert [keys.rubric["name"] for keys in by_job["judge"]] == ["century_labels", "century_contextualisation"]
    assert [(keys.input, keys.per_item, keys.show_columns, keys.draw.n, keys.draw.complete)
            for keys in by_job["annotate"]] == [
        ("/r/images_1024", 3, [], 200, []),
        ("/r/described_for_people/items", 3, [], 63, ["model", "sample"]),
    ]  # fmt: skip
    assert [keys.assignments for keys in by_job["report"][:2]] == [
        [f"/r/tasks/{about}/assignments"] for about in ("labels", "descriptions")
    ]
    assert [keys.table for keys in by_job["import_ratings"]] == ["ratings", "ratings", "remarks"]
    assert [keys.metrics.leave_out for keys in by_job["report"][:2]] == [{"century_contextualisation": ["gemma*"]}] * 2
    assert [keys.metrics.ensembles for keys in by_job["report"][:2]] == [{"both": ["qwen*"]}] * 2
    outs = {keys.out for job, keys in jobs}
    assert len(outs) == len(jobs)


def test_every_step_of_tric_takes_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, Any]] = []

    execute = cli.job("run").execute
    monkeypatch.setattr(cli, "execute_loaded", lambda name, cfg, _: seen.append((name, cfg)))
    monkeypatch.setattr(pipeline_plan, "problems", lambda *_: iter(()))  # the inputs do not exist
    arguments = ["pipeline=tric", "profile=debug", "out=/r", "pipeline.inputs.split=/s", "pipeline.inputs.dates=[year]"]
    execute(config.load("run", RunConfig, arguments))
    ranks = ["embed", "embed", "embed", "embed", "tric rank", "tric rank"]
    reranks = ["tric items", "judge", "tric rerank"]
    assert [name for name, _ in seen] == ["fetch", "tric captions", *ranks, *reranks, "tric statistics", "report"]
    configs = [keys for _, keys in seen]
    fetch, captions, *vectors, baseline, winner, items, judge, rerank, statistics, report = configs
    assert (statistics.path, report.paper.name) == ("/s", "tric")
    assert report.computed == [statistics.out, "/r/ranked/*/metrics", f"{rerank.out}/metrics"]
    assert fetch.source.path == "/s/pictures"
    for encoder, rank in zip(("clip-b32", "eva02-e-plus"), (baseline, winner), strict=True):
        assert [rank.pictures, rank.vectors] == [step.out for step in vectors if step.out.endswith(f"/{encoder}")]
    assert {step.embedder.name for step in vectors} == {"local-tiny"}
    assert {captions.out, fetch.out} == {step.input for step in vectors}
    assert items.neighbors == rerank.neighbors == f"{winner.out}/neighbors"
    assert (items.dates, judge.input, judge.rubric["name"]) == ("year", items.out, "caption_match")


def test_what_is_missing_or_unknown_is_named() -> None:
    with pytest.raises(InputError, match=r"corpus=: required; remine run pipeline=century --help"):
        config.load("run", RunConfig, ["pipeline=century", "out=/r"])
    with pytest.raises(
        InputError,
        match=r"resources=nope: no such option; must be one of cluster, cluster-gpus-8, gpu-node, gpus-8, laptop",
    ):
        config.load("run", RunConfig, ["pipeline=century", "out=/r", *INPUTS, "resources=nope"])


def test_a_plan_has_the_keys_of_the_whole_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [*INPUTS, "plan=true", "overwrite=true"]
    assert steps(monkeypatch, *keys, "resources=gpu-node") == {}
    assert steps(monkeypatch, *keys, "resources.mine.actors=3") == {}
    printed_commands = commands(capsys)
    named, single = printed_commands[: len(CENTURY)], printed_commands[len(CENTURY) :]
    assert named[0].endswith(" overwrite=true resources=gpu-node")
    assert single[0].endswith(" overwrite=true resources.mine.actors=3")
    assert named[1].startswith("remine curate ")
    assert named[1].endswith(" overwrite=true resources=gpu-node")
    for line in (*named, *single):
        job = line.split()[1]
        config.load(job, cli.job(job).schema, shlex.split(line)[2:])


def test_a_plan_prints_the_steps_as_commands_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["profile=debug", "pipeline.inputs.terms=my terms.csv", "pipeline.inputs.corpus=wit/*.gz", "plan=true"]
    assert steps(monkeypatch, *keys) == {}
    printed_commands = commands(capsys)
    first = "remine mine corpus=wit 'corpus.path=wit/*.gz' 'terms.path=[my terms.csv]' out=/r/matches"
    assert printed_commands[0] == first
    assert printed_commands[5] == "remine embed input=/r/images out=/r/embeddings embedder=local-tiny"
    assert tuple(line.split()[1] for line in printed_commands) == CENTURY
    mine = shlex.split(printed_commands[0])[2:]
    assert config.load("mine", cli.job("mine").schema, mine).terms.path == ["my terms.csv"]
    report = shlex.split(printed_commands[-1])[2:]
    assert config.load("report", cli.job("report").schema, report).ratings == ["/r/ratings/labels*"]


def test_inputs_of_a_pipeline_are_keys_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Each in the three forms of a key, and a value or file with the name of an input stays what it is."""
    forms = [
        ["pipeline=study", "set=by", "photos=p", "rubric=mood.yaml", "models=[a,b]", "people=2", "per_item=1"],
        ["--pipeline", "study", "--set", "by", "--photos=p", "rubric=mood.yaml", "--models", "a", "b", "--people", "2",
         "--per-item", "1"],
        ["pipeline=study", "pipeline.inputs.set=by", "photos=p", "rubric=mood.yaml", "models=a", "models=b", "people=2",
         "per_item=1"],
    ]  # fmt: skip
    for words in forms:
        overrides = cli.to_overrides("run", RunConfig, [*words, "out=R"])
        inputs = config.load("run", RunConfig, overrides).pipeline.inputs
        assert (inputs["set"], inputs["photos"], inputs["models"], inputs["people"], inputs["per_item"]) == (
            "by", "p", ["a", "b"], 2, 1
        )  # fmt: skip
    # limit is a key of run, not an input; century has no input `set`
    assert cli.to_overrides("run", RunConfig, ["pipeline=study", "limit=3"]) == ["pipeline=study", "limit=3"]
    assert cli.to_overrides("run", RunConfig, ["pipeline=century", "set=x"]) == ["pipeline=century", "set=x"]
    cases = {"photo=x": "did you mean photos?", "rubic=x": "did you mean rubric?", "model=x": "did you mean models?"}
    for word, hint in cases.items():
        assert cli.main("run", ["pipeline=study", "out=R", word]) == 2
        assert hint in capsys.readouterr().err
    assert cli.main("run", ["pipeline=study", "--help"]) == 0
    assert "  set: ??? # CSV" in capsys.readouterr().out
    assert cli.main("run", ["pipeline=stdy", "--help"]) == 2
    assert "did you mean study?" in capsys.readouterr().err


def test_a_step_that_waits_for_people_does_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_step(job: str, loaded: Any, overrides: Any) -> str:
        if loaded.inputs == ["R"]:
            raise NotAnsweredError("has no answer yet")
        return job

    monkeypatch.setattr(cli, "execute_loaded", run_step)
    for waits in (True, False):
        listed = [Step("ls", {"inputs": ["R"]}, waits=waits), Step("ls", {"inputs": ["S"]})]
        cfg = RunConfig(out="/r", pipeline=PipelineConfig("p", steps=listed), profile=ProfileConfig("q"))
        if waits:
            results = run.execute(cfg)
            assert isinstance(results, list)
            assert [result.returned for result in results] == [None, "ls"]
            assert "ls: waits for people: has no answer yet" in capsys.readouterr().out
        else:
            with pytest.raises(NotAnsweredError):
                run.execute(cfg)
