"""Statistics of TRIC's splits and unions, worked by hand, and of the real development split."""

import json
from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.steps import tric_statistics
from tests.factories import rows_of

SPLITS = {
    "train": ([("a.png", "1880-01-01")], ["one two", "x"]),
    "train2": ([("b.png", "1890-01-01"), ("c.png", "1900-12-31")], ["a\\nb c"]),
    "dev-0": ([("d.png", "1910-01-01")], ["late"]),
}


def write_splits(folder: Path) -> Path:
    for name, (pictures, captions) in SPLITS.items():
        split = folder / name
        split.mkdir(parents=True)
        (split / "in.tsv").write_text("".join(f"{picture}\t{day}\n" for picture, day in pictures))
        (split / "captions.tsv").write_text("".join(f"{n}\t{text}\n" for n, text in enumerate(captions, 1)))
    return folder


def values(out: Path) -> dict[tuple[str, ...], float | None]:
    table = {}
    for row in rows_of(str(out)):
        dims = json.loads(row["dims"])
        key = (row["metric"], dims["split"], dims.get("column", ""), dims.get("bin", ""))
        table[tuple(part for part in key if part)] = row["value"]
    return table


def test_splits_and_unions_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_splits(tmp_path / "tric"), tmp_path / "statistics"
    arguments = [f"path={path}", f"out={out}", "bins.year=10"]
    assert cli.main("tric statistics", arguments) == 0
    printed_values = values(out)
    assert [printed_values["instances", name] for name in ("train", "train2", "dev-0", "training")] == [1, 2, 1, 3]
    assert printed_values["share", "training"] == 0.75
    assert printed_values["mean", "training", "year"] == 1890
    assert printed_values["standard_deviation", "training", "year"] == 10
    assert printed_values["median", "training", "words"] == 2  # of 2, 1 and 3
    assert printed_values["mean", "training", "characters"] == pytest.approx(
        (7 + 1 + 5) / 3
    )  # a newline is one character
    assert [printed_values["histogram_count", "training", "year", str(year)] for year in (1880, 1890, 1900)] == [
        1,
        1,
        1,
    ]
    assert ("mean", "testing", "year") not in printed_values
    assert "testing: left out" in capsys.readouterr().out
    before = {file: file.stat().st_mtime_ns for file in out.glob("*.parquet")}
    assert cli.main("tric statistics", arguments) == 0
    assert {file: file.stat().st_mtime_ns for file in out.glob("*.parquet")} == before  # nothing to do


def test_own_splits_and_unions(tmp_path: Path) -> None:
    path = write_splits(tmp_path / "tric")
    (path / "dev-0").rename(path / "late")
    keys = ["splits=[train,late]", "unions.ends=[train,late]"]
    assert cli.main("tric statistics", [f"path={path}", f"out={tmp_path}/s", *keys]) == 0
    printed_values = values(tmp_path / "s")
    assert (printed_values["mean", "ends", "year"], printed_values["minimum", "ends", "year"]) == (1895, 1880)


def test_the_folder_of_one_split(tmp_path: Path) -> None:
    path = write_splits(tmp_path / "tric")
    (path / "dev-0").rename(path / "late")
    for number, name in enumerate(("train", "late", "late/")):
        out = tmp_path / str(number)
        assert cli.main("tric statistics", [f"path={path}/{name}", f"out={out}"]) == 0
        assert {key[1]: value for key, value in values(out).items() if key[0] == "instances"} == {name.strip("/"): 1}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["bins.words=0"], "bins.words=0"),
        (["unions.train=[train2]"], "unions.train=[train2]: is the name of a split"),
        (["splits=[train,nope]"], "nope/in.tsv"),
        (["splits=[]"], "splits=[]"),
    ],
)
def test_wrong_keys_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: list[str], message: str
) -> None:
    path = write_splits(tmp_path / "tric")
    assert cli.main("tric statistics", [f"path={path}", f"out={tmp_path}/s", *keys]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_a_folder_without_splits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert cli.main("tric statistics", [f"path={tmp_path}", f"out={tmp_path}/s"]) == 2
    assert "none of the folders train, train2" in capsys.readouterr().err


def test_the_real_development_split(data: Path, tmp_path: Path) -> None:
    assert cli.main("tric statistics", [f"path={data}/tric", f"out={tmp_path}/s"]) == 0
    printed_values = values(tmp_path / "s")
    assert printed_values["instances", "dev-0"] == 646
    names = ("mean", "median", "standard_deviation", "minimum", "maximum")
    years = [printed_values[name, "dev-0", "year"] for name in names]
    # Section VI.B of the paper: its testing data, among which it counts dev-0, span 1880 to 1900.
    assert years == [pytest.approx(1905.5851, abs=1e-4), 1907, pytest.approx(12.1072, abs=1e-4), 1867, 1922]
    assert sum(v or 0 for key, v in printed_values.items() if key[:3] == ("histogram_count", "dev-0", "words")) == 646


def test_splits_of_a_release_are_those_with_pictures_in_its_order(tmp_path: Path) -> None:
    for name in ("test-A", "train", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in.tsv").write_text("x")
    (tmp_path / "dev-0").mkdir()
    (tmp_path / "dev-0" / "captions.tsv").write_text("x")
    assert tric_statistics._present(str(tmp_path)) == (str(tmp_path), ["train", "test-A"])
    assert tric_statistics._present(f"{tmp_path}/train/") == (str(tmp_path), ["train"])
    for name in ("test-A", "train"):
        (tmp_path / name / "in.tsv").unlink()
    with pytest.raises(InputError, match=r"has none of the folders train, .* with in\.tsv"):
        tric_statistics._present(str(tmp_path))
