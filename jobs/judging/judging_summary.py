"""Lines that `judge` prints when it ends."""

from collections.abc import Mapping

from jobs.runtime.console import say


def show_tallies(tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print tokens, the device's share of the time, and the differences between rows that were scored twice.

    Args:
        tallies: counts by group and key, from the run's manifest.
    """
    tokens = tallies.get("tokens", {})
    if tokens.get("passed"):
        whole = tokens["of whole prompts"]
        factor = whole / tokens["passed"]
        say(f"  prompts have {whole:,} tokens, {tokens['passed']:,} were computed ({factor:.1f} times fewer)")
    spent = tallies.get("milliseconds", {})
    if spent.get("all"):
        share = spent.get("device", 0) / spent["all"]
        say(f"  device busy {share:.0%} of {spent['all'] / 1000:,.1f} s since the first batch")
    if rescored := tallies.get("rescored"):
        largest = max(map(float, tallies.get("rescored difference", {"0": 1})))
        failed = f", {rescored['failed']:,} failed" if rescored.get("failed") else ""
        say(
            f"  rescored {rescored['rows']:,} rows individually: {rescored.get('changed answers', 0):,} "
            f"answers changed, largest difference of a probability {largest:.1e}{failed}"
        )
