"""Ray's provider for AWS, which starts regular machines too (`jobs.runtime.cluster.spot_machines`)."""

from ray.autoscaler._private.aws.node_provider import AWSNodeProvider

from jobs.runtime.cluster.spot_machines import SpotFirst


class AwsProvider(SpotFirst, AWSNodeProvider):
    """The provider that the file of the cluster names."""
