"""Steps of a pipeline that are repeated over lists."""

import shlex
from pathlib import Path

import pytest

from jobs.run import RunConfig
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.pipeline import pipelines
from jobs.runtime.pipeline.pipelines import Step
from tests.cases import check_cases
from tests.factories import rows_of

STEP = """
name: own
inputs: {{things: [bread, rice], places: [Peru]}}
steps:
  - job: prompts
    for_each: {for_each}
    set:
      template: "a {{thing}} in {{place}}"
      axes.thing: ["${{each.thing}}"]
      axes.place: ["${{each.place}}"]
      {out}
"""
LISTS = '{thing: "${pipeline.inputs.things}", place: "${pipeline.inputs.places}"}'
OUT = 'out: "${out}/${each.thing}-${each.place}"'


def given(folder: Path, *overrides: str, for_each: str = LISTS, out: str = OUT, file: str | None = None) -> list[str]:
    """Return the overrides of a run of a pipeline of the user's own, whose file is written below `folder`."""
    (folder / "own.yaml").write_text(file or STEP.format(for_each=for_each, out=out), encoding="utf-8")
    return [f"pipeline={folder}/own.yaml", f"out={folder}/R", *overrides]


def loaded(folder: Path, *overrides: str, file: str | None = None) -> RunConfig:
    loaded: RunConfig = config.load("run", RunConfig, given(folder, *overrides, file=file))
    return loaded


def test_all_combinations_run_and_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = given(tmp_path, "pipeline.inputs.places=[Peru,Chad]")
    assert cli.main("run", keys) == 0
    tables = sorted(path.name for path in (tmp_path / "R").iterdir())
    assert tables == ["bread-Chad", "bread-Peru", "rice-Chad", "rice-Peru"]
    assert [row["text"] for row in rows_of(f"{tmp_path}/R/rice-Chad")] == ["a rice in Chad"]
    assert "[2/4] prompts thing=bread place=Chad" in capsys.readouterr().out
    assert cli.main("run", keys) == 0
    assert [len(rows_of(f"{tmp_path}/R/{table}")) for table in tables] == [1, 1, 1, 1]


STUDY = ["pipeline=study", "set=set.csv", "photos=photos", "rubric=mood.yaml", "out=R"]
RUBRIC = "name: mood\nquestions: [{name: shown, text: Sad?, answers: [yes, no]}]\n"


def test_wrong_values_are_noticed_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REMINE_RATER_KEY", raising=False)
    (tmp_path / "photos").mkdir()
    Path("set.csv").write_text("file,region\na.png,Asia\n", encoding="utf-8")
    Path("mood.yaml").write_text(RUBRIC, encoding="utf-8")
    Path("short").write_text("x", encoding="utf-8")
    asked = ["--models", "local-tiny"]

    def refusal(*keys: str) -> str:
        printed: list[str] = []
        monkeypatch.setattr(cli, "say", lambda text, err=False: printed.append(text))
        assert cli.main("run", [*STUDY, *keys]) == 2, keys
        assert not Path("R").exists(), keys
        return printed[-1].removeprefix("error: ")

    cases = {
        ("by=nosuch", *asked): "by=nosuch: no item has this attribute; must be one of region, target",
        ("by=Region", *asked): "by=Region: no item has this attribute (did you mean region?)",
        ("by=file", *asked): "by=file: no item has this attribute",
        ("people=two",): "people=two: must be a number of people",
        ("people=0",): "people=0: a number of people is from 1 to",
        ("people=3", "per_item=5"): "per_item=5: each item needs 5 different raters; there are 3; use 1 to 3",
        ("photos=foto", *asked): "photos=foto: does not exist",
        ("set=sett.csv", *asked): "set=sett.csv: does not exist; did you mean",
        ("licence=cc-by-4.0", "people=3", *asked): "key_file: people's names are replaced by pseudonyms",
        ("licence=cc-by-4.0", "key_file=key.txt", *asked): "key_file=key.txt: does not exist",
        ("licence=cc-by-4.0", "key_file=short", *asked): "key_file=short: the key has 1 bytes",
    }
    assert {keys: refusal(*keys)[: len(start)] for keys, start in cases.items()} == cases


def test_a_plan_has_what_a_run_would_be_refused_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mood.yaml").write_text(RUBRIC, encoding="utf-8")
    assert cli.main("run", [*STUDY, "--models", "local-tiny", "plan=true"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: set=set.csv: does not exist")
    assert "judge model=local-tiny: not planned: reads what step 1, 2 has not written yet" in printed.out
    Path("set.csv").write_text("file\na.png\n", encoding="utf-8")
    Path("photos").mkdir(exist_ok=True)
    Path("photos/a.png").touch()
    assert cli.main("run", [*STUDY, "--models", "local-tiny", "by=b", "people=two", "plan=true"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: people=two: must be a number of people")
    assert "the run would also be refused: by=b: no item has this attribute" in printed.out
    Path("R/set/items").mkdir(parents=True)
    Path("R/set/items/thesis.txt").write_text("mine", encoding="utf-8")
    assert cli.main("run", [*STUDY, "--models", "local-tiny", "plan=true"]) == 2
    assert "R/set/items: not empty, and not a table that remine wrote" in capsys.readouterr().err


def test_a_plan_has_a_command_for_each_combination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main("run", given(tmp_path, "plan=true")) == 0
    printed = capsys.readouterr().out.splitlines()
    commands = [shlex.split(line) for line in printed if line.startswith("remine ")]
    assert [command[:2] for command in commands] == [["remine", "prompts"]] * 2
    assert [command[-1] for command in commands] == [f"out={tmp_path}/R/{thing}-Peru" for thing in ("bread", "rice")]
    assert not (tmp_path / "R").exists()


def test_values_keep_their_types_and_may_be_mappings(tmp_path: Path) -> None:
    file = """
        name: own
        steps:
          - job: judge
            for_each: {run: [{seed: 1, layout: fast}, {seed: 2, layout: null}]}
            set: {seed: "${each.run.seed}", layout: "${each.run.layout}", out: "${out}/seed-${each.run.seed}"}
          - job: report
            set: {out: "${out}/report"}
    """
    steps = loaded(tmp_path, file=file).pipeline.steps
    assert [step.set.get("seed") for step in steps] == [1, 2, None]
    assert [step.set.get("layout", "absent") for step in steps] == ["fast", None, "absent"]
    assert [step.set["out"] for step in steps] == [f"{tmp_path}/R/{name}" for name in ("seed-1", "seed-2", "report")]


def test_a_mapping_sets_the_keys_below_its_key(tmp_path: Path) -> None:
    file = """
        name: own
        steps:
          - job: items
            for_each: {context: [{note: caption}, {note: caption, article: text}]}
            set: {input: i.csv, columns.texts: "${each.context}", out: "${out}/${each.context.note}"}
    """
    assert [step.set for step in loaded(tmp_path, file=file).pipeline.steps] == [
        {"input": "i.csv", "columns.texts.note": "caption", "out": f"{tmp_path}/R/caption"},
        {
            "input": "i.csv",
            "columns.texts.note": "caption",
            "columns.texts.article": "text",
            "out": f"{tmp_path}/R/caption",
        },
    ]


def test_a_profiles_keys_apply_to_each_repetition_and_may_use_its_values(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(
        'name: small\nset: {prompts: {language: de, axes.place: ["small ${each.place}"]}}\n', encoding="utf-8"
    )
    steps = loaded(tmp_path, f"profile={tmp_path}/small.yaml").pipeline.steps
    assert [step.set["language"] for step in steps] == ["de", "de"]
    assert {tuple(step.set["axes.place"]) for step in steps} == {("small Peru",)}


def test_what_cannot_be_repeated_is_refused_before_the_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [
        ({}, ["pipeline.inputs.things=[]"], "for_each.thing=[]"),
        ({}, ["pipeline.inputs.things={a: bread}"], "for_each.thing={'a': 'bread'}: expected a list"),
        ({}, ["pipeline.inputs.things=[bread,bread]"], "written by step 1 (prompts thing=bread place=Peru) and step 2"),
        ({"out": 'out: "${out}/${each.place}"'}, [], "written by step 1"),
        ({"out": 'out: "${out}/${each.nothing}"'}, [], "variables of the step: ${each.thing}, ${each.place}"),
        ({"for_each": "{}"}, [], "variables of the step: none"),
        ({"for_each": '{thing: "${pipeline.inputs.no}", place: [a]}'}, [], "pipeline.inputs.no"),
        ({}, ["profile={folder}/small.yaml"], "small.yaml: no such job promts; must be one of annotate, "),
    ]
    (tmp_path / "small.yaml").write_text("name: small\nset: {promts: {language: de}}\n", encoding="utf-8")

    def check(changed: dict[str, str], overrides: list[str], message: str) -> None:
        keys = [override.replace("{folder}", str(tmp_path)) for override in overrides]
        assert cli.main("run", given(tmp_path, *keys, **changed)) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "R").exists()

    check_cases(check, cases)


def test_lists_of_what_is_present(tmp_path: Path) -> None:
    file = """
        name: own
        inputs: {terms: [a, b], dump: null, models: []}
        steps:
          - job: mine
            set:
              terms.path: >-
                ${present:${pipeline.inputs.terms},${if:${pipeline.inputs.dump},graph},${if:${pipeline.inputs.models},m}}
    """

    def paths(*overrides: str) -> object:
        return loaded(tmp_path, *overrides, file=file).pipeline.steps[0].set["terms.path"]

    assert paths() == ["a", "b"]
    assert paths("pipeline.inputs.dump=x.json", "pipeline.inputs.terms=c.csv") == ["c.csv", "graph"]
    assert paths("pipeline.inputs.models=[x]", "pipeline.inputs.terms=null") == ["m"]


OPTIONAL = """
name: own
inputs: {source: urls, people: null, models: [a], path: /x/mine.yaml}
choices: {source: [urls, folder]}
needs: {path: {source: urls, people: null}}
steps:
  - {job: prompts, set: {out: "${out}/all"}}
  - {job: prompts, when: {source: urls}, set: {out: "${out}/urls"}}
  - {job: prompts, when: {source: folder}, set: {out: "${out}/folder"}}
  - {job: prompts, when: {people: "*"}, set: {out: "${out}/people"}}
  - {job: prompts, when: {people: null}, set: {out: "${out}/nobody"}}
  - job: prompts
    when: {models: "*", source: "[uf]*"}
    for_each: {model: "${pipeline.inputs.models}"}
    set: {out: "${out}/${stem:${each.model}}-${stem:${pipeline.inputs.path}}"}
"""


def test_a_step_runs_when_the_inputs_have_its_values(tmp_path: Path) -> None:
    cases = [
        ([], ["all", "urls", "nobody", "a-mine"]),
        (["pipeline.inputs.source=folder"], ["all", "folder", "nobody", "a-mine"]),
        (["pipeline.inputs.models=[]"], ["all", "urls", "nobody"]),
        (["models=b"], ["all", "urls", "nobody", "b-mine"]),  # an input as a key of `run`, and a list of one
        (["pipeline.inputs.people=p.csv"], ["all", "urls", "people", "a-mine"]),
        (["pipeline.inputs.models=[qwen2.5-vl,/y/b.yaml]"], ["all", "urls", "nobody", "qwen2.5-vl-mine", "b-mine"]),
    ]

    def check(overrides: list[str], outs: list[str]) -> None:
        steps = loaded(tmp_path, *overrides, file=OPTIONAL).pipeline.steps
        assert [step.set["out"] for step in steps] == [f"{tmp_path}/R/{name}" for name in outs]

    check_cases(check, cases)


def test_steps_that_write_no_table_may_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = """
        name: own
        steps:
          - {job: prompts, set: {out: "${out}/p"}}
          - {job: verify, set: {input: "${out}/p"}}
          - {job: verify, set: {input: "${out}/p"}}
    """
    assert cli.main("run", given(tmp_path, file=file)) == 0
    assert capsys.readouterr().out.count("no faults") == 2


@pytest.mark.parametrize("job", ["promts", "run", "demo"])
def test_steps_are_jobs_other_than_those_that_run_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    file = f"name: own\nsteps: [{{job: {job}, set: {{out: x}}}}]\n"
    for key in ("plan=true", "limit=3"):
        assert cli.main("run", given(tmp_path, key, file=file)) == 2
        assert f"no such job {job}; must be one of annotate, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "overrides", "message"),
    [
        (OPTIONAL, ["pipeline.inputs.source=web"], "error: source=web: must be one of urls, folder"),
        (OPTIONAL, ["pipeline.inputs.path=null"], "error: path: required with source=urls and without people"),
        (
            OPTIONAL.replace("when: {people:", "when: {persons:"),
            [],
            "when.persons: the pipeline has no such input; it has source,",
        ),
    ],
)
def test_conditions_and_choices_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, overrides: list[str], message: str
) -> None:
    assert cli.main("run", given(tmp_path, *overrides, file=file)) == 2
    assert message in capsys.readouterr().err


def test_a_limit_is_for_the_steps_that_read_the_inputs() -> None:
    steps = [
        Step("fetch", {"source.path": "pictures", "out": "R/images"}),
        Step("items", {"input": "set.csv", "out": "R/set"}),
        Step("items", {"responses": ["R/set/items"], "out": "R/described"}),
        Step("report", {"ratings": ["R/ratings/*"], "out": "R/report"}),
    ]
    assert pipelines.first_steps(steps, {"fetch", "items"}) == [steps[1]]
    assert pipelines.first_steps(steps[:1], {"fetch", "items"}) == steps[:1]


def test_a_limit_of_a_run_is_a_key_of_its_first_steps(capsys: pytest.CaptureFixture[str]) -> None:
    inputs = [f"pipeline.inputs.{name}={name}" for name in ("corpus", "terms", "pictures")]
    assert cli.main("run", ["pipeline=century", "out=R", "limit=10", "plan=true", *inputs]) == 2  # none of them exists
    limited = [
        line.split()[1]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("remine ") and "limit=10" in line
    ]
    assert limited == ["mine"]


def test_the_table_that_a_step_writes_is_not_one_that_it_reads() -> None:
    """The path of the second table begins with that of the first."""
    steps = [Step("mine", {"out": "R/records"}), Step("items", {"corpus": "c", "out": "R/records2"})]
    assert pipelines.first_steps(steps, {"mine", "items"}) == steps


def test_a_list_of_models_in_a_profile_replaces_the_model_of_a_step(tmp_path: Path) -> None:
    file = """
        name: own
        steps:
          - job: generate_images
            for_each: {image_model: [sd3-medium, sdxl-base]}
            set: {image_model: "${each.image_model}", image_model.dtype: float32, out: "${out}/${each.image_model}"}
    """
    debug, full = (loaded(tmp_path, f"profile={name}", file=file).pipeline.steps for name in ("debug", "full"))
    assert [step.set["image_model"] for step in full] == ["sd3-medium", "sdxl-base"]
    assert [step.set["image_models"] for step in debug] == [
        [f"local:sd3-tiny@{n}"] for n in ("sd3-medium", "sdxl-base")
    ]
    assert not any(key.startswith("image_model.") or key == "image_model" for step in debug for key in step.set)
