"""`zero_shot template=`: a file of conf/zero_shot_template, or a user's YAML file."""

from pathlib import Path

import pytest
import yaml

from jobs.errors import InputError
from jobs.judging.template_file import TEMPLATES, read_sentences, read_template


def test_template_names_a_file_of_conf_or_of_the_user(tmp_path: Path) -> None:
    template = yaml.safe_load((TEMPLATES / "cultural_relevance.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(template | {"name": "own"}), encoding="utf-8")
    assert read_template("cultural_relevance") == template
    assert read_template(str(file))["name"] == "own"
    file.write_text("a: [", encoding="utf-8")
    for name in ("nope", str(tmp_path / "none.yaml"), str(file)):
        with pytest.raises(InputError, match=name):
            read_template(name)


def test_sentences_keep_the_labels_of_targets(tmp_path: Path) -> None:
    plain = read_sentences("cultural_relevance", None)
    named = read_sentences("cultural_relevance", ["Peru", "Mali"])
    assert (plain.targets, named.targets) == ((), ("Peru", "Mali"))
    assert plain.identity["template"] == named.identity["template"]
    assert plain.identity["targets"] != named.identity["targets"]
    kept = named.kept
    assert (kept.kind, kept.name, kept.data) == ("zero_shot_template", "cultural_relevance", named.data)
    levels = [(level.value, level.phrase, level.score) for level in named.template.levels]
    assert [(answer.value, answer.label, answer.score) for answer in kept.questions[0].answers] == levels
    assert kept.questions[0].name == named.template.question
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({**named.data, "levels": []}), encoding="utf-8")
    with pytest.raises(InputError, match=str(file)):
        read_sentences(str(file), None)
