"""JSON arrays and JSON lines, read in pieces of any size."""

from pathlib import Path

import pytest

from jobs.corpora import json_files
from jobs.errors import InputError
from jobs.store.writer import RAW_KEPT, Reject
from tests.cases import check_cases

MANY = "9" * 5000


def test_a_number_with_thousands_of_digits_is_unknown(tmp_path: Path) -> None:
    array, lines = tmp_path / "a.json", tmp_path / "b.jsonl"
    array.write_text(f'[{{"id": 1, "seconds": {MANY}}}, {{"id": 18446744073709551615}}]')
    lines.write_text(f'{{"id": 1}}\n{{"id": 2, "seconds": -{MANY}}}\n')
    assert list(json_files.elements(str(array))) == [{"id": 1, "seconds": None}, {"id": 2**64 - 1}]
    assert list(json_files.lines(str(lines), lambda _: None)) == [(1, {"id": 1}), (2, {"id": 2, "seconds": None})]


def test_each_element_is_read_once_however_the_chunks_cut_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(chunk: int) -> None:
        monkeypatch.setattr(json_files, "CHUNK", chunk)
        array, lines = tmp_path / "a.json", tmp_path / "b.jsonl"
        array.write_text('\ufeff \n [123, {"a": [4, "é,]"]},\n "東", 56 ,null]\n', encoding="utf-8")
        assert list(json_files.elements(str(array))) == [123, {"a": [4, "é,]"]}, "東", 56, None]
        array.write_text("[]")
        assert list(json_files.elements(str(array))) == []
        lines.write_text('\ufeff{"a": "é"}\n\n  \n{"b": 2}\nno\n[3]\n{"c": 4}', encoding="utf-8")
        rejects: list[Reject] = []
        read = list(json_files.lines(str(lines), rejects.append))
        assert read == [(1, {"a": "é"}), (4, {"b": 2}), (7, {"c": 4})]
        assert [(reject.position, reject.reason, reject.raw) for reject in rejects] == [
            (5, "not_json", "no"), (6, "not_json", "[3]")
        ]  # fmt: skip
        rejects.clear()
        assert len(list(json_files.lines(str(lines), rejects.append, private=True))) == 3
        assert [(reject.position, reject.raw) for reject in rejects] == [(5, ""), (6, "")]

    check_cases(check, [1, 2, 3, 7, 1000])


def test_long_elements_and_lines_are_cut_off_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "[" * 100_000
    array, lines = tmp_path / "a.json", tmp_path / "b.jsonl"
    array.write_text(f"[1, {deep}")
    with pytest.raises(InputError, match=r"a\.json: element 2 of the array is nested too deeply, and the file ends"):
        list(json_files.elements(str(array)))
    for chunk in (1 << 20, 999, 7):  # one element does not cost the others
        monkeypatch.setattr(json_files, "CHUNK", chunk)
        nested = f'{deep[:5000]}"\\"]]", "\\\\", "{{"{"]" * 5000}'
        array.write_text(f'[1, {nested}, {{"a": {nested}}}, "x"]')
        first, *faults, last = json_files.elements(str(array))
        assert (first, last) == (1, "x")
        assert [str(fault) for fault in faults] == ["nested too deeply"] * 2
    lines.write_text(f'{{"a": 1}}\n{deep}\n')
    rejects: list[Reject] = []
    assert list(json_files.lines(str(lines), rejects.append)) == [(1, {"a": 1})]
    assert [(reject.position, reject.raw) for reject in rejects] == [(2, deep[:RAW_KEPT])]
    monkeypatch.setattr(json_files, "CHUNK", 4)
    monkeypatch.setattr(json_files, "MAX_ELEMENT", 40)
    for letters, is_read in ((30, True), (90, False)):
        array.write_text(f'["{"x" * letters}"{" " * 99}]')
        if is_read:
            assert list(json_files.elements(str(array))) == ["x" * letters]
        else:
            with pytest.raises(InputError, match="element 1 of the array is not valid JSON"):
                list(json_files.elements(str(array)))


def test_half_characters_become_replacement_characters(tmp_path: Path) -> None:
    escaped = {r"\ud83d\ude00": "\U0001f600", r"a\ud83d": "a\ufffd", r"\uDE00b": "\ufffdb", r"\u00e9": "é"}
    array, lines = tmp_path / "a.json", tmp_path / "b.jsonl"
    array.write_text("[" + ", ".join(f'"{text}"' for text in escaped) + "]")
    lines.write_text("".join(f'{{"t": "{text}"}}\n' for text in escaped))
    assert list(json_files.elements(str(array))) == [*escaped.values()]
    assert [row["t"] for _, row in json_files.lines(str(lines), lambda _: None)] == [*escaped.values()]


def test_json_that_is_not_an_array_is_refused(tmp_path: Path) -> None:
    cases = [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b'{"a": 1}', "begins with '{'; must be a JSON array"),
        (b"[1, 2", "element 3 of the array is not valid JSON"),
        (b"[1, x]", "element 2 of the array is not valid JSON"),
        (b'["\xff"]', "not UTF-8"),
        (b'["\xc3', "not UTF-8"),
    ]

    def check(text: bytes, message: str) -> None:
        (tmp_path / "a.json").write_bytes(text)
        with pytest.raises(InputError, match=message):
            list(json_files.elements(f"{tmp_path}/a.json"))

    check_cases(check, cases)


def test_what_are_no_json_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "LINES_TRIED", 3)

    def check(text: str, message: str) -> None:
        (tmp_path / "b.jsonl").write_text(text)
        rejects: list[Reject] = []
        with pytest.raises(InputError, match=message):
            list(json_files.lines(f"{tmp_path}/b.jsonl", rejects.append))
        assert not rejects

    check_cases(check, [
        ("\n \n", "empty"),
        ("\n[1]\n", "line 2 is not a JSON object"),
        ("[\n1,\n2,\n{}\n", "line 1 is not a JSON object"),
    ])  # fmt: skip


def test_a_damaged_line_costs_no_other_line_wherever_it_is(tmp_path: Path) -> None:
    good = [f'{{"n": {number}}}' for number in range(3)]
    path = tmp_path / "b.jsonl"
    damaged = ['{"n": ', "", '{"n": NaN0}', "[" * 100_000, '{"n": "\udc80"}', "null", "7", '"x"', "[]", "{}}"]

    def check(place: int) -> None:
        lines = [*good[:place], *damaged, *good[place:]]
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
        rejects: list[Reject] = []
        read = [row["n"] for _, row in json_files.lines(str(path), rejects.append)]
        assert (read, len(rejects)) == ([0, 1, 2], len(damaged) - 1)
        assert {reject.reason for reject in rejects} == {"not_json"}

    check_cases(check, range(4))


def test_joined_arrays_are_read_as_one_and_other_text_after_an_array_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"

    def check(text: str, expected: list[int] | str) -> None:
        path.write_text(text, encoding="utf-8")
        for chunk in (1, 3, 1000):
            monkeypatch.setattr(json_files, "CHUNK", chunk)
            if isinstance(expected, list):
                assert list(json_files.elements(str(path))) == expected
            else:
                with pytest.raises(InputError, match=expected):
                    list(json_files.elements(str(path)))

    check_cases(check, [
        ("[1]\n[2]\n", [1, 2]),
        ("[1][][2, 3]", [1, 2, 3]),
        ("[]\n\ufeff[4]\n\n", [4]),
        ("[1]\n, 2 ]", "',' after the end of the array, which has 1 elements"),
        ('[1] {"a": 2}', "'{' after the end of the array"),
        ("[1, 2]]", "']' after the end of the array, which has 2 elements"),
        ("[1][2", "element 3 of the array is not valid JSON"),
    ])  # fmt: skip
