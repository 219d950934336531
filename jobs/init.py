"""Begin a study: write a rubric and a file of the study's inputs, both with comments.

    remine init mood

Writes mood.yaml, the questions that models and people are asked, and mood_study.yaml, which names your table of
pictures, their folder, and the models. Edit both; then `remine run pipeline=mood_study.yaml` does the rest
(docs/pipelines.md). Existing files are never replaced.
"""

import re
import sys
from dataclasses import dataclass

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.process.console import say
from jobs.store.files import locations

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_PLACEHOLDER = "NAME"  # in the files of conf/study


@dataclass
class InitConfig:
    """Keys of `init`."""

    name: str = MISSING  # of the study: letters, digits, _ and -, beginning with a letter
    out: str = "."  # the folder in which to write the files


def execute(cfg: InitConfig) -> list[str]:
    """Write the files and return their places; see the module's docstring.

    Raises:
        InputError: the name cannot be that of a study, the folder is missing, or one of the files exists; nothing was
            written.
    """
    if not _NAME.fullmatch(cfg.name):
        raise InputError(
            f"must be at most 60 letters, digits, _ and -, beginning with a letter{_hint(cfg.name)}",
            key="name",
            value=cfg.name,
        )
    folder = locations.absolute(cfg.out)
    texts = {
        locations.join(folder, f"{cfg.name}{ending}.yaml"): (CONF / "study" / f"{file}.yaml").read_text("utf-8")
        for file, ending in (("rubric", ""), ("study", "_study"))
    }
    if existing := [uri for uri in texts if locations.exists(uri)]:
        raise InputError("exists; use another name or out=", place=existing[0])
    for uri, text in texts.items():
        locations.replace(uri, text.replace(_PLACEHOLDER, cfg.name).encode())
    rubric, study = texts
    say(f"init: {rubric}: the questions; edit them\n  {study}: table, pictures and models; edit it, then run")
    say(f"  remine run pipeline={locations.join(cfg.out, f'{cfg.name}_study.yaml').removeprefix('./')} plan=true")
    return list(texts)


def _hint(name: str) -> str:
    stem = name.removesuffix(".yaml")
    joined = re.sub(r"[^A-Za-z0-9_-]+", "_", stem.strip())
    if stem != name and _NAME.fullmatch(stem):
        return f"; init {stem} writes {name}"
    return f"; did you mean {joined}?" if _NAME.fullmatch(joined) else ""


JOB = cli.Job("init", InitConfig, execute, positional=("name",), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("init"))
