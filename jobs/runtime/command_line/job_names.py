"""The names of jobs and of the steps of commands, in the groups in which `remine` lists them.

Nothing is imported of a job, because the list of jobs must appear at once.
"""

import difflib
import re

from actors import ROOT
from jobs.errors import InputError

FOLDER = ROOT / "jobs"
LIBRARIES = {"__init__", "__main__", "api", "tables", "errors"}  # files in jobs/ that are not commands
_FILES = [path.stem for path in FOLDER.glob("*.py") if path.stem not in LIBRARIES]
# `jobs/steps/tric_rank.py` is the step `tric rank` of the command `tric`.
STEPS = tuple(sorted(path.stem.replace("_", " ", 1) for path in FOLDER.glob("steps/[a-z]*.py")))
JOBS = tuple(sorted([*_FILES, *STEPS]))
COMMANDS = tuple(dict.fromkeys(job.partition(" ")[0] for job in JOBS))  # the words after `remine`
# Heading of `remine` -> commands, in the order in which a study needs them.
GROUPS = {
    "Your study": "init items fetch judge annotate import_ratings report view export release",
    "From a corpus": "terms mine curate embed retrieve candidates choose",
    "More kinds of rating": "generate parse loglik calibrate zero_shot questions question_scores mark_spans pairs "
    "prompts generate_images",
    "Entity linking": "kb link concepts",
    "Dated newspaper pictures": "tric",
    "Tables": "ls verify diff copy rm purge",
    "Models": "models",
    "Pipelines": "run demo",
}
# What others call what a job does -> the job.
_OTHER_WORDS = {
    "report input=FILE": "analyze analyse analysis statistics stats",
    "judge": "ask rate score evaluate eval label classify predict infer inference vqa",
    "annotate": "sheets tasks humans people annotation",
    "import_ratings": "import read load ratings answers",
    "report": "evaluate evaluation metrics agreement plot plots results summary summarize figures",
    "fetch": "download pictures images photos get",
    "init": "new create start begin template",
    "items": "add",
    "view": "show browse serve open gallery app",
    "export": "save csv dump",
    "ls": "list tables status info",
    "rm": "delete remove del",
    "rm interrupted=true": "gc clean cleanup prune",
    "run": "pipeline pipelines study",
    "copy": "cp move mv",
    "release": "publish upload push",
    "--version": "version",
}


def module_of(name: str) -> str:
    """Return the module of a job, which may be a step such as `tric rank`."""
    return f"jobs.steps.{name.replace(' ', '_')}" if " " in name else f"jobs.{name}"


def summary(name: str) -> str:
    """Return the first line of the docstring of a job's module, without importing the module."""
    with (ROOT / f"{module_of(name).replace('.', '/')}.py").open(encoding="utf-8") as lines:
        return next(lines).strip().strip('"').rstrip()


def short_summary(name: str) -> str:
    """Return the summary of a job without the tables that it writes."""
    return summary(name).partition(" -> ")[0].removesuffix(".")


def steps_of(command: str) -> list[str]:
    """Return the names of the steps of a command, without the command; empty if it has none."""
    return [job.partition(" ")[2] for job in STEPS if job.startswith(f"{command} ")]


def with_step(command: str, arguments: list[str]) -> tuple[str, list[str]]:
    """Return the job of a command line, and the job's arguments: those after the step, if it names one.

    Raises:
        InputError: a word in place of a step is none, or the command needs one.
    """
    steps = steps_of(command)
    word = arguments[0].replace("-", "_") if arguments[:1] else ""
    if word in steps:
        return f"{command} {word}", arguments[1:]
    if not steps or (command in JOBS and (not word.isidentifier() or word.startswith("_"))):
        return command, arguments
    near = difflib.get_close_matches(word, steps, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    problem = f"{arguments[0]}: no such step{hint}" if word and "=" not in word else "needs a step"
    raise InputError(f"{command} {problem}; must be one of {', '.join(steps)}, as in remine {command} {steps[0]} …")


def no_such_job(name: str) -> str:
    """Return the message about a job that does not exist."""
    if " " in name and name.partition(" ")[0] in COMMANDS:
        return f"{name!r}: no such job; the quotes make one word of it: quote single values, as in remine {name}"
    near = _near_jobs(name)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    first = ", ".join(GROUPS["Your study"].split())
    return f"{name}: no such job{hint}; a study of your own uses {first}; `remine` lists all jobs"


def _near_jobs(name: str) -> list[str]:
    """Return jobs that `name` may mean: misspelt, in other words, in another order, or a step without its command."""
    word = name.lower().replace("-", "_")
    parts = {part.rstrip("s") for part in word.split("_")}
    return (
        [job for job in JOBS if {part.rstrip("s") for part in re.split("[ _]", job)} == parts]
        or [job for job, words in _OTHER_WORDS.items() if word in words.split()]
        or difflib.get_close_matches(word, COMMANDS, n=1)
        or [job for job in STEPS if job.endswith(f" {word}")]
        or [job for job, words in _OTHER_WORDS.items() if parts & set(words.split())]
    )


def step_lines(command: str) -> list[str]:
    """Return the steps of a command with what each does."""
    steps = steps_of(command)
    width = max(map(len, steps))
    lines = [f"  {step:{width}}  {short_summary(f'{command} {step}')}" for step in steps]
    return [f"remine {command} STEP key=value …   (remine {command} {steps[0]} --help: its keys)", *lines]
