"""Files of a folder of pictures, and the names from which their ids are made."""

from pathlib import Path

import pytest

from jobs.corpora.picture_folder import list_files, name_in
from jobs.errors import InputError


def test_files_below_a_folder_are_named_by_their_path_in_it(tmp_path: Path) -> None:
    for name in ("a.jpg", "sub/a.jpg", "sub/deeper/no picture", ".hidden.jpg", "sub/.DS_Store"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    uris = [file.uri for file in list_files(str(tmp_path))]
    expected = ["a.jpg", "sub/a.jpg", "sub/deeper/no picture"]
    assert [name_in(str(tmp_path), uri) for uri in uris] == expected
    assert [name_in(f"{tmp_path}/", uri) for uri in uris] == expected
    assert name_in(uris[0], uris[0]) == "a.jpg"


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([".DS_Store"], "no pictures there; name the folder"),
        (["a.txt", "sub/b.CSV"], "no pictures there (it has a.txt); name the folder"),
        ([], "the folder is empty"),
    ],
)
def test_a_folder_without_pictures_is_refused(tmp_path: Path, names: list[str], why: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError) as error:
        list_files(str(tmp_path))
    assert why in str(error.value)


def test_a_file_in_place_of_a_folder_is_refused_unless_it_may_be_a_picture(tmp_path: Path) -> None:
    for name in ("set.csv", "a.jpg"):
        (tmp_path / name).write_bytes(b"x")
    assert len(list_files(f"{tmp_path}/a.jpg")) == 1
    with pytest.raises(InputError, match="no pictures there"):
        list_files(f"{tmp_path}/set.csv")
