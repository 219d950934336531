from pathlib import Path

from jobs.annotation import json_files

MANY = "9" * 5000


def test_a_number_with_thousands_of_digits_is_unknown(tmp_path: Path) -> None:
    array, lines = tmp_path / "a.json", tmp_path / "b.jsonl"
    array.write_text(f'[{{"id": 1, "seconds": {MANY}}}, {{"id": 18446744073709551615}}]')
    lines.write_text(f'{{"id": 1}}\n{{"id": 2, "seconds": -{MANY}}}\n')
    assert list(json_files.elements(str(array))) == [{"id": 1, "seconds": None}, {"id": 2**64 - 1}]
    assert list(json_files.lines(str(lines), lambda _: None)) == [(1, {"id": 1}), (2, {"id": 2, "seconds": None})]
