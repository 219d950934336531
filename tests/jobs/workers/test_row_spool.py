"""Pictures of a unit that wait for their turn: in memory, then in a temporary file."""

import io
import tempfile
from pathlib import Path
from typing import cast

import pytest

from actors.schemas import ImageRow
from actors.status import Status
from jobs.store.files import faults
from jobs.workers import fetch_urls
from jobs.workers.fetch_urls import RowSpool
from tests.factories import image_row


def row(name: str, data: bytes | None) -> ImageRow:
    columns = image_row(name) | {"bytes": data, "status": Status.OK if data is not None else Status.ERROR}
    return cast(ImageRow, columns)


@pytest.mark.parametrize("in_memory", [1, 1 << 20])
def test_rows_come_back_in_any_order_and_leave_nothing(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(fetch_urls, "SPOOL_BYTES", in_memory)
    rows = [row("a", b"x" * 5000), row("b", None), row("c", b""), row("d", b"yz")]
    with RowSpool() as spool:
        for one in rows:
            spool.add(one)
        for one in reversed(rows):
            assert spool.row(one["image_id"]) == one
        if in_memory == 1:
            place = Path(
                f"/proc/self/fd/{spool._bytes.fileno()}"
            ).readlink()  # deleted, so that no crash leaves it behind
            assert place.parent == spool._folder.path
    assert list(temporary_folder.iterdir()) == []


@pytest.mark.parametrize("size", [1, 1 << 20])  # bytes of a picture: of a small one only the buffer's flush fails
def test_a_full_disk_is_named_with_its_folder(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def full(*_: object, **__: object) -> io.BufferedWriter:
        return io.BufferedWriter(io.FileIO("/dev/full", "w"))

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", full)

    def spool_one() -> None:
        with RowSpool() as spool:
            spool.add(row("a", b"x" * size))
            spool.row("a")

    with pytest.raises(OSError, match="No space left") as caught:
        spool_one()
    assert (faults.sentence(caught.value) or "").startswith(f"TMPDIR={temporary_folder}: No space left on device")
    assert list(temporary_folder.iterdir()) == []
