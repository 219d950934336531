"""Files of conf/ and of users: which are chosen, and what is said of those that cannot be read."""

import math
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.errors import InputError
from jobs.mine import MineConfig
from jobs.report import ReportConfig
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config, config_files
from jobs.runtime.configuration.config_files import (
    chosen_options,
    describe_yaml_error,
    options,
    read_named,
    read_option,
)
from jobs.runtime.configuration.key_types import groups
from tests.cases import check_cases


def read(name: str, parse: Any = dict) -> Any:
    return read_named("resources.prices", name, parse, folder="prices", noun="prices")


def test_a_table_is_a_file_of_conf_or_one_at_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_text("currency: CHF\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("aws-us-east-1")["currency"] == "USD"
    for name in ("own.yaml", f"{tmp_path}/own.yaml", "~/own.yaml"):
        assert read(name) == {"currency": "CHF"}
        assert read(name, lambda content: content["currency"]) == "CHF"
    monkeypatch.setattr(config_files.locations, "read_bytes", lambda uri: f"name: {uri}\n".encode())
    assert read("s3://b/own.yaml") == {"name": "s3://b/own.yaml"}
    assert read_option("corpus", "s3://b/own.yaml") == (("corpus", {"name": "s3://b/own.yaml"}),)


def test_a_table_that_cannot_be_read_is_named_with_those_that_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, files = tmp_path / "own.yaml", "cheap, dear"
    (tmp_path / "prices").mkdir()
    for name in ("dear.yaml", "cheap.yaml", "notes.txt"):
        (tmp_path / "prices" / name).touch()
    monkeypatch.setattr(config_files, "CONF", tmp_path)
    for name in ("nowhere", "own", "notes"):
        with pytest.raises(
            InputError, match=rf"resources\.prices={name}: no such table .* must be one of {files}, or "
        ):
            read(name)
    with pytest.raises(InputError, match=r"gone\.yaml"):
        read(str(tmp_path / "gone.yaml"))

    def check(text: str, parse: Any) -> None:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=rf"resources\.prices={file}: .* must be one of {files}, or "):
            read(str(file), parse)

    cases = {
        "not YAML": ("a: [", dict),
        "a missing key": ("a: 1", lambda content: content["b"]),
        "a wrong type": ("a: 1", lambda content: content + 1),
        "a list for a mapping": ("[1]", lambda content: content.items()),
        "a wrong value": ("a: x", lambda content: float(content["a"])),
    }
    check_cases(check, cases)


def test_the_last_option_of_a_group_is_chosen() -> None:
    defaults = {"corpus": "wit", "resources": "laptop"}
    assert groups(MineConfig) == defaults
    assert groups(ReportConfig) == {"paper": None, "resources": "laptop"}
    overrides = ["corpus=wit_base", "out=o", "terms=x", "corpus='my corpus.yaml'", 'resources="a=b.yaml"']
    assert chosen_options(MineConfig, overrides) == {"corpus": "my corpus.yaml", "resources": "a=b.yaml"}
    assert chosen_options(MineConfig, []) == defaults
    assert chosen_options(ReportConfig, ["paper=rome", "paper=null"]) == groups(ReportConfig)
    assert groups(MineConfig) == defaults


def test_options_are_sorted_and_have_only_keys_of_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may name other files in `defaults`, and one of the package _global_ may have keys of other groups."""
    texts = {
        "z": "name: z\n",
        "b": "defaults: [z]\nname: b\npath: p\n",
        "a": "# @package _global_\npaper:\n  name: a\nmetrics:\n  size: 1\n",
        "foreign": "name: f\nsize: 1\n",
        "global": "# @package _global_\npaper:\n  size: 1\nname: g\n",
        "other": "# @package _global_\nmetrics:\n  size: 1\n",
    }
    (tmp_path / "paper").mkdir()
    for name, text in texts.items():
        (tmp_path / "paper" / f"{name}.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "paper" / "notes.txt").touch()
    monkeypatch.setattr(config_files, "CONF", tmp_path)
    assert options("paper", None) == ("a", "b", "foreign", "global", "other", "z")
    assert options("paper", make_dataclass("Paper", ["name", "path"])) == ("a", "b", "other", "z")


@pytest.mark.parametrize("head", ["", "\ufeff", "# mine\n# of 2026\n", "\ufeff# mine\n"])
def test_a_users_file_names_its_package_in_its_first_comments(head: str, tmp_path: Path) -> None:
    """Editors on Windows put a byte-order mark first."""
    packages = {}
    for name, text in (("named", "# @package _global_\na: 1\n"), ("late", "a: 1\n# @package _global_\n")):
        (tmp_path / f"{name}.yaml").write_text(head + text, encoding="utf-8")
        packages[name] = read_option("paper", f"{tmp_path}/{name}.yaml")
    assert packages == {"named": (("_global_", {"a": 1}),), "late": (("paper", {"a": 1}),)}


def test_a_users_file_is_read_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my corpus.yaml"
    for name in ("wit", "wit_base"):
        file.write_text(f"name: {name}\n", encoding="utf-8")
        for path in ("my corpus.yaml", "~/my corpus.yaml", str(file)):
            assert read_option("corpus", path) == (("corpus", {"name": name}),)


def test_a_file_may_name_others_of_its_group(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    wit = read_option("corpus", "wit")
    for named, order in (("[wit, _self_]", (*wit, "own")), ("[_self_, wit]", ("own", *wit)), ("[wit]", ("own", *wit))):
        file.write_text(f"defaults: {named}\nname: own\n", encoding="utf-8")
        parts = read_option("corpus", str(file))
        assert parts == tuple(("corpus", {"name": "own"}) if part == "own" else part for part in order)
    with pytest.raises(FileNotFoundError):
        read_option("corpus", "../rubric/dsg")


def test_a_users_file_that_cannot_be_read_is_named_with_its_group(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    cases = {
        "text": (b"\xff\xfe\xff", "not a configuration"),
        "interpolation": (b"name: ${", "not a configuration"),
        "list": (b"- a", "must be a mapping of keys"),
        "YAML": (b"a: 1\nb: [\n", "line 3: not YAML"),
        "a key twice": (b"a: 1\nb: 2\na: 3\n", "line 1: not YAML .found duplicate key a"),
    }

    def check(content: bytes, message: str) -> None:
        file.write_bytes(content)
        with pytest.raises(InputError, match=rf"^corpus={file}.*{message}"):
            read_option("corpus", str(file))

    check_cases(check, cases)
    (tmp_path / "own2.yaml").touch()
    with pytest.raises(InputError, match=r"own1\.yaml: does not exist.*own2?\.yaml"):
        read_option("corpus", f"{tmp_path}/own1.yaml")


def test_a_line_that_is_not_yaml_is_counted_from_1() -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.safe_load("a: 1\n\tb: 2\n")
    message = describe_yaml_error(caught.value, "own.yaml")
    assert message.startswith("own.yaml, line 2: not YAML (")
    assert "not tabs" in message
    assert describe_yaml_error(yaml.YAMLError("broken"), "own.yaml") == "own.yaml: not YAML (broken)"


def test_values_are_those_of_yaml_without_dates_and_with_short_exponents(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "a: 1e3\nb: 2020-01-01\nc: 1_000\nd: 0x1f\ne: no\nf: 'é'\ng: [~, .inf, 1.5e-3, -2.E4]\nh: 3\n", "utf-8"
    )
    values = {
        "a": 1000.0,
        "b": "2020-01-01",
        "c": 1000,
        "d": 31,
        "e": False,
        "f": "é",
        "g": [None, math.inf, 0.0015, -2e4],
        "h": 3,
    }
    assert read_option("corpus", str(file)) == (("corpus", values),)


def test_values_and_files_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    keys = ["input=a", "out=b", "model=local-tiny"]
    for text in ("[" * 5000, "[" * 3000 + "]" * 3000, "{a: " * 3000 + "}" * 3000, "[" * 33 + "]" * 33):
        with pytest.raises(InputError, match=r"targets: is nested too deeply; at most 32 levels$"):
            config.load("judge", cli.job("judge").schema, [*keys, f"targets={text}"])
    file = tmp_path / "deep.yaml"
    for depth in (33, 4000):
        file.write_text(f"name: {'[' * depth}{']' * depth}")
        with pytest.raises(InputError, match=r"rubric=.*deep.yaml: .*is nested too deeply; at most 32 levels"):
            config.load("judge", cli.job("judge").schema, [*keys, f"rubric={file}"])


@pytest.mark.parametrize("named", ["5", "[nope]", "[{model: x}]", "[[]]", "{}", "FILE", "[FILE]"])
def test_defaults_of_a_users_file_are_files_of_its_group(tmp_path: Path, named: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(f"defaults: {named.replace('FILE', str(file))}")
    with pytest.raises(InputError, match=r"rubric=.*own.yaml: defaults=.*: must be a list of _self_, caption_match"):
        config.load("judge", cli.job("judge").schema, ["input=a", "out=b", f"rubric={file}"])
