"""`zero_shot template=`: a file of conf/zero_shot_template, or a user's YAML file."""

from pathlib import Path

import pytest
import yaml

from jobs.errors import InputError
from jobs.judging.template_file import TEMPLATES, read_template


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
