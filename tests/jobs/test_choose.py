"""`choose`: the sheet of a search, and the items of a completed one."""

import codecs
import csv
from pathlib import Path

import pytest

from actors.ids import content_id
from jobs import choose
from jobs.page.picture_sheets import COLUMNS
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import picture, rows_of, write_csv, write_table, write_units


def test_choices_of_spreadsheet_programs_become_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blank entries are none; a picture may be excluded by its URL; a prompt that is a formula has no mark."""
    cells = [("q1", "'=tea", "a", "u/a", "x"), ("q1", "'=tea", "b", "u/b", " "), ("q2", "Thé", "c", "https://u/c", "1")]
    rows = [[query, prompt, "", "1", item, "0.5", url, mark] for query, prompt, item, url, mark in cells]
    (tmp_path / "c.csv").write_bytes(Path(write_csv(tmp_path / "u.csv", COLUMNS, rows)).read_text().encode("cp1252"))
    (tmp_path / "list.txt").write_text("https://u/c\n")
    keys = [f"chosen={tmp_path}/c.csv", "encoding=cp1252"]
    assert cli.main("choose", [*keys, f"out={tmp_path}/both"]) == 0
    assert capsys.readouterr().out == f"choose: {tmp_path}/both\n  2 items of 2 prompts\n"
    attributes = [dict(row["attributes"]) for row in rows_of(f"{tmp_path}/both")]
    assert attributes == [{"prompt": "=tea"}, {"prompt": "Thé"}]
    assert cli.main("choose", [*keys, f"exclusions={tmp_path}/list.txt", f"out={tmp_path}/first"]) == 0
    printed = capsys.readouterr().out
    assert "  1 item of 2 prompts\n  0 prompts with more than one, 1 with none\n" in printed
    assert "1 of 1 entries match a picture here" in printed
    assert [row["image_ids"] for row in rows_of(f"{tmp_path}/first")] == [["a"]]


def test_a_sheet_has_the_addresses_of_its_pictures_and_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "MAX_ROWS", 3)  # as many as there are
    images = [picture(1), picture(2)]
    images[0]["source_url"] = f"{tmp_path}/photos/1.jpg"
    near = [{"query_id": "q", "rank": n, "item_id": name, "score": 0.5}
            for n, name in enumerate(("gone", images[0]["image_id"], images[1]["image_id"]), 1)]  # fmt: skip
    write_table(tmp_path / "near", "neighbors", near)
    write_table(tmp_path / "prompts", "texts", [{"text_id": "q", "role": "prompt", "text": "t"}])
    write_table(tmp_path / "images", "images", images)
    keys = [f"{name}={tmp_path}/{name}" for name in ("prompts", "images")]
    (tmp_path / "list.txt").write_text(f"{images[1]['image_id']}\n")
    listed = f"exclusions={tmp_path}/list.txt"
    assert cli.main("choose", [*keys, f"neighbors={tmp_path}/near", listed, f"out={tmp_path}/out"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("choose: 2 rows for 1 prompt\n")
    assert f"  {tmp_path}/out/choose.csv: put an x into " in printed
    assert "the same rows with 1 picture\n" in printed
    assert "1 of 1 entries match a picture here" in printed
    with (tmp_path / "out" / "choose.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["url"] for row in csv.DictReader(file)] == ["", "1.jpg"]  # a person gets the sheet


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


FILLED = "query_id,prompt,values,rank,item_id,score,url,chosen\n"
