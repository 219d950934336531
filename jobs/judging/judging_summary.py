"""Print the summaries of runs that ask a model."""

from collections.abc import Mapping

from jobs.runtime.console import say


def show_truncated(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print the number of items whose context was cut, and of each field that was; nothing if there are none."""
    if items := tallies.get("truncated", {}).get("items"):
        fields = ", ".join(f"{field} {count:,}" for field, count in sorted(tallies["truncated field"].items()))
        say(f"  context truncated of {items:,} items ({fields}); their rows name the fields in `truncated`")


def show_tallies(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print the tokens, the items cut, the share of time on the device, and the differences of rows scored twice.

    Args:
        tallies: counts by group and key, from the run's manifest.
    """
    tokens = tallies.get("tokens", {})
    if tokens.get("passed"):
        whole = tokens["of whole prompts"]
        factor = whole / tokens["passed"]
        say(f"  prompts have {whole:,} tokens, {tokens['passed']:,} were computed ({factor:.1f} times fewer)")
    show_truncated(tallies)
    milliseconds = tallies.get("milliseconds", {})
    if milliseconds.get("all"):
        share = milliseconds.get("device", 0) / milliseconds["all"]
        say(f"  device busy {share:.0%} of {milliseconds['all'] / 1000:,.1f} s since the first batch")
    if rescored := tallies.get("rescored"):
        largest = max(map(float, tallies.get("rescored difference", {"0": 1})))
        failed = f", {rescored['failed']:,} failed" if rescored.get("failed") else ""
        say(
            f"  rescored {rescored['rows']:,} rows individually: {rescored.get('changed answers', 0):,} "
            f"answers changed, largest difference of a probability {largest:.1e}{failed}"
        )
