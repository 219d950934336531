"""The journal of an interrupted purge: it grows, and belongs to one list."""

import json
from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.purging import journal
from jobs.purging.matching import Gone

GONE = Gone({"b", "a"}, {"https://x/a.jpg"}, {"a"}, {"m"}, {"b"})


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert journal.read(str(tmp_path), "list") is None
    begun = journal.begin(str(tmp_path), "list", GONE, None)
    assert (begun.listed, begun.gone) == ("list", GONE)
    assert journal.read(str(tmp_path), "list") == begun
    content = json.loads((tmp_path / journal.FILE).read_text())
    assert content["marks"] == ["a", "b"]
    assert set(content) == {"purge", "listed", "marks", "urls", "pictures", "matched", "others"}


def test_a_continued_purge_keeps_its_name_and_its_ids(tmp_path: Path) -> None:
    first = journal.begin(str(tmp_path), "list", GONE, None)
    more = journal.begin(str(tmp_path), "list", Gone({"c"}, {"https://x/c.jpg"}, set(), {"n"}), first)
    assert more == journal.read(str(tmp_path), "list")
    assert more.purge == first.purge
    assert more.gone == Gone({"a", "b", "c"}, {"https://x/a.jpg", "https://x/c.jpg"}, {"a"}, {"m", "n"}, {"b"})
    assert journal.begin(str(tmp_path), "list", GONE, None).purge != first.purge


def test_another_list_is_refused(tmp_path: Path) -> None:
    journal.begin(str(tmp_path), "list", GONE, None)
    with pytest.raises(InputError, match=r"^exclusions=: .*_purge\.json"):
        journal.read(str(tmp_path), "other")


def test_an_interruption_names_the_remaining_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with journal.mentioned_if_interrupted(str(tmp_path)):
        pass
    assert capsys.readouterr() == ("", "")
    with pytest.raises(KeyboardInterrupt), journal.mentioned_if_interrupted(str(tmp_path)):
        raise KeyboardInterrupt
    output = capsys.readouterr()
    assert output.out == ""
    assert journal.uri_of(str(tmp_path)) in output.err
