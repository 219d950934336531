"""The people of a study: names, groups and limits, from CSV, Parquet or a table."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.annotation.assignment import Rater
from jobs.annotation.participants import read_raters
from jobs.errors import InputError
from tests.factories import write_file, write_table, write_units

ROWS = [
    {"rater": " zoe ", "country": "Mali", "limit": "0"},
    {"rater": "ada", "country": "Peru", "limit": " "},
    {"rater": "bo", "country": "Peru", "limit": "12"},
]


def test_raters_have_their_own_limits_or_that_of_all(tmp_path: Path) -> None:
    csv, parquet = tmp_path / "raters.csv", tmp_path / "raters.parquet"
    csv.write_text("country,limit,rater\n" + "".join(f"{r['country']},{r['limit']},{r['rater']}\n" for r in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), parquet)
    expected = [Rater("ada", "Peru", 7), Rater("bo", "Peru", 12), Rater("zoe", "Mali", 0)]  # 0: takes no part
    for file in (csv, parquet):
        assert read_raters(str(file), group="country", limit=7) == expected
        assert [rater.limit for rater in read_raters(str(file), group=None, limit=None)] == [None, 12, 0]
        assert {rater.group for rater in read_raters(str(file), group=None, limit=None)} == {""}
    rows = [{"rater": name, "kind": "person", "country": "Peru"} for name in ("bo", "ada")]
    table = write_table(tmp_path / "people", "raters", rows)
    assert read_raters(table, group="country", limit=3) == [Rater("ada", "Peru", 3), Rater("bo", "Peru", 3)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("ada,Peru,-1", "limit -1 of rater 'ada' must be at least 0"),
        ("ada,Peru,1.5", "limit '1.5' of rater 'ada' is not a whole number"),
        ("ada, ,1", "rater 'ada' has no country"),
        (" ,Peru,1", "column rater is empty"),
    ],
)
def test_wrong_rows_are_refused(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "raters.csv").write_text(f"rater,country,limit\n{row}\n")
    with pytest.raises(InputError, match=f"raters=.*{message}"):
        read_raters(str(tmp_path / "raters.csv"), group="country", limit=None)


def test_numbers_of_a_parquet_file_are_names_groups_and_limits(tmp_path: Path) -> None:
    """A column of whole numbers in which some are missing holds floats."""
    path = tmp_path / "raters.parquet"
    pq.write_table(pa.table({"rater": [0, 1, 2], "pool": [1, 0, 0], "limit": [12.0, None, 0.0]}), path)
    raters = [Rater("0", "1", 12), Rater("1", "0", 7), Rater("2", "0", 0)]
    assert read_raters(str(path), group="pool", limit=7) == raters
    pq.write_table(pa.table({"rater": [0], "limit": [1.5]}), path)
    with pytest.raises(InputError, match=r"limit 1\.5 of rater '0' is not a whole number"):
        read_raters(str(path), group=None, limit=None)


def test_files_without_names_or_groups_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": ["ada"], "country": ["Peru"]}), tmp_path / "unnamed.parquet")
    pq.write_table(pa.table({"rater": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    pq.write_table(pa.table({"rater": ["ada"]}), tmp_path / "ungrouped.parquet")
    (tmp_path / "damaged.parquet").write_bytes((tmp_path / "ungrouped.parquet").read_bytes()[:-9])
    cases = [
        ("unnamed", r"raters=.*unnamed\.parquet: no column rater; its columns are who, country$"),
        ("empty", r"no column rater; its columns are unknown, it has no rows$"),
        ("ungrouped", r"no column country; its columns are rater$"),
        ("damaged", r"damaged\.parquet: not a readable Parquet file"),
    ]
    table = write_table(tmp_path / "nobody", "raters", [])
    with pytest.raises(InputError, match=r"raters=.*nobody: no column rater; its columns are unknown, it has no rows$"):
        read_raters(table, group=None, limit=None)
    for name, message in cases:
        with pytest.raises(InputError, match=message):
            read_raters(f"{tmp_path}/{name}.parquet", group="country", limit=None)
    (tmp_path / "latin.csv").write_bytes("rater\nZo\u00eb\n".encode("latin-1"))
    assert read_raters(f"{tmp_path}/latin.csv", group=None, limit=2, encoding="latin-1") == [Rater("Zo\u00eb", "", 2)]


def test_a_table_of_several_files_and_a_single_file_of_any_folder_are_read(tmp_path: Path) -> None:
    rows = [{"rater": name, "kind": "person"} for name in ("bo", "ada")]
    written = write_units(tmp_path / "people", "raters", [rows[:1], rows[1:]])
    for number, row in enumerate(rows):
        part = write_file(tmp_path / f"part{number}", "raters", [row])
        (tmp_path / "parts").mkdir(exist_ok=True)
        (Path(part) / "part.parquet").rename(tmp_path / "parts" / f"{number}.parquet")
    for table in (written, str(tmp_path / "parts")):
        assert [rater.name for rater in read_raters(table, group=None, limit=1)] == ["ada", "bo"]
    (tmp_path / "_run").mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "_run" / "RATERS.PARQUET")
    for uri in (f"{tmp_path}/_run", f"{tmp_path}/_run/", f"{tmp_path}/_run/RATERS.PARQUET"):
        assert [rater.limit for rater in read_raters(uri, group=None, limit=1)] == [1, 12, 0]
