"""Files of a folder of pictures, and the names from which their ids are made."""

from pathlib import Path

from jobs.corpora.picture_folder import list_files, name_in


def test_files_below_a_folder_are_named_by_their_path_in_it(tmp_path: Path) -> None:
    for name in ("a.jpg", "sub/a.jpg", "sub/deeper/no picture", ".hidden.jpg", "sub/.DS_Store"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    uris = [file.uri for file in list_files(str(tmp_path))]
    expected = ["a.jpg", "sub/a.jpg", "sub/deeper/no picture"]
    assert [name_in(str(tmp_path), uri) for uri in uris] == expected
    assert [name_in(f"{tmp_path}/", uri) for uri in uris] == expected
    assert name_in(uris[0], uris[0]) == "a.jpg"
