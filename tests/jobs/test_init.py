"""The files with which a study begins."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.rubrics.rubric import Rubric
from jobs.errors import InputError
from jobs.init import InitConfig, execute
from jobs.run import RunConfig
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from tests.cases import check_cases


def planned(tmp_path: Path, *overrides: str) -> dict[str, dict[str, Any]]:
    """Return the keys of each step of the study's run."""
    loaded = config.load("run", RunConfig, [f"pipeline={tmp_path}/mood-2_study.yaml", *overrides])
    return {step.job: step.set for step in loaded.pipeline.steps}


def test_the_files_are_a_rubric_and_a_study_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main("init", ["mood-2"]) == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["mood-2.yaml", "mood-2_study.yaml"]
    rubric = Rubric.from_dict(yaml.safe_load((tmp_path / "mood-2.yaml").read_text("utf-8")))
    assert (rubric.name, [q.name for q in rubric.questions], rubric.targets) == (
        "mood-2", ["shown", "figures"], ("joy", "sorrow", "fear")
    )  # fmt: skip
    steps = planned(tmp_path)
    assert list(steps) == ["items", "fetch", "judge", "report", "export"]
    assert steps["items"]["out"] == "mood-2/set"
    assert steps["judge"]["rubric"] == "mood-2.yaml"
    assert (steps["items"]["columns.pictures"], steps["items"]["columns.id"]) == ("file", "file")
    assert "NAME" not in "".join(path.read_text("utf-8") for path in tmp_path.iterdir())
    capsys.readouterr()
    assert cli.main("run", ["pipeline=mood-2_study.yaml", "plan=true"]) == 2
    assert "set.csv: does not exist" in capsys.readouterr().err


def test_the_command_line_comes_before_the_file(tmp_path: Path) -> None:
    execute(InitConfig("mood-2", str(tmp_path)))
    steps = planned(tmp_path, "people=2", "models=local-tiny", "columns.pictures=picture", "by=[a,b]", "out=R")
    assert list(steps) == ["items", "fetch", "judge", "annotate", "import_ratings", "report", "export"]
    assert (steps["items"]["columns.id"], steps["items"]["out"]) == ("picture", "R/set")
    assert steps["judge"]["out"] == "R/ratings/local-tiny"
    assert steps["report"]["metrics.disaggregate"] == ["a", "b"]
    assert "judge" not in planned(tmp_path, "people=2", "models=[]")
    with pytest.raises(InputError, match="people: required without models; set people= or models="):
        planned(tmp_path, "models=[]")
    with pytest.raises(InputError, match="on_error=skip: must be one of stop, reject"):
        planned(tmp_path, "on_error=skip")


def test_a_wrong_input_is_named_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main("init", ["mood"]) == 0
    (tmp_path / "photos").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"photos/{name}.jpg").touch()
    (tmp_path / "set.csv").write_text("file,region\na.jpg,x\n", "utf-8")
    (tmp_path / "latin.csv").write_bytes(b"file,region\na.jpg,\xf6\n")
    cases = [
        (["set=photos"], "error: set=photos: 2 files; name one file that ends with .csv, "),
        (["set=mood.yaml"], "error: set=mood.yaml: its name does not say the format; allowed endings: .csv, "),
        (["set=latin.csv"], f"error: set={tmp_path}/latin.csv: byte 18 is not UTF-8; "),
        (["photos=set.csv"], f"error: photos={tmp_path}/set.csv: no pictures there (it has set.csv); name the folder"),
        (["by", "region"], "error: 'by' is not key=value; use by=region or --by region"),
        (["models=local-tiny demo-judge"], "(several are models=[local-tiny,demo-judge])"),
        (["by=region limit=1"], "write each key as a word, without quotes around both: by=region limit=1"),
        (["models=[gpt-4]"], "error: models=gpt-4: no such option (models run on your machines"),
        (["--input", "set.csv"], "--input=set.csv: no such key (did you mean set?); allowed: budget, by, "),
        (["--image_dir=photos"], "no such key (did you mean photos?)"),
        (["--model_name_or_path", "local-tiny"], "no such key (did you mean models?)"),
        (["group_by=region"], "no such key (did you mean by?)"),
        (["column.pictures=file"], "no such key (did you mean columns.pictures?); allowed: budget, "),
        (["licence=MIT-ish"], "error: licence=MIT-ish: must be a licence of the Hugging Face Hub, such as cc-by-4.0"),
        (["rubric=photos"], "error: rubric=photos: no such option (a folder, not a .yaml file); must be "),
    ]

    def check(arguments: list[str], message: str) -> None:
        capsys.readouterr()
        assert cli.main("run", ["pipeline=mood_study.yaml", *arguments]) == 2
        assert message in capsys.readouterr().err

    check_cases(check, cases)
    assert not (tmp_path / "mood").exists()


def test_nothing_is_replaced_and_names_are_checked(tmp_path: Path) -> None:
    (tmp_path / "b_study.yaml").write_text("mine")
    cases = [("b", "b_study.yaml: exists"), ("a.yaml", "init a writes a.yaml"), ("../a", "must be at most"),
             ("1a", "must be at most"), ("é", "must be at most"), ("a" * 61, "must be at most")]  # fmt: skip

    def check(name: str, message: str) -> None:
        with pytest.raises(InputError) as raised:
            execute(InitConfig(name, str(tmp_path)))
        assert message in raised.value.sentence
        assert [path.name for path in tmp_path.iterdir()] == ["b_study.yaml"]

    check_cases(check, cases)
    assert (tmp_path / "b_study.yaml").read_text() == "mine"
