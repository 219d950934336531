"""The files that start a cluster agree with each other, with the prices and presets, and with what Ray accepts."""

import contextlib
import copy
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jobs.runtime.cluster.spot_machines import regular
from tests.cluster_files import CLUSTERS, KUBERNETES, ROOT, load, opening_comment


@pytest.fixture
def cluster() -> dict[str, Any]:
    return load(ROOT / "cluster.yaml")


def commands(config: dict[str, Any]) -> str:
    return "\n".join(command for key, value in config.items() if key.endswith("_commands") for command in value)


class TestClusterYaml:
    def test_ray_accepts_it(self, cluster: dict[str, Any]) -> None:
        from ray.autoscaler._private.util import prepare_config, validate_config

        prepared = prepare_config(copy.deepcopy(cluster))
        validate_config(prepared)
        # Ray merges its defaults in: what is said here must have replaced them, not been added to them.
        assert "nightly" not in commands(prepared)
        assert ".whl" not in commands(prepared)
        assert "://" not in commands(prepared)

    def test_every_default_list_of_commands_is_overridden(self, cluster: dict[str, Any]) -> None:
        from ray.autoscaler._private.util import prepare_config

        defaults = prepare_config({"cluster_name": "defaults", "provider": {"type": "aws", "region": "nowhere"}})
        assert {key for key in defaults if key.endswith("_commands")} <= cluster.keys()

    def test_workers_scale_from_zero_and_gpus_are_there(self, cluster: dict[str, Any]) -> None:
        kinds = cluster["available_node_types"]
        workers = {name: kind for name, kind in kinds.items() if name != cluster["head_node_type"]}
        assert all(kind["min_workers"] == 0 for kind in workers.values())
        assert {name: kind["resources"].get("GPU", 0) for name, kind in workers.items()} == {
            "cpu": 0,
            "gpu": 1,
            "gpus": 8,
        }
        assert workers["gpus"]["max_workers"] == 0  # else Ray would start one for what does not fit the others
        # The autoscaler knows a kind it never started from these numbers only.
        assert all(kind["resources"]["CPU"] > 0 for kind in workers.values())
        assert cluster["max_workers"] >= max(kind["max_workers"] for kind in workers.values())

    def test_head_takes_no_work(self, cluster: dict[str, Any]) -> None:
        assert cluster["available_node_types"][cluster["head_node_type"]]["resources"] == {"CPU": 0}

    def test_machines_share_an_image_and_have_credentials_by_profile(self, cluster: dict[str, Any]) -> None:
        machines = [kind["node_config"] for kind in cluster["available_node_types"].values()]
        assert len({machine["ImageId"] for machine in machines}) == 1
        assert all(machine["IamInstanceProfile"]["Arn"] for machine in machines)
        assert not re.search(r"AKIA|secret_access|aws_session", (ROOT / "cluster.yaml").read_text(encoding="utf-8"))

    def test_environment_comes_from_the_constraints(self, cluster: dict[str, Any]) -> None:
        installs = [
            command for command in commands(cluster).splitlines() if "/pip" in command and " install " in command
        ]
        assert installs
        assert all("-c constraints.txt" in command for command in installs)
        mounted = cluster["file_mounts"].values()
        assert {"constraints.txt", "pyproject.toml", "setup.py", "jobs", "actors", "conf"} <= set(mounted)
        # Ray hashes every file of a mount, excluded or not: the whole tree would mean the environment as well.
        assert not {".", "./", ".venv"} & set(mounted)
        assert ".venv" in cluster["rsync_exclude"]

    def test_mounted_files_exist(self, cluster: dict[str, Any]) -> None:
        ours = [path for path in cluster["file_mounts"].values() if not path.startswith("~")]
        missing = [path for path in ours if not (ROOT / path).exists()]
        assert missing == []

    def test_token_authentication_is_on_everywhere(self, cluster: dict[str, Any]) -> None:
        starts = [*cluster["head_start_ray_commands"], *cluster["worker_start_ray_commands"]]
        assert all("RAY_AUTH_MODE=token" in command for command in starts if "ray start" in command)
        assert cluster["file_mounts"]["/home/ubuntu/.ray/auth_token"] == "~/.ray/auth_token"
        assert "--dashboard-host=127.0.0.1" in cluster["head_start_ray_commands"][-1]

    def test_idle_processes_of_tasks_are_kept(self, cluster: dict[str, Any]) -> None:
        starts = [cluster[f"{part}_start_ray_commands"][-1] for part in ("head", "worker")]
        (limit,) = {re.findall(r"export .* RAY_num_workers_soft_limit=(.*?); ray start", start)[0] for start in starts}
        # Two tasks per CPU of the machine, as the default shares of `read` and `write` allow.
        evaluated = subprocess.run(
            ["bash", "-c", f"nproc() {{ echo 16; }}; echo {limit}"], capture_output=True, text=True, check=True
        )
        assert evaluated.stdout == "32\n"


class TestFigures:
    """All files that name machines have the figures of deploy/cluster/machines.yaml."""

    @pytest.fixture
    def machines(self) -> dict[str, Any]:
        return load(CLUSTERS / "machines.yaml")

    @pytest.mark.parametrize("file", ["cluster.yaml", "deploy/cluster/gcp.yaml"])
    def test_files_of_clouds(self, machines: dict[str, Any], file: str) -> None:
        config = load(ROOT / file)
        kinds = config["available_node_types"]
        assert kinds.keys() - {"gpus"} == {"head", "cpu", "gpu"}
        for name, kind in kinds.items():
            if name == config["head_node_type"]:
                assert kind["resources"] == {"CPU": 0}
                continue
            figures = machines[name]
            gpus = {"GPU": figures["num_gpus"]} if "num_gpus" in figures else {}
            assert kind["resources"] == {"CPU": figures["num_cpus"], **gpus}
            assert (kind["min_workers"], kind["max_workers"]) == (0, figures["most"])
        assert config["max_workers"] == machines["cpu"]["most"] + machines["gpu"]["most"]

    def test_kubernetes(self, machines: dict[str, Any]) -> None:
        for group in load(KUBERNETES / "raycluster.yaml")["spec"]["workerGroupSpecs"]:
            figures = machines[group["groupName"]]
            (container,) = group["template"]["spec"]["containers"]
            assert int(container["resources"]["limits"]["cpu"]) == figures["num_cpus"] - machines["reserved_cpus"]
            assert group["maxReplicas"] == figures["most"]

    def test_the_preset(self, machines: dict[str, Any]) -> None:
        presets = [load(ROOT / "conf" / "resources" / f"{name}.yaml") for name in ("cluster", "cluster-gpus-8")]
        kinds = [
            {key: machines[name][key] for key in ("num_cpus", "num_gpus") if key in machines[name]}
            for name in ("cpu", "gpu", "gpus")
        ]
        reserved = machines["reserved_cpus"]
        startable = [{**kind, "num_cpus": kind["num_cpus"] - reserved} for kind in kinds]
        assert [preset["node_types"] for preset in presets] == [startable[:2], startable]
        for preset in presets:
            pools = [pool for pool in preset.values() if isinstance(pool, dict) and pool.get("num_gpus")]
            assert {pool["max_actors"] * pool["num_gpus"] for pool in pools} == {machines["gpu"]["most"]}
        several = presets[1].pop("judge")["num_gpus"]
        assert machines["gpus"]["num_gpus"] % several == 0 < several - 1
        differing = {key for key, value in presets[1].items() if value != presets[0][key]}
        assert differing == {"node_types", "wait_s"}

    def test_prices_name_the_machines_of_their_cloud(self) -> None:
        for file, cloud in (("aws-us-east-1", ROOT / "cluster.yaml"), ("gcp-us-central1", CLUSTERS / "gcp.yaml")):
            kinds = [kind["node_config"] for kind in load(cloud)["available_node_types"].values()]
            names = {kind.get("InstanceType") or kind.get("machineType") for kind in kinds}
            assert {machine["name"] for machine in load(ROOT / "conf" / "prices" / f"{file}.yaml")["machines"]} == names

    def test_prices(self, machines: dict[str, Any]) -> None:
        for file in sorted((ROOT / "conf" / "prices").glob("*.yaml")):
            for machine in load(file)["machines"]:
                if not machine.get("head"):
                    figures = machines[{0: "cpu", 1: "gpu"}.get(machine.get("num_gpus", 0), "gpus")]
                    assert all(machine[key] == n for key, n in figures.items() if key != "most")


class TestOtherPlaces:
    """deploy/cluster/gcp.yaml and on-premises.yaml start what cluster.yaml starts."""

    @pytest.fixture(params=["gcp", "on-premises"])
    def other(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return load(CLUSTERS / f"{request.param}.yaml")

    def test_ray_accepts_it(self, other: dict[str, Any]) -> None:
        from ray.autoscaler._private.util import prepare_config, validate_config

        prepared = prepare_config(copy.deepcopy(other))
        validate_config(prepared)
        assert not re.search(r"nightly|\.whl|://", commands(prepared))
        if other["provider"]["type"] == "local":
            (kind,) = prepared["available_node_types"].values()
            assert (kind["min_workers"], kind["max_workers"]) == (2, 2)

    def test_ray_refuses_an_unknown_key(self, other: dict[str, Any]) -> None:
        from ray.autoscaler._private.util import prepare_config, validate_config

        with pytest.raises(jsonschema.ValidationError, match="max_wrkers"):
            validate_config(prepare_config({**other, "max_wrkers": 1}))

    def test_machines_are_set_up_and_start_as_on_aws(self, other: dict[str, Any], cluster: dict[str, Any]) -> None:
        assert set(other["setup_commands"]) <= set(cluster["setup_commands"])
        assert other["setup_commands"][-1] == cluster["setup_commands"][-1]  # constraints.txt
        starts = cluster["worker_start_ray_commands"]
        if other["provider"]["type"] == "local":  # machines of your own are not shut down
            starts = [command for command in starts if "end_without_head" not in command]
        assert other["worker_start_ray_commands"] == starts
        assert other["rsync_exclude"] == cluster["rsync_exclude"]
        sources = set(cluster["file_mounts"].values()) - {"deploy"}
        assert sources <= set(other["file_mounts"].values())
        if other["provider"]["type"] == "local":  # Ray detects CPUs and GPUs: the head must deny its own
            assert "--num-cpus=0 --num-gpus=0" in other["head_start_ray_commands"][-1]
        else:
            assert other["head_start_ray_commands"] == cluster["head_start_ray_commands"]
            assert {key: value for key, value in other.items() if key in ("max_workers", "upscaling_speed")} == {
                "max_workers": cluster["max_workers"],
                "upscaling_speed": cluster["upscaling_speed"],
            }

    def test_workers_are_spot_machines_and_the_head_is_not(self, cluster: dict[str, Any]) -> None:
        for config in (cluster, load(CLUSTERS / "gcp.yaml")):
            kinds = {name: kind["node_config"] for name, kind in config["available_node_types"].items()}
            spot = {name for name, machine in kinds.items() if regular(machine) != machine}
            assert spot == kinds.keys() - {"head"}


def test_only_the_head_may_start_machines_and_only_end_its_own(cluster: dict[str, Any]) -> None:
    head, worker = (
        json.loads((ROOT / f"deploy/cluster/aws-{role}-policy.json").read_text())["Statement"]
        for role in ("head", "worker")
    )
    allowed = {action for part in worker for action in part["Action"]}
    assert {action.partition(":")[0] for action in allowed} == {"s3"}
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"} <= allowed
    assert [part for part in head if part["Sid"] in {part["Sid"] for part in worker}] == worker
    of_action = {
        action: part
        for part in head
        for action in ([part["Action"]] if isinstance(part["Action"], str) else part["Action"])
    }
    assert {"ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"} <= set(of_action)
    tag = of_action["ec2:TerminateInstances"]["Condition"]["StringEquals"]
    assert tag == {"ec2:ResourceTag/ray-cluster-name": cluster["cluster_name"]}
    assert of_action["iam:PassRole"]["Resource"] != "*"


def test_machines_that_are_started_by_hand_ask_for_the_token() -> None:
    blocks = re.findall(r"```\n(.*?)```", (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8"), re.DOTALL)
    (commands,) = [block for block in blocks if "ray start" in block]
    assert commands.startswith("export RAY_AUTH_MODE=token ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cluster.yaml", ["ray up", "ray dashboard", "ray job submit", "python -m jobs.mine", "ray down"]),
        ("deploy/cluster/gcp.yaml", ["ray up", "ray dashboard", "ray job submit", "python -m jobs.mine", "ray down"]),
        ("deploy/cluster/on-premises.yaml", ["ray up", "ray job submit", "python -m jobs.judge", "ray down"]),
        ("deploy/kubernetes/raycluster.yaml", ["kubectl apply", "ray job submit", "python -m jobs.mine"]),
        ("deploy/kubernetes/rayjob.yaml", ["kubectl apply", "kubectl logs"]),
        ("Dockerfile", ["docker build", "docker push"]),
    ],
)
def test_a_file_opens_with_the_commands_that_use_it(name: str, words: list[str]) -> None:
    opening = opening_comment(ROOT / name)
    assert [word for word in words if word not in opening] == []


def test_a_worker_ends_only_after_minutes_without_ray(tmp_path: Path) -> None:
    """A process of the raylet's name that goes away and comes back does not end the machine; its loss does."""
    raylet, end = tmp_path / f"raylet-{os.getpid()}", tmp_path / "ended"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", raylet)
    settings = {"LOOK_S": "0.1", "RAYLET": raylet.name, "END": f"touch {end}", "TMPDIR": str(tmp_path)}
    command = ["bash", str(ROOT / "deploy" / "end_without_head.sh"), "8"]
    with contextlib.ExitStack() as stack:

        def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen(arguments, env=os.environ | settings))
            stack.callback(process.kill)
            return process

        first, watch = start(raylet, "600"), start(*command)
        time.sleep(0.5)
        assert start(*command).wait(timeout=30) == 0  # one is enough
        first.kill()
        first.wait()
        time.sleep(0.2)  # as during `ray stop` and `ray start`
        second = start(raylet, "600")
        time.sleep(1.5)
        assert (watch.poll(), end.exists()) == (None, False)
        second.kill()
        second.wait()
        assert watch.wait(timeout=60) == 0
        assert end.exists()
