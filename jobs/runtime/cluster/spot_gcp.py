"""Ray's provider for Google Cloud, which starts regular machines too (`jobs.runtime.cluster.spot_machines`)."""

from ray.autoscaler._private.gcp.node_provider import GCPNodeProvider

from jobs.runtime.cluster.spot_machines import SpotFirst


class GcpProvider(SpotFirst, GCPNodeProvider):
    """The provider that the file of the cluster names."""
