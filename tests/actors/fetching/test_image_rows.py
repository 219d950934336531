from actors.fetching.image_rows import (
    excluded,
    failed,
    rendition_name,
    stored_picture,
    too_many_bytes,
    undecodable,
    withheld,
)
from actors.pictures import PictureError, PictureFacts
from actors.status import PROCESS_DIED, Status, failed_status


def test_rendition_names() -> None:
    assert (rendition_name(300), rendition_name(None)) == ("w300", "original")


def test_columns_of_a_picture() -> None:
    facts = PictureFacts("PNG", 4, 3, "ab", "cd")
    assert stored_picture(b"x", facts) == {"bytes": b"x", "status": "ok", **facts._asdict()}


def test_columns_without_a_picture() -> None:
    expected = {"status": "error", "error_kind": "too_many_bytes", "error_message": "9 bytes, and 5 are allowed"}
    assert undecodable(too_many_bytes(9, 5)) == expected
    assert undecodable(PictureError("empty", "no bytes")) == failed(Status.ERROR, "empty", "no bytes")


def test_pictures_that_must_not_be_read() -> None:
    assert withheld("reported") == excluded()
    assert excluded()["status"] == "reported"
    assert withheld(failed_status(PROCESS_DIED)) == failed(Status.ERROR, *PROCESS_DIED)
    assert withheld("ok") is withheld(None) is None
