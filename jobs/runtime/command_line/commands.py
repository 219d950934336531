"""The command `remine`, which lists the jobs or runs one of them.

Configuration and pyarrow are imported only where they are needed, because the list of jobs must appear at once.
"""

import sys

from jobs.errors import InputError
from jobs.runtime.command_line.extras import version
from jobs.runtime.command_line.job_names import (
    COMMANDS,
    FOLDER,
    GROUPS,
    JOBS,
    STEPS,
    no_such_job,
    short_summary,
    step_lines,
    steps_of,
)
from jobs.runtime.process.console import say

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
            say(f"error: {no_such_job(name if first == 'help' else first)}", err=True)
            return InputError.exit_code
        case [option, *_]:
            say(
                f"error: {option}: no such option; options follow the name of a job, as in remine mine {option}",
                err=True,
            )
            return InputError.exit_code
    return 0


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
                say(f"  {name:{width}}  {short_summary(name)}")
            if steps := steps_of(name):
                say(f"  {name:{width}}  steps, as in remine {name} {steps[0]}: {', '.join(steps)}")
    say("\nremine completion bash|zsh|fish prints a script that completes jobs, keys and values.")


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
