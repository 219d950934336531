"""The command `remine`, which lists the jobs or runs one of them.

Configuration and pyarrow are imported only where they are needed, because the list of jobs must appear at once.
"""

import difflib
import re
import sys

from actors import ROOT
from jobs.errors import InputError
from jobs.runtime.command_line.extras import version
from jobs.runtime.process.console import say

FOLDER = ROOT / "jobs"
LIBRARIES = {"__init__", "__main__", "api", "tables", "errors"}  # files in jobs/ that are not commands
_FILES = [path.stem for path in FOLDER.glob("*.py") if path.stem not in LIBRARIES]
# `jobs/steps/tric_rank.py` is the step `tric rank` of the command `tric`.
STEPS = tuple(sorted(path.stem.replace("_", " ", 1) for path in FOLDER.glob("steps/[a-z]*.py")))
JOBS = tuple(sorted([*_FILES, *STEPS]))
COMMANDS = tuple(dict.fromkeys(job.partition(" ")[0] for job in JOBS))  # the words after `remine`
# Heading of `remine` -> commands, in the order in which a study needs them.
GROUPS = {
    "Your study": "items fetch judge annotate import_ratings report view export release",
    "From a corpus": "terms mine curate embed retrieve candidates choose",
    "More kinds of rating": "generate parse loglik calibrate zero_shot questions question_scores mark_spans pairs "
    "prompts generate_images",
    "Entity linking": "kb link concepts",
    "Dated newspaper pictures": "tric",
    "Tables": "ls verify diff copy rm purge",
    "Pipelines": "run demo",
}
# What others call what a job does -> the job.
_OTHER_WORDS = {
    "report input=FILE": "analyze analyse analysis statistics stats",
    "judge": "ask rate score evaluate eval label classify predict infer inference vqa",
    "annotate": "sheets tasks humans people annotation",
    "import_ratings": "import read load ratings answers",
    "report": "metrics agreement plot plots results summary summarize figures",
    "fetch": "download pictures images photos get",
    "items": "init new create start add",
    "view": "show browse serve open gallery app",
    "export": "save csv dump",
    "ls": "list tables status info",
    "rm": "delete remove del",
    "rm interrupted=true": "gc clean cleanup prune",
    "run": "pipeline pipelines study",
    "copy": "cp move mv",
    "release": "publish upload push",
}

# Scripts that shells load, which ask `remine --complete` for candidates.
_BASH = """_remine() {
  local word="${COMP_LINE:0:COMP_POINT}"
  local -a words
  read -ra words <<< "$word"
  [[ "$word" == *" " ]] && words+=("")
  local last="${words[-1]}" prefix=""
  # Bash splits words at = and replaces only what follows it.
  [[ "$last" == *=* ]] && prefix="${last%%=*}="
  local candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    [[ -n "$candidate" ]] && COMPREPLY+=("${candidate#"$prefix"}")
  done < <(remine --complete "${words[@]:1}" 2>/dev/null)
  [[ "${COMPREPLY[0]:-}" == *= ]] && compopt -o nospace
}
complete -o default -F _remine remine"""
_ZSH = """#compdef remine
_remine() {
  local -a candidates
  candidates=("${(@f)$(remine --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -S '' -a candidates
  (( ${#candidates} && ${#candidates[1]} )) || _files
}
compdef _remine remine"""
_FISH = """complete -c remine -f -a '(remine --complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'"""
SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def module_of(name: str) -> str:
    """Return the module of a job, which may be a step such as `tric rank`."""
    return f"jobs.steps.{name.replace(' ', '_')}" if " " in name else f"jobs.{name}"


def summary(name: str) -> str:
    """Return the first line of the docstring of a job's module, without importing the module."""
    with (ROOT / f"{module_of(name).replace('.', '/')}.py").open(encoding="utf-8") as lines:
        return next(lines).strip().strip('"').rstrip()


def _short(name: str) -> str:
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


def run() -> int:
    """Run `remine` with the arguments of this process and return the exit code."""
    return run_command(sys.argv[1:])


def run_command(arguments: list[str]) -> int:
    """Run `remine` or `python -m jobs`: list the jobs, or run the named one. Returns the exit code."""
    first = arguments[0] if arguments else ""
    match [first.replace("-", "_"), *arguments[1:]] if first[:1] not in ("", "-") else arguments:
        case ["--complete", *words]:
            say("\n".join(candidates(words)))
        case ["--version", *_]:
            say(version())
        case ["completion", *shells]:
            return _print_completion(shells)
        case ["help", name, *rest] if name.replace("-", "_") in COMMANDS:
            return run_command([name, *rest, "--help"])
        case [name] | [name, "--help" | "-h"] if name in COMMANDS and name not in JOBS:
            say("\n".join(step_lines(name)))
        case [name, *rest] if name in COMMANDS:
            from jobs.runtime.command_line import cli

            return cli.main(name, rest)
        case [] | ["help"] | ["--help" | "-h", *_]:
            _list_jobs()
        case ["help", name, *_] | [name, *_] if not name.startswith("-"):
            say(f"error: {no_such_job(name)}", err=True)
            return InputError.exit_code
        case [option, *_]:
            say(
                f"error: {option}: no such option; options follow the name of a job, as in remine mine {option}",
                err=True,
            )
            return InputError.exit_code
    return 0


def no_such_job(name: str) -> str:
    """Return the message about a job that does not exist."""
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


def refuse_unknown_module(arguments: list[str]) -> None:
    """End the process with exit code 2 if `arguments`, those of Python itself, run a job that does not exist."""
    module = arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""
    package, _, name = module.partition(".")
    if package == "jobs" and name and "." not in name and not (FOLDER / f"{name}.py").exists():
        has_steps = f"jobs.{name}: run python -m jobs {name} STEP; STEP is one of {', '.join(steps_of(name))}"
        say(f"error: {has_steps if name in COMMANDS else no_such_job(name)}", err=True)
        sys.exit(InputError.exit_code)


def _list_jobs() -> None:
    say("remine JOB key=value …   (remine JOB --help: its keys; remine JOB --cfg: its configuration)")
    width = max(map(len, COMMANDS))
    for heading, names in GROUPS.items():
        say(f"\n{heading}")
        for name in names.split():
            if name in JOBS:
                say(f"  {name:{width}}  {_short(name)}")
            if steps := steps_of(name):
                say(f"  {name:{width}}  steps, as in remine {name} {steps[0]}: {', '.join(steps)}")
    say("\nremine completion bash|zsh|fish prints a script that completes jobs, keys and values.")


def step_lines(command: str) -> list[str]:
    """Return the steps of a command with what each does."""
    steps = steps_of(command)
    width = max(map(len, steps))
    lines = [f"  {step:{width}}  {_short(f'{command} {step}')}" for step in steps]
    return [f"remine {command} STEP key=value …   (remine {command} {steps[0]} --help: its keys)", *lines]


def candidates(words: list[str]) -> list[str]:
    """Return the completions of the last of the words after `remine`."""
    *before, word = words or [""]
    if not before:
        return [name for name in (*COMMANDS, "completion") if name.startswith(word)]
    if before[0] == "completion":
        return [shell for shell in SHELLS if shell.startswith(word)]
    command = before[0].replace("-", "_")
    steps = [step for step in steps_of(command) if step.startswith(word)] if len(before) == 1 else []
    name = " ".join([command, *before[1:2]]) if " ".join([command, *before[1:2]]) in STEPS else command
    if name not in JOBS:
        return steps
    from jobs.runtime.command_line import cli, help_text

    return [*steps, *help_text.completions(name, cli.job(name).schema, before[1 + (" " in name) :], word)]


def _print_completion(shells: list[str]) -> int:
    if len(shells) != 1 or shells[0] not in SHELLS:
        say(f"error: completion: name one shell of {', '.join(SHELLS)}", err=True)
        return InputError.exit_code
    say(SHELLS[shells[0]])
    return 0
