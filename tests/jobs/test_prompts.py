"""Prompts from a template, and a person's choice among what was found for them."""

import codecs
import csv
from pathlib import Path

import pytest

from actors.ids import content_id
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import rows_of, write_table, write_units


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
        (["axes.country=[[Peru]]"], "axes.country=[['Peru']]: ['Peru'] is not a text"),
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


def test_a_choice_is_written_or_read_but_not_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_units(tmp_path / "near", "neighbors", [[{"query_id": "q", "rank": n, "item_id": "i"} for n in range(20_001)]])
    write_table(tmp_path / "p", "texts", [{"text_id": "q", "role": "prompt", "text": "t"}])
    cases = [
        (["chosen=c.csv", "neighbors=n"], "chosen= reads the completed CSV"),
        (["chosen=c.csv", "prompts=p"], "chosen= reads the completed CSV"),
        (["chosen=c.csv", "images=i"], "chosen= reads the completed CSV"),
        (["neighbors=n"], "neighbors= and prompts= are required"),
        (["prompts=p", "images=i"], "neighbors= and prompts= are required"),
        ([f"neighbors={tmp_path}/near", f"prompts={tmp_path}/p"], "20,001 rows; at most 20,000"),
    ]

    def check(keys: list[str], message: str) -> None:
        assert cli.main("choose", [*keys, f"out={tmp_path}/out"]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    check_cases(check, cases)


FILLED = "query_id,prompt,values,rank,item_id,score,url,chosen\n"


def test_a_faulty_row_is_reported_with_its_line_and_column(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    reports = {}
    for lines, line_and_column in (
        ("q1,p,{},1,a,0.5,,x\nq1,p,{},1,,0.5,,\n", "line 3: column item_id"),
        ("q1,p,{},1,a,0.5,,x\n,p,{},1,a,0.5,,x\n", "line 3: column query_id"),
        ('q1,p,{},1,a,0.5,,"x\n', "line 2: column chosen"),
    ):
        (tmp_path / "c.csv").write_text(FILLED + lines)
        code = cli.main("choose", [f"chosen={tmp_path}/c.csv", f"out={tmp_path}/items"])
        reports[line_and_column] = code, capsys.readouterr().err
    assert {key: report for key, report in reports.items() if report[0] != 2 or key not in report[1]} == {}
    assert not (tmp_path / "items").exists()


def test_prompts_with_several_choices_or_none_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rows = 'q1,p,"{""c"":""y""}",1,a,0.5,,x\n' * 2 + "q1,p,node 7,2,b,0.4,,x\nq2,r,{},1,a,0.5,,\n"
    (tmp_path / "c.csv").write_text(FILLED + rows)
    assert cli.main("choose", [f"chosen={tmp_path}/c.csv", f"out={tmp_path}/items"]) == 0
    printed = capsys.readouterr().out
    assert "2 items of 2 prompts\n  1 prompt with more than one, 1 with none" in printed
    attributes = [dict(item["attributes"]) for item in rows_of(f"{tmp_path}/items")]
    assert attributes == [{"c": "y", "prompt": "p"}, {"source": "node 7", "prompt": "p"}]


def test_a_person_chooses_and_the_chosen_become_items(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert cli.main("prompts", [f"out={tmp_path}/p", "axes.concept=['<b>bread</b>']", "axes.country=[Peru,Chad]"]) == 0
    prompts = rows_of(f"{tmp_path}/p")
    near = [
        {"query_id": prompt["text_id"], "rank": rank, "item_id": content_id(f"{rank}"), "score": 1 / rank}
        for prompt in prompts
        for rank in (1, 2, 3)
    ]
    write_units(tmp_path / "near", "neighbors", [near])
    keys = [f"neighbors={tmp_path}/near", f"prompts={tmp_path}/p", f"out={tmp_path}/choose"]
    assert cli.main("choose", keys) == 0
    page = (tmp_path / "choose" / "index.html").read_text(encoding="utf-8")
    assert "<b>bread" not in page
    assert "&lt;b&gt;bread" in page
    filled = tmp_path / "choose" / "choose.csv"
    assert cli.main("choose", keys) == 0  # nobody has filled it in
    assert filled.read_bytes().startswith(codecs.BOM_UTF8)  # Excel needs it for accents
    with filled.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["rank"], row["chosen"]) for row in rows] == [("1", ""), ("2", ""), ("3", "")] * 2
    assert cli.main("choose", [f"chosen={filled}", f"out={tmp_path}/items"]) == 2
    assert f"chosen={filled}: " in capsys.readouterr().err
    rows[1]["chosen"] = rows[3]["chosen"] = "x"
    with filled.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    capsys.readouterr()
    assert cli.main("choose", keys) == 2
    assert f"{filled}: " in capsys.readouterr().err
    assert cli.main("choose", [f"chosen={filled}", f"out={tmp_path}/items"]) == 0
    items = rows_of(f"{tmp_path}/items")
    assert [(item["image_ids"], dict(item["attributes"])["country"]) for item in items] == [
        ([content_id("2")], "Peru"),
        ([content_id("1")], "Chad"),
    ]
    (tmp_path / "saved.csv").write_bytes(filled.read_bytes().replace(b"Peru", "Perú".encode("latin-1")))
    assert cli.main("choose", [f"chosen={tmp_path}/saved.csv", f"out={tmp_path}/never"]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
    excluded = tmp_path / "excluded.txt"
    excluded.write_text(content_id("1"))
    assert cli.main("choose", [f"chosen={filled}", f"out={tmp_path}/fewer", f"exclusions={excluded}"]) == 0
    assert len(rows_of(f"{tmp_path}/fewer")) == 1
