"""Printed summaries of runs that ask a model."""

from collections.abc import Mapping

from actors.quantities import quantity
from jobs.runtime.process.console import say


def show_prompts(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print where prompts differ from their file; nothing if they do not.

    Prints the number of items whose context was cut, in total and by field, and that of items without the text of their
    condition, by reason, and whether the model's chat template takes no system turn.
    """
    if items := tallies.get("truncated", {}).get("items"):
        fields = ", ".join(f"{field} {count:,}" for field, count in sorted(tallies["truncated field"].items()))
        say(f"  context truncated of {items:,} items ({fields}); their rows name the fields in `truncated`")
    if empty := tallies.get("empty context"):
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(empty.items()))
        say(f"  no text of the condition for {quantity(sum(empty.values()), 'item')} ({reasons}); see `empty_context`")
    if tallies.get("system text"):
        say("  the model's chat template takes no system turn here: its text begins the user's turn")


def show_tallies(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print the tokens, the items cut, the device's share of the time, and the changes of rows that were rescored.

    Args:
        tallies: counts by group and key, from the run's manifest.
    """
    tokens = tallies.get("tokens", {})
    if tokens.get("passed"):
        whole = tokens["of whole prompts"]
        factor = whole / tokens["passed"]
        say(f"  prompts have {whole:,} tokens, {tokens['passed']:,} were computed ({factor:.1f} times fewer)")
    show_prompts(tallies)
    show_improbable(tallies)
    milliseconds = tallies.get("milliseconds", {})
    if milliseconds.get("all"):
        share = milliseconds.get("device", 0) / milliseconds["all"]
        say(f"  device busy {share:.0%} of {milliseconds['all'] / 1000:,.1f} s since the first batch")
    if rescored := tallies.get("rescored"):
        largest = max(map(float, tallies.get("rescored difference", {"0": 1})))
        failed = f", {rescored['failed']:,} failed" if rescored.get("failed") else ""
        say(
            f"  rescored {quantity(rescored['rows'], 'row')} individually: {rescored.get('changed answers', 0):,} "
            f"answers changed, largest difference of a probability {largest:.1e}{failed}"
        )


def show_improbable(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Warn if most answers are ones that the model would hardly write; the manifest has the counts as well."""
    answers = tallies.get("answers", {})
    if (improbable := answers.get("improbable", 0)) > answers.get("scored", 0) / 2:
        say(
            f"  warning: in {improbable:,} of {answers['scored']:,} rows, the answers have less than 1 % of the "
            "probability (outside_mass above 0.99): the model would write something else, such as a thought; look at "
            "its prompts with plan=true show_prompts=1",
            err=True,
        )


def show_marks(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print how many prompts `mark_spans` wrote and scored, and how long that took.

    Args:
        tallies: counts by group and key, from the run's manifest.
    """
    prompts = tallies.get("prompts", {})
    seconds = tallies.get("milliseconds", {}).get("marking", 0) / 1000
    if prompts:
        counts = ", ".join(f"{count:,} {way}" for way, count in sorted(prompts.items()))
        say(f"  prompts  {counts}, in {seconds:,.1f} s of the model's processes")
