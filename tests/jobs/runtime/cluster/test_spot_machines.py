"""A machine that the cloud refuses as a spot machine is requested as a regular one; the head is not concerned."""

from collections.abc import Iterator
from typing import Any

import boto3
import botocore.exceptions
import pytest
from moto import mock_aws
from ray.autoscaler._private.providers import _get_node_provider_cls
from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import TAG_RAY_LAUNCH_REQUEST, TAG_RAY_USER_NODE_TYPE

from jobs.runtime.cluster.spot_machines import SpotFirst, regular

SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}
TAGS = {TAG_RAY_LAUNCH_REQUEST: "one", TAG_RAY_USER_NODE_TYPE: "gpu"}


class Cloud(NodeProvider):
    """Starts machines one by one, as Google Cloud, up to a number of spot machines; then it refuses."""

    def __init__(self, spot: int) -> None:
        super().__init__({}, "remine")
        self.spot, self.machines = spot, dict[str, str]()

    def create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> dict[str, str]:
        kind = "spot" if "SPOT" in str(node_config) else "regular"
        before = set(self.machines)
        for _ in range(count):
            if kind == "spot" and list(self.machines.values()).count("spot") == self.spot:
                raise RuntimeError("ZONE_RESOURCE_POOL_EXHAUSTED")
            self.machines[f"{tags[TAG_RAY_LAUNCH_REQUEST]}-{len(self.machines)}"] = kind
        return {name: kind for name, kind in self.machines.items() if name not in before}

    def non_terminated_nodes(self, filters: dict[str, str]) -> list[str]:
        return [name for name in self.machines if name.startswith(filters[TAG_RAY_LAUNCH_REQUEST])]


class FakeProvider(SpotFirst, Cloud):
    """Mixed as the providers of AWS and Google Cloud are."""


def test_what_makes_a_spot_machine_is_left_out() -> None:
    assert regular({"InstanceType": "m", **SPOT}) == {"InstanceType": "m"}
    spot = {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}
    gpu = {"machineType": "g", "scheduling": [{**spot, "onHostMaintenance": "TERMINATE"}]}
    assert regular(gpu) == {"machineType": "g", "scheduling": [{"onHostMaintenance": "TERMINATE"}]}
    assert regular({"machineType": "c", "scheduling": [spot]}) == {"machineType": "c"}
    for unchanged in ({"machineType": "h"}, regular(gpu)):
        assert regular(unchanged) == unchanged


def test_as_many_machines_start_as_were_requested() -> None:
    spot = {"scheduling": [{"provisioningModel": "SPOT"}]}
    for available, kinds in ((9, ["spot"] * 3), (2, ["spot", "spot", "regular"]), (0, ["regular"] * 3)):
        provider = FakeProvider(available)
        provider.create_node(spot, TAGS, 3)
        assert sorted(provider.machines.values(), reverse=True) == kinds
    provider.create_node({"machineType": "head"}, TAGS, 1)
    assert len(provider.machines) == 4


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Ray's own provider for AWS, as `cluster.yaml` names it, in front of a simulated EC2 without spot machines."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "x")
    for key in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"):  # of the tests' own server
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        provider_class = "jobs.runtime.cluster.spot_machines.AwsProvider"
        settings = {"type": "external", "module": provider_class, "region": "us-east-1"}
        provider = _get_node_provider_cls(settings)({**settings, "cache_stopped_nodes": False}, "remine")
        create = provider.ec2_fail_fast.create_instances

        def create_regular(**request: Any) -> Any:
            if "InstanceMarketOptions" in request:
                error = {"Error": {"Code": "InsufficientInstanceCapacity", "Message": "no spot"}}
                raise botocore.exceptions.ClientError(error, "RunInstances")
            return create(**request)

        monkeypatch.setattr(provider.ec2_fail_fast, "create_instances", create_regular)
        yield provider


def test_rays_provider_for_aws_starts_on_demand_machines_where_there_are_no_spot_machines(aws: Any) -> None:
    client = boto3.client("ec2", region_name="us-east-1")
    subnet = client.describe_subnets()["Subnets"][0]["SubnetId"]
    image = client.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    machine = {"ImageId": image, "InstanceType": "g6e.2xlarge", "SubnetIds": [subnet], **SPOT}
    aws.create_node_with_resources_and_labels(machine, TAGS, 1, {"GPU": 1}, {})
    (node,) = aws.non_terminated_nodes({TAG_RAY_USER_NODE_TYPE: "gpu"})
    ((instance,),) = (group["Instances"] for group in client.describe_instances(InstanceIds=[node])["Reservations"])
    assert "InstanceLifecycle" not in instance
    assert instance["InstanceType"] == "g6e.2xlarge"
