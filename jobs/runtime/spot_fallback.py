"""Which kind of machine Ray's autoscaler starts: on-demand where the provider has no spot machines.

`ray start` on the head gets `RAY_AUTOSCALER_UTILIZATION_SCORER=jobs.runtime.spot_fallback.score` (`cluster.yaml`).
Ray's own scorer ignores that a kind could not be started, and asks for it again and again.
"""

from typing import Any


def score(node_resources: Any, resources: Any, node_type: str, *, node_availability_summary: Any) -> Any:
    """Return Ray's score of a kind of machine for the waiting work, lower where the kind could not be started lately.

    Of equal scores Ray takes the kind whose name sorts last. A kind that failed is unavailable for half an hour.
    """
    from ray.autoscaler._private.resource_demand_scheduler import _default_utilization_scorer

    base = _default_utilization_scorer(
        node_resources, resources, node_type, node_availability_summary=node_availability_summary
    )
    if base is None:  # nothing fits
        return None
    record = node_availability_summary.node_availabilities.get(node_type)
    # First, as for Ray, whether a GPU would be wasted.
    return (base[0], record is None or record.is_available, *base[1:])
