"""Prompts from a template, and a person's choice among what was found for them."""

from pathlib import Path

import pytest

from actors.ids import content_id
from jobs import prompts
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import rows_of


def test_caires_200_prompts(tmp_path: Path) -> None:
    assert cli.main("prompts", [f"out={tmp_path}/p"]) == 0
    rows = rows_of(f"{tmp_path}/p")
    assert len(rows) == 200 == len({row["text_id"] for row in rows})
    assert rows[0]["text"] == "A realistic photo of breakfast in China"
    assert rows[0]["source"] == '{"concept":"breakfast","country":"China"}'


def test_an_axis_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "things.txt").write_text("bread\n\nrice {x}\n", encoding="utf-8")
    keys = ["template='a {thing}'", f"axes={{thing: {tmp_path}/things.txt, concept: null, country: null}}"]
    assert cli.main("prompts", [f"out={tmp_path}/p", *keys]) == 2  # axes that the template does not name
    (tmp_path / "conf").mkdir()
    assert cli.main("prompts", [f"out={tmp_path}/q", f"axes.concept={tmp_path}/things.txt"]) == 0
    assert {row["text"] for row in rows_of(f"{tmp_path}/q")} >= {"A realistic photo of rice {x} in Mexico"}


@pytest.mark.parametrize(
    "axes", ["axes={{thing: [bread, rice]}}", "axes.thing=[bread,rice]", "axes.thing={folder}/t.txt"]
)
def test_axes_of_the_user(tmp_path: Path, axes: str) -> None:
    (tmp_path / "t.txt").write_text("bread\nrice\n", encoding="utf-8")
    keys = ["template='a photo of {thing} in {country}'", axes.format(folder=tmp_path)]
    assert cli.main("prompts", [f"out={tmp_path}/p", *keys]) == 0
    rows = rows_of(f"{tmp_path}/p")
    assert len(rows) == 20
    assert {"a photo of bread in China", "a photo of rice in Mexico"} < {row["text"] for row in rows}
    assert (
        cli.main("prompts", [f"out={tmp_path}/q", "template='a photo of {thing}'", axes.format(folder=tmp_path)]) == 0
    )
    assert [row["text"] for row in rows_of(f"{tmp_path}/q")] == ["a photo of bread", "a photo of rice"]


def test_wrong_keys_are_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    cases = [
        (["template='{thing}'"], "no axis 'thing'"),
        (["template='{concept}'", "axes.country=[Peru]"], "axes.country=[Peru]: "),
        (["axes.country=[Peru,null]"], "axes.country=[Peru,null]: None is not a text"),
        (["axes.country=[Peru,false]"], "axes.country=[Peru,false]: False is not a text"),
        (["axes.country=[[Peru]]"], "axes.country=[[Peru]]: ['Peru'] is not a text"),
        (["axes.country=5"], "axes.country=5: "),
        (["axes.country={folder}/latin.txt"], "latin.txt: not UTF-8 (byte 4)"),
        (["template='{concept'"], "template="),
        (["template='{concept!r} {country}'"], "{concept} without format"),
        (["template='{concept} {country:>9}'"], "{country} without format"),
        (["axes.concept=[]"], "axes.concept=[]: "),
        (["axes.concept=[a,a]"], "axes.concept=[a,a]: duplicate 'a'"),
        (["axes.concept=list.csv"], "or a .txt file"),
        (["template=photo", "axes={}"], "axes={}: must have an axis"),
        (["axes.concept={folder}/many.txt", "axes.country={folder}/many.txt"], "axes: 1,002,001 prompts; must be 1 to"),
    ]

    def check(keys: list[str], message: str) -> None:
        (tmp_path / "latin.txt").write_bytes(b"Per\n\xfa\n")
        (tmp_path / "many.txt").write_text("\n".join(map(str, range(1001))))
        assert (
            cli.main("prompts", [f"out={tmp_path}/p", *(key.replace("{folder}", str(tmp_path)) for key in keys)]) == 2
        )
        assert message in capsys.readouterr().err

    check_cases(check, cases)


def test_values_of_an_axis_are_texts_without_blanks(tmp_path: Path) -> None:
    (tmp_path / "a.TXT").write_text("  tea \n\n rice\n", encoding="utf-8-sig")
    assert prompts._values("a", f"{tmp_path}/a.TXT") == ["tea", "rice"]
    assert prompts._values("a", [1, 2.5, " x ", ""]) == ["1", "2.5", "x"]
    with pytest.raises(InputError, match=r"^axes\.a=.*: duplicate 'x'"):
        prompts._values("a", ["x ", " x"])
    with pytest.raises(InputError, match=r"^axes\.a=\[ \]: has no values"):
        prompts._values("a", [" "])


def test_rows_of_prompts_vary_their_last_axis_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MAX_PROMPTS", 4)
    rows = prompts.prompts("{b}: {a} {b}", {"a": ["x", "ä"], "b": ["1", "2"]}, "de")
    assert [row["text"] for row in rows] == ["1: x 1", "2: x 2", "1: ä 1", "2: ä 2"]
    assert rows[2] == {
        "text_id": content_id("prompt", "de", "1: ä 1"), "role": "prompt", "language": "de", "date": None,
        "source": '{"a":"ä","b":"1"}', "revision": None, "text": "1: ä 1",
    }  # fmt: skip
    cfg = prompts.PromptsConfig(template="{a} {b}", axes={"b": ["1"]}, default_axes={"a": ["x"], "b": ["2"], "c": []})
    assert prompts._axes(cfg) == {"a": ["x"], "b": ["1"]}
