"""Regular machines in place of spot machines that a cloud lacks, on AWS (`AwsProvider`) and Google (`GcpProvider`).

A cluster's file names one of these two classes, each of which is made from Ray's own provider when it is asked for.

Ray's autoscaler (version 2, the default of `ray up` since Ray 2.50) lowers the availability of a kind of machine only
if a machine that the cloud promised has not come up within an hour. A request that the cloud refuses, for example
because spot machines are scarce, is repeated every few seconds without end, whatever the priorities of the kinds.
"""

import logging
from collections.abc import Mapping
from typing import Any

from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import TAG_RAY_LAUNCH_REQUEST

logger = logging.getLogger(__name__)

_SPOT_SCHEDULING = {"provisioningModel", "preemptible", "instanceTerminationAction"}  # of Google Cloud


def regular(node_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `node_config`, of AWS or Google Cloud, without what makes it a spot machine."""
    config = {key: value for key, value in node_config.items() if key not in ("InstanceMarketOptions", "scheduling")}
    scheduling = [
        {key: value for key, value in entry.items() if key not in _SPOT_SCHEDULING}
        for entry in node_config.get("scheduling", [])
    ]
    kept = [entry for entry in scheduling if entry]
    return config | ({"scheduling": kept} if kept else {})


class SpotFirst(NodeProvider):
    """Requests each machine again as a regular one if the cloud does not start it as a spot machine."""

    def create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> dict[str, Any]:
        """Start `count` machines and return them by id.

        Raises:
            Exception: the cloud refused the regular machines.
        """
        fallback = regular(node_config)
        if fallback == node_config:
            return dict(super().create_node(node_config, tags, count) or {})
        try:
            machines = dict(super().create_node(node_config, tags, count) or {})
            missing, reason = count - len(machines), "it started fewer than requested"
        except Exception as error:  # each cloud has its own errors
            machines = {}
            # Google Cloud starts machines one by one: those before and after the refused one exist.
            request = {key: value for key, value in tags.items() if key == TAG_RAY_LAUNCH_REQUEST}
            missing, reason = count - (len(self.non_terminated_nodes(request)) if request else 0), str(error)
        if missing > 0:
            logger.warning("The cloud has no spot machines (%s): starting %d regular ones", reason, missing)
            machines |= super().create_node(fallback, tags, missing) or {}
        return machines


def __getattr__(name: str) -> type[NodeProvider]:  # the modules of Ray's providers need the library of their cloud
    if name == "AwsProvider":
        from ray.autoscaler._private.aws.node_provider import AWSNodeProvider

        return type(name, (SpotFirst, AWSNodeProvider), {"__module__": __name__})
    if name == "GcpProvider":
        from ray.autoscaler._private.gcp.node_provider import GCPNodeProvider

        return type(name, (SpotFirst, GCPNodeProvider), {"__module__": __name__})
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
