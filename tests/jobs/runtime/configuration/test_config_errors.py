"""The patterns of `config_errors` match the errors that the installed Hydra and OmegaConf raise."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from jobs.runtime.configuration import config
from jobs.runtime.configuration.config_errors import ForeignKey, UnknownOption, WrongValue, cause_of, describe


@dataclass
class Corpus:
    path: str = "p"


@dataclass
class Schema:
    corpus: Corpus = field(default_factory=Corpus)
    rows: int = 1
    texts: dict[str, str] = field(default_factory=lambda: {"a": "b"})
    out: str = MISSING


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A folder of configuration with the group `corpus`, one of whose files has a key that the schema lacks."""
    ConfigStore.instance().store(name="errors_schema", node=Schema)
    (tmp_path / "errors.yaml").write_text("defaults:\n  - errors_schema\n  - corpus: good\n  - _self_\n")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "good.yaml").write_text("path: here\n")
    (tmp_path / "corpus" / "foreign.yaml").write_text("path: here\nencoder: e\n")
    (tmp_path / "corpus" / "several.yaml").write_text("path: [here]\n")
    return tmp_path


def raised(conf: Path, override: str) -> Exception:
    """Return the error that Hydra raises when it composes a configuration with `override`."""
    with (
        initialize_config_dir(str(conf), version_base="1.3"),
        pytest.raises((HydraException, OmegaConfBaseException)) as caught,
    ):
        compose("errors", overrides=[override])
    return caught.value


def test_an_option_without_a_file(conf: Path) -> None:
    assert cause_of(raised(conf, "corpus=bad")) == UnknownOption("corpus", "bad")


def test_an_option_with_keys_that_the_schema_lacks(conf: Path) -> None:
    assert cause_of(raised(conf, "corpus=foreign")) == ForeignKey("corpus", "foreign", "encoder")


def test_a_file_with_a_value_of_the_wrong_type(conf: Path) -> None:
    assert cause_of(raised(conf, "corpus=several")) == WrongValue("corpus", "several", "path=['here']: must be text")


def test_a_value_of_the_wrong_type(conf: Path) -> None:
    error = raised(conf, "rows=many")
    assert cause_of(error) is None
    assert describe(error) == "rows=many: must be a whole number"


@pytest.mark.parametrize("key", ["rows", "texts", "texts.a"])
def test_null_where_a_value_is_required(conf: Path, key: str) -> None:
    assert describe(raised(conf, f"{key}=null")) == f"{key}=null: this key cannot be null"


def test_any_other_error_is_described_in_one_line(conf: Path) -> None:
    error = raised(conf, "rows={")
    assert cause_of(error) is None
    assert describe(error)
    assert "\n" not in describe(error)


def test_an_error_without_a_key_is_its_first_line() -> None:
    assert describe(ValueError("no such thing\nmore")) == "no such thing"


def test_a_missing_value_is_named_by_its_key() -> None:
    structured = OmegaConf.structured(Schema)
    with pytest.raises(OmegaConfBaseException) as caught:
        structured.out  # noqa: B018
    assert describe(caught.value) == "out=: required"


def test_values_in_lists_have_keys_with_their_places() -> None:
    values = {"a": [1, {"b": "x"}, ["x"]], "c": "x", "d": {"e": [], "f": "x"}}
    assert list(config._keys_with(lambda value: value == "x", values)) == ["a.1.b", "a.2.0", "c", "d.f"]
