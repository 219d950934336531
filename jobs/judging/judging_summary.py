"""Print the summary of a run of `judge`."""

from collections.abc import Mapping

from jobs.runtime.console import say


def show_tallies(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print the tokens, the share of time on the device, and the differences between rows scored twice.

    Args:
        tallies: counts by group and key, from the run's manifest.
    """
    tokens = tallies.get("tokens", {})
    if tokens.get("passed"):
        whole = tokens["of whole prompts"]
        factor = whole / tokens["passed"]
        say(f"  prompts have {whole:,} tokens, {tokens['passed']:,} were computed ({factor:.1f} times fewer)")
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
