"""Files of conf/ and of users: which are chosen, and what is said of those that cannot be read."""

from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.config_store import ConfigStore

from jobs.errors import InputError
from jobs.runtime.configuration import config_files
from jobs.runtime.configuration.config_files import (
    chosen_options,
    describe_yaml_error,
    file_of,
    groups,
    options,
    read_named,
    register_user_files,
)
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
    (option,) = register_user_files("mine", ["corpus=s3://b/own.yaml"])
    assert file_of(option.removeprefix("corpus=")) == "s3://b/own.yaml"


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
    assert groups("mine") == defaults
    assert groups("report") == {"paper": "null"}
    overrides = ["corpus=wit_base", "out=o", "terms=x", "corpus='my corpus.yaml'", 'resources="a=b.yaml"']
    assert chosen_options("mine", overrides) == {"corpus": "my corpus.yaml", "resources": "a=b.yaml"}
    assert chosen_options("mine", []) == defaults
    assert groups("mine") == defaults


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
        (option,) = register_user_files("report", [f"paper={tmp_path}/{name}.yaml"])
        stored = ConfigStore.instance().repo["paper"][f"{option.removeprefix('paper=')}.yaml"]
        packages[name] = (stored.package, stored.node)
    assert packages == {"named": ("_global_", {"a": 1}), "late": (None, {"a": 1})}


def test_a_users_file_becomes_an_option_of_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my corpus.yaml"
    file.write_text("name: wit\n", encoding="utf-8")
    others = ["out=own.yaml", "resources=laptop", "terms.path=x"]
    (option, *rest) = register_user_files("mine", ["corpus='my corpus.yaml'", *others])
    assert rest == others
    group, _, name = option.partition("=")
    assert (group, file_of(name)) == ("corpus", "my corpus.yaml")
    assert file_of("wit") == "wit"
    again, by_home, by_path = register_user_files(
        "mine", [f"corpus={path}" for path in ("my corpus.yaml", "~/my corpus.yaml", str(file))]
    )
    assert again == option
    assert len({option, by_home, by_path}) == 3  # a message names the file as it was typed
    file.write_text("name: wit_base\n", encoding="utf-8")
    assert register_user_files("mine", ["corpus=my corpus.yaml"]) != [option]


def test_a_users_file_that_cannot_be_read_is_named_with_its_group(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    cases = {
        "text": (b"\xff\xfe\xff", "not a configuration"),
        "interpolation": (b"name: ${", "not a configuration"),
        "list": (b"- a", "must be a mapping of keys"),
        "YAML": (b"a: 1\nb: [\n", "line 3: not YAML"),
    }

    def check(content: bytes, message: str) -> None:
        file.write_bytes(content)
        with pytest.raises(InputError, match=rf"^corpus={file}.*{message}"):
            register_user_files("mine", [f"corpus={file}"])

    check_cases(check, cases)
    (tmp_path / "own2.yaml").touch()
    with pytest.raises(InputError, match=r"own1\.yaml: does not exist.*own2?\.yaml"):
        register_user_files("mine", [f"corpus={tmp_path}/own1.yaml"])


def test_a_line_that_is_not_yaml_is_counted_from_1() -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.safe_load("a: 1\n\tb: 2\n")
    message = describe_yaml_error(caught.value, "own.yaml")
    assert message.startswith("own.yaml, line 2: not YAML (")
    assert "not tabs" in message
    assert describe_yaml_error(yaml.YAMLError("broken"), "own.yaml") == "own.yaml: not YAML (broken)"
