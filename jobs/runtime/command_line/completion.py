"""Completion of `remine` in shells: the scripts that shells load, and the candidates that they ask for."""

from jobs.runtime.configuration.key_types import alternatives, type_of

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


def of_job(job: str, schema: type, before: list[str], word: str) -> list[str]:
    """Return the keys or values that begin with `word`, after the words `before` of the same job.

    A word without `=` is completed to `key=`, in the form in which it was typed (`--key`), without keys that are
    already given; a value is completed to the files of its group in `conf/`, or to true and false.
    """
    from jobs.runtime.command_line.help_text import (
        keys,  # here, because it imports pyarrow, which the scripts do not need
    )

    dashes = "--" if word.startswith("-") else ""
    options = {key.name: key.options for key in keys(job, schema) if not key.name.endswith(".…")}

    def values(key: str) -> tuple[str, ...]:
        return options.get(key) or (("true", "false") if bool in alternatives(type_of(schema, key)) else ())

    name, equals, _ = word.removeprefix(dashes).partition("=")
    if equals:
        texts = [f"{dashes}{name}={value}" for value in values(name)]
    elif not dashes and before and before[-1].startswith("--") and "=" not in before[-1]:
        texts = list(values(before[-1].removeprefix("--")))
    else:
        present = {text.removeprefix("--").partition("=")[0] for text in before}
        texts = [f"{dashes}{key}{'' if dashes else '='}" for key in options if key not in present]
    return [text for text in texts if text.startswith(word)]
