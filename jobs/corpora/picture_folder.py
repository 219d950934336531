"""A folder or bucket of pictures: its files, and the names from which their image_ids are made."""

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object

# Files with other endings, or none, may be pictures; their first bytes tell.
_NOT_PICTURES = tuple(".csv .gz .html .json .jsonl .md .parquet .pdf .tar .tsv .txt .xlsx .yaml .yml .zip".split())


def list_files(folder: str) -> list[Object]:
    """Return the files below `folder`, including unreadable files but not those whose names begin with a dot.

    Raises:
        InputError: nothing is there, or by their endings none of the files can be a picture.
    """
    files = [file for file in locations.find(folder, strict=False) if not locations.is_hidden(file.uri)]
    if all(file.uri.lower().endswith(_NOT_PICTURES) for file in files):
        example = f" (it has {files[0].uri.rsplit('/', 1)[-1]})" if files else ""
        raise InputError(f"no pictures there{example}", place=folder, remedy="name the folder that has the pictures")
    return files


def name_in(folder: str, uri: str) -> str:
    """Return a file's path below `folder`, from which its image_id is made; if `folder` is the file, its name."""
    return uri.removeprefix(folder).lstrip("/") or uri.rsplit("/", 1)[-1]
