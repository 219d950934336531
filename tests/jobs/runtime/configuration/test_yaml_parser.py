"""OmegaConf's YAML with libyaml's parser: the same values as with PyYAML's, and the same refusals."""

from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from jobs.runtime.configuration import config, yaml_parser

NUMBERS_AND_DATES = "a: 1e3\nb: 2020-01-01\nc: 1_000\nd: 0x1f\ne: no\nf: 'é'\ng: [~, .inf]\n"


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="this PyYAML has no libyaml")
def test_omegaconf_uses_libyaml() -> None:
    with pytest.raises(
        yaml.YAMLError, match="control characters"
    ):  # libyaml's words; PyYAML's are "special characters"
        OmegaConf.create("a: \x01")


def test_values_are_those_of_omegaconfs_own_loader() -> None:
    texts = [NUMBERS_AND_DATES, *(path.read_text("utf-8") for path in Path(config.CONF).rglob("*.yaml"))]
    assert len(texts) > 100
    others = [
        text[:80]
        for text in texts
        if list(yaml.load_all(text, yaml_parser.loader())) != list(yaml.load_all(text, yaml_parser.python_loader()))
    ]
    assert others == []


def test_duplicate_keys_are_refused_with_their_line() -> None:
    with pytest.raises(yaml.constructor.ConstructorError, match="found duplicate key a") as error:
        OmegaConf.create("a: 1\nb: 2\na: 3\n")
    assert error.value.problem_mark is not None
    assert error.value.problem_mark.line == 2
