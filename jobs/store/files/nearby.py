"""Hints for messages about a path that does not exist: a similar name, or the names in the nearest folder."""

import difflib
import re
from pathlib import Path

_NAMED = 6
_LIST = re.compile(r"(^|/)\[[^\[\]]*\]$")  # a list given where a path is expected; few globs look like this

_QUOTED = re.compile(r"""(^|/)(["'])\[.*\]\2$""")


def hint(path: str) -> str:
    """Return `; did you mean …?`, or `; FOLDER has …` for a local path or glob without a match; empty for s3://.

    For a list, `[a,b]`, return that one path is needed.
    """
    if _QUOTED.search(path):
        return "; the value has quotes inside: write one pair of quotes, around key=[…]"
    if _LIST.search(path):
        return (
            "; not a list, but one path is needed: name one table, folder or file, or a glob of files, without brackets"
        )
    return "" if "://" in path else _local_hint(Path(path))


def _local_hint(wanted: Path) -> str:
    if wanted.is_dir():
        return "; the folder has no files that fit"
    folder = wanted.parent
    while not folder.is_dir() and folder != folder.parent:
        wanted, folder = folder, folder.parent
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError:
        return ""
    if near := difflib.get_close_matches(wanted.name, names, n=1, cutoff=0.75):
        return f"; did you mean {folder / near[0]}?"
    if not names:
        return f"; {folder} is empty"
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"; {folder} has {', '.join(names[:_NAMED])}{more}"
