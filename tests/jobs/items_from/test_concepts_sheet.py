"""The sheet of concepts that a person completes: written in Excel's encoding, and never overwritten once completed."""

from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.items_from.concepts import COLUMNS
from jobs.items_from.concepts_sheet import as_csv, check_not_completed

ROW = {**dict.fromkeys(COLUMNS, "x"), "concept": "=dhol", "title": "'Ud", "labels": "Assam; Bihār", "picture": ""}


def test_only_a_sheet_as_it_was_written_is_replaced(tmp_path: Path) -> None:
    sheet = tmp_path / "concepts.csv"
    check_not_completed(str(sheet))
    written = as_csv([ROW, ROW])
    assert written.startswith(b"\xef\xbb\xbf" + ",".join(COLUMNS).encode())
    assert "Bihār".encode() in written
    assert b"'=dhol" in written
    assert b",'Ud," in written
    sheet.write_bytes(written)
    check_not_completed(str(sheet))
    completed = as_csv([ROW, {**ROW, "picture": "https://x/1.jpg"}])
    other_columns = written.replace(b"concept,", b"concept,note,", 1)
    for changed in (completed, other_columns, b"\xff\xfe\x00"):
        sheet.write_bytes(changed)
        with pytest.raises(InputError, match=r"concepts\.csv: has been edited, .* use another out="):
            check_not_completed(str(sheet))
