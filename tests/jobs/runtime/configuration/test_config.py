"""Values on the command line reach the dataclass unchanged, or are refused with their key and what is allowed."""

import functools
import itertools
import re
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_origin

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import ROOT
from jobs.curate import CurateConfig
from jobs.errors import InputError
from jobs.mine import MineConfig
from jobs.report import ReportConfig
from jobs.retrieve import RetrieveConfig
from jobs.runtime.command_line import cli, job_names
from jobs.runtime.configuration import config, config_files
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.key_types import groups, nested_dataclass, type_of
from jobs.verify import VerifyConfig
from tests.cases import check_cases

FILES = sorted(CONF.rglob("*.yaml"))


def required(job: str) -> tuple[str, ...]:
    """Return the keys that `job` requires, each with a value."""
    return completed(job)[0]


@functools.cache
def completed(job: str, *overrides: str) -> tuple[tuple[str, ...], Any]:
    """Return the keys that `job` requires in addition to `overrides`, and the configuration with both."""
    arguments: tuple[str, ...] = ()
    for _ in range(10):
        try:
            loaded = config.load(job, cli.job(job).schema, [*overrides, *arguments])
        except InputError as error:
            missing = re.search(r"^(.*=): required; ", str(error)) or re.search(
                r"^(?:run: )?(\w+): required with", str(error)
            )
            if missing is None:
                raise
            keys = [f"{key.rstrip('=')}=" for key in missing[1].replace(",", "").split()]
            lists = {key for key in keys if get_origin(type_of(cli.job(job).schema, key.rstrip("="))) is list}
            arguments += tuple(f"{key}[x]" if key in lists else f"{key}x" for key in keys)
        else:
            return arguments, loaded
    raise AssertionError(f"{job}: {arguments} are not enough")


def mine(*overrides: str) -> MineConfig:
    loaded = config.load("mine", MineConfig, ["corpus.path=c", "terms.path=t", "out=o", *overrides])
    assert isinstance(loaded, MineConfig)
    return loaded


def refused(*overrides: str) -> str:
    with pytest.raises(InputError) as raised:
        mine(*overrides)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_unknown_keys_are_named_with_what_is_allowed() -> None:
    rejected = refused("nokey=1")
    assert rejected.startswith("mine: nokey=1: no such key; allowed: budget, corpus, ")
    assert "terms" in rejected
    assert refused("corpus.nokey=1") == "mine: corpus.nokey=1: no such key; allowed in corpus: language, name, path"
    assert "allowed in corpus.path: no further keys" in refused("corpus.path.deeper=1")
    assert refused("--corpus.nokey=").startswith("mine: --corpus.nokey: no such key; allowed in corpus: ")


def test_a_near_miss_is_pointed_out() -> None:
    cases = [
        ("rersources", "resources"),
        ("ray.adress", "ray.address"),
        ("resources.mine.actrs", "resources.mine.actors"),
        ("corpus.langauge", "corpus.language"),
        ("term", "terms"),
        ("resume_", "resume"),
        ("lang", "corpus.language"),  # the last part of one key begins with it
        ("delete", "overwrite"),  # the explanation of one key begins with it
    ]

    def check(key: str, near: str) -> None:
        assert f"{key}=1: no such key (did you mean {near}?); allowed" in refused(f"{key}=1")

    check_cases(check, cases)


def test_a_key_like_no_other_is_answered_with_the_inputs_that_are_required() -> None:
    with pytest.raises(InputError, match=r"input=x: no such key \(required: queries=\); allowed: "):
        config.load("retrieve", RetrieveConfig, ["input=x"])


def test_signs_around_a_key_add_none() -> None:
    cases = ["+nokey=1", "++corpus.x=1", "group/key=x", "a b=1", "out@x=1"]

    def check(override: str) -> None:
        assert "no such key" in refused(override)

    check_cases(check, cases)


def test_what_is_not_key_equals_value_is_refused() -> None:
    def check(override: str) -> None:
        assert refused(override) == f"mine: {override!r} is not key=value"

    check_cases(check, ["~out", "~corpus", "out", "=x", "", "~out=o"])


def test_a_mistyped_value_is_refused_by_its_key() -> None:
    cases = [
        (
            "resources.mine.actors=many",
            "resources.mine.actors=many: must be a whole number",
        ),
        ("resources.mine.memory_gb=abc", "resources.mine.memory_gb=abc: must be a number"),
        ("resume=maybe", "resume=maybe: must be true or false"),
        ("ray=1", "ray=1: holds several keys (how ray is reached or started); set one of ray.address="),
        ("resources.mine=1", "resources.mine=1: holds several keys; set one of resources.mine.actors="),
        ("resources.node_types=[{cpus: 2}]", "cpus: no such key (did you mean num_cpus?); must be one of memory_gb"),
        ("retry=ok", "retry=ok: expected a list, as in retry=[a,b]"),
        ("corpus=null", "corpus=null: this key cannot be null"),
        ("resources.read.num_cpus=null", "resources.read.num_cpus=null: this key cannot be null"),
        ("resources.mine.memory_gb=nan", "resources.mine.memory_gb=nan: expected a number"),
        ("resources.judge.batch_size=0", "resources.judge.batch_size=0: must be at least 1"),
        ("resources.read.num_cpus=-1", "resources.read.num_cpus=-1: must be at least 0"),
        ("resources.mine.actors=1,2", "resources.mine.actors=1,2: must be a whole number"),
    ]

    def check(override: str, message: str) -> None:
        assert message.lower() in refused(override).lower()

    check_cases(check, cases)


def test_an_unknown_option_is_refused_with_the_options() -> None:
    options = "cluster, cluster-gpus-8, gpu-node, gpus-8, laptop, or your own .yaml file"
    assert refused("resources=tower") == f"mine: resources=tower: no such option; must be one of {options}"
    refusal = "no such option; must be one of wit, wit_base, or your own .yaml file"
    assert refused("corpus=laion") == f"mine: corpus=laion: {refusal}"
    assert refused("corpus=wit_bass") == f"mine: corpus=wit_bass: {refusal.replace(';', ' (did you mean wit_base?);')}"
    assert refused("corpus=wit,wit").startswith("mine: corpus=wit,wit: no such option")
    assert refused("corpus=npy") == ("mine: corpus=npy: has keys that mine does not have; must be one of wit, wit_base")


def test_a_file_of_the_users_is_an_option_like_those_of_conf(tmp_path: Path) -> None:
    own_answers = tmp_path / "my corpus, 1.yaml"
    own_answers.write_text("name: wit\npath: of/the/file\nlanguage: de\n")
    needed = ["terms.path=t", "out=o"]
    corpus = config.load("mine", MineConfig, [f"corpus={own_answers}", *needed]).corpus
    assert (corpus.path, corpus.language) == ("of/the/file", "de")
    assert (
        config.load("mine", MineConfig, [f"corpus='{own_answers}'", *needed, "corpus.language=fr"]).corpus.language
        == "fr"
    )
    own_answers.write_text("name: wit\npath: p\nlanguage: null\n")
    assert config.load("mine", MineConfig, [f"corpus={own_answers}", *needed]).corpus.language is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [\n", "own.yaml, line 2: not YAML (did not find expected node content)"),
        ("a:\n\tname: b\n", "indent with spaces, not tabs, and quote a value"),
        ("- a", "own.yaml: not a configuration; it must be a mapping of keys"),
        ("nmae: wit", "own.yaml: nmae: no such key (did you mean name?); must be one of language, name, path"),
        ("language: [1]", "own.yaml: language=[1]: must be text"),
        (None, "own.yaml: does not exist"),
    ],
)
def test_a_file_of_the_users_that_is_wrong_is_named(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "own.yaml").write_text(text)
    assert message in refused(f"corpus={tmp_path}/own.yaml")


def test_an_empty_value_is_not_read_as_null() -> None:
    assert refused("out=") == "mine: out=: empty value; the key is required"
    assert refused("exclusions=") == "mine: exclusions=: empty value; for no value, use exclusions=null"


def test_required_keys_that_are_not_given_are_all_named() -> None:
    with pytest.raises(InputError, match=r"^corpus\.path=, out=, terms\.path=: required"):
        config.load("mine", MineConfig, [])


PATHS = [
    "a,b.tsv",
    "a=b",
    "a b  c.tsv",
    " a ",
    "dir/*.tsv.gz",
    "s3://b/wit_{train,val}*.gz",
    "{a}",
    "{a:b}",
    "[1]",
    "[draft] x,y.csv",
    "it's",
    'a"b"',
    "a'b\\'c",
    "back\\slash",
    "back\\\\",
    "end\\",
    "a\\,b",
    "001",
    "1e3",
    "1_000",
    "1.50",
    "true",
    "nan",
    "$x",
    "f(x)",
    "choice(a,b)",
    "(x)",
    "a#b?c",
    "a;b",
    "~/x",
    "+x",
    "@x",
    "été/戦争",
    "a%20b",
]


def test_a_path_reaches_the_dataclass_unchanged() -> None:
    def check(path: str) -> None:
        assert config.load("verify", VerifyConfig, [f"input={path}"]).input == path

    check_cases(check, PATHS)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n$?"), min_size=1, max_size=12)


@settings(max_examples=20, deadline=None)
@given(TEXT.filter(lambda t: t[0] not in "'\""))
def test_any_text_reaches_the_dataclass_unchanged(text: str) -> None:
    assert config.load("verify", VerifyConfig, [f"input={text}"]).input == text


def test_quotes_null_lists_and_references() -> None:
    assert mine("out='a b'").out == "a b"
    assert mine('out="a, b"').out == "a, b"
    assert mine("corpus.language=null").corpus.language is None
    assert mine("retry=[ok,error]").retry == ["ok", "error"]
    assert mine("out=o2", "terms.path='${out}/terms'").terms.path == "o2/terms"
    assert mine("resources=cluster", "resources.mine.actors=3").resources.mine.actors == 3
    loaded = config.load("report", ReportConfig, ["out=o", "ratings=[R/été #1/*, s3://b/x y]"])
    assert loaded.ratings == ["R/été #1/*", "s3://b/x y"]


def test_values_inside_a_pipelines_own_keys_keep_their_commas() -> None:
    ratings = [key for key in required("run") if "corpus" not in key]
    loaded = config.load("run", cli.job("run").schema, [*ratings, "pipeline.inputs.corpus=s3://b/a,b é.gz"])
    assert loaded.pipeline.inputs["corpus"] == "s3://b/a,b é.gz"


def test_the_last_of_two_values_counts() -> None:
    assert mine("out=one", "out=two").out == "two"


def test_a_configuration_is_json_values() -> None:
    settings = asdict(mine("retry=[ok]"))
    assert settings["corpus"] == {"name": "wit", "path": "c", "language": "en"}
    assert settings["retry"] == ["ok"]
    assert settings["resources"]["mine"]["actors"] >= 1


def test_every_file_opens_with_the_command_that_runs_it() -> None:
    without_command = []
    for path in [*FILES, *(ROOT / "deploy").rglob("*.yaml")]:
        text = path.read_text("utf-8")
        lines = text.splitlines()
        end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
        command = {"kubernetes": "kubectl", "cluster": "python -m jobs.", "prometheus": "promtool"}.get(
            path.parent.name, "remine "
        )
        if command not in "\n".join(lines[:end]) or not list(yaml.safe_load_all(text)):
            without_command.append(path.relative_to(ROOT).as_posix())
    assert without_command == []


# (group, option) of files of groups, and of groups that are one file; the others are read by name.
OPTIONS = [
    (p.parent.relative_to(CONF).as_posix(), p.stem)
    for p in FILES
    if p.parent not in (CONF, *(CONF / name for name in ("measured", "prices", "study", "zero_shot_template")))
] + [(group, name) for group in ("embedder", "image_model", "model") for name in config_files.options(group, None)]


@functools.cache
def options_of(job: str, group: str) -> tuple[str, ...]:
    """Return the files of `group` that `job` can take."""
    schema = cli.job(job).schema
    if group not in groups(schema):
        return ()
    return config_files.options(group, nested_dataclass(type_of(schema, group)))


def jobs_options() -> dict[str, dict[str, list[str]]]:
    """Job -> group -> the options that this job is the first one to take."""
    options: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for group, option in OPTIONS:
        job = next(job for job in job_names.JOBS if option in options_of(job, group))
        options[job][group].append(option)
    return options


def faults_of(job: str, chosen: dict[str, str]) -> list[str]:
    """Return the faults of the configuration that `job` composes with the option `chosen` of each of some groups."""
    options = [f"{group}={option}" for group, option in chosen.items() if (group, option) != ("pipeline", "century")]
    if chosen.get("corpus") in ("npy", "clip_retrieval"):  # nothing in such files says what made them
        options.append("corpus.embedder.checkpoint=m")
    try:
        try:  # most options require what the default one requires
            loaded = config.load(job, cli.job(job).schema, [*options, *required(job)])
        except InputError:
            loaded = completed(job, *options)[1]
    except InputError as error:
        return [f"{job} {' '.join(options)}: {error}"]
    names = {}
    for group, option in chosen.items():
        settings = getattr(loaded, group)
        names[group] = settings.get("name", option) if isinstance(settings, dict) else getattr(settings, "name", option)
    return [f"{group}={chosen[group]}: {name}" for group, name in names.items() if name != chosen[group]]


@pytest.mark.long
def test_every_option_of_every_group_composes() -> None:
    """Each file once: those of different groups of a job together."""
    faults = []
    for job, chosen_of in jobs_options().items():
        for together in itertools.zip_longest(*chosen_of.values()):
            chosen = {group: option for group, option in zip(chosen_of, together, strict=True) if option}
            faults += faults_of(job, chosen)
    assert faults == []


def test_another_jobs_key_is_unknown_here() -> None:
    with pytest.raises(InputError, match=r"^curate: corpus\.path=x: no such key"):
        config.load("curate", CurateConfig, ["input=i", "out=o", "corpus.path=x"])


def test_jobs_that_start_no_ray_have_no_keys_of_it():
    keys = ["resources=laptop", "resources.mine.actors=2", "ray.num_cpus=2"]

    def check(job, key):
        with pytest.raises(InputError, match="no such key"):
            config.load(job, cli.job(job).schema, [key])

    check_cases(check, itertools.product(["annotate", "choose", "import_ratings"], keys))


def test_a_changed_file_of_the_user_is_read_again(tmp_path: Path) -> None:
    """A process that composes several configurations keeps the files of conf/, but not the user's."""
    file = tmp_path / "mine.yaml"
    sizes = []
    for size in (3, 5):
        file.write_text(f"mine:\n  batch_size: {size}\n")
        sizes.append(config.compose("mine", MineConfig, [f"resources={file}"])["resources"]["mine"]["batch_size"])
    assert sizes == [3, 5]


def test_the_keys_of_overrides() -> None:
    assert [config.key_of(one) for one in ("a.b=1", "++a=1", "--a=1", "a")] == ["a.b", "a", "a", "a"]


def test_a_dollar_and_brace_in_a_text_refer_only_to_what_exists() -> None:
    cases = [
        ("A … ${x}", "A … ${x}"), ("${x} b", "${x} b"), ("a ${", "a ${"), ("}${", "}${"),
        ("a ${nope:1}", "a ${nope:1}"),
        ("$5 {a} ${out}", "$5 {a} o"), ("${out}/${corpus.other}", "${out}/${corpus.other}"), ("${out}", "o"),
        ("a \\${x}", "a \\${x}"), ("${out}${", "${out}${"),
    ]  # fmt: skip

    def check(text: str, expected: str) -> None:
        assert mine(f"corpus.language={text}").corpus.language == expected

    check_cases(check, cases)


def test_a_reference_may_have_any_type_that_its_value_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTORS", "3")
    assert mine("resources.mine.actors=${oc.env:ACTORS}").resources.mine.actors == 3
    monkeypatch.setenv("ACTORS", "many")
    assert refused("resources.mine.actors=${oc.env:ACTORS}").endswith("actors=many: must be a whole number")
    assert refused("terms.path=${nowhere.x}").startswith("mine: terms.path: ")
