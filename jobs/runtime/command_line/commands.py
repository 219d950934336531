"""The command `remine`, which lists the jobs or runs one of them.

Configuration and pyarrow are imported only where they are needed, because the list of jobs must appear at once.
"""

import difflib
import sys

from actors import ROOT
from jobs.errors import InputError
from jobs.runtime.command_line.extras import version
from jobs.runtime.process.console import say

FOLDER = ROOT / "jobs"
LIBRARIES = {"__init__", "__main__", "tables", "errors"}  # files in jobs/ that are not commands
JOBS = tuple(sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in LIBRARIES))

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


def summary(name: str) -> str:
    """Return the first line of the docstring of module `jobs.<name>`, without importing the module."""
    with (FOLDER / f"{name}.py").open(encoding="utf-8") as lines:
        return next(lines).strip().strip('"').rstrip()


def run() -> int:
    """Run `remine` with the arguments of this process and return the exit code."""
    return run_command(sys.argv[1:])


def run_command(arguments: list[str]) -> int:
    """Run `remine` or `python -m jobs`: list the jobs, or run the named one. Returns the exit code."""
    match arguments:
        case ["--complete", *words]:
            say("\n".join(candidates(words)))
        case ["--version", *_]:
            say(version())
        case ["completion", *shells]:
            return _print_completion(shells)
        case ["help", name] if name in JOBS:
            return run_command([name, "--help"])
        case [name, *rest] if name in JOBS:
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
    near = difflib.get_close_matches(name, JOBS, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"{name}: no such job{hint}; must be one of {', '.join(JOBS)}"


def refuse_unknown_module(arguments: list[str]) -> None:
    """End the process with exit code 2 if `arguments`, those of Python itself, run a job that does not exist."""
    module = arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""
    package, _, name = module.partition(".")
    if package == "jobs" and name and "." not in name and not (FOLDER / f"{name}.py").exists():
        say(f"error: {no_such_job(name)}", err=True)
        sys.exit(InputError.exit_code)


def _list_jobs() -> None:
    say("remine JOB key=value …, or python -m jobs.JOB key=value …   (--help: its keys; --cfg: its configuration)\n")
    width = max(map(len, JOBS))
    for name in JOBS:
        say(f"  {name:{width}}  {summary(name)}")
    say("\nremine completion bash|zsh|fish prints a script that completes jobs, keys and values.")


def candidates(words: list[str]) -> list[str]:
    """Return the completions of the last of the words after `remine`."""
    *before, word = words or [""]
    if not before:
        return [name for name in (*JOBS, "completion") if name.startswith(word)]
    if before[0] != "completion" and before[0] not in JOBS:
        return []
    if before[0] == "completion":
        return [shell for shell in SHELLS if shell.startswith(word)]
    from jobs.runtime.command_line import cli, help_text

    return help_text.completions(before[0], cli.job(before[0]).schema, before[1:], word)


def _print_completion(shells: list[str]) -> int:
    if len(shells) != 1 or shells[0] not in SHELLS:
        say(f"error: completion: name one shell of {', '.join(SHELLS)}", err=True)
        return InputError.exit_code
    say(SHELLS[shells[0]])
    return 0
