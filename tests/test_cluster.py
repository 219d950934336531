"""The files that build a cluster and an environment agree with each other and with what Ray accepts."""

import copy
import itertools
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jobs.runtime.spot_machines import regular

ROOT = Path(__file__).resolve().parent.parent
KUBERNETES = ROOT / "conf" / "kubernetes"
CLUSTERS = ROOT / "conf" / "cluster"
PIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[0-9][0-9A-Za-z.!]*")


def load(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def pin_lines() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def pins() -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in pin_lines())}


def opening_comment(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(itertools.takewhile(lambda line: line.startswith("#"), lines))


@pytest.fixture
def cluster() -> dict[str, Any]:
    return load(ROOT / "cluster.yaml")


@pytest.fixture
def ray_cluster() -> dict[str, Any]:
    return load(KUBERNETES / "raycluster.yaml")


@pytest.fixture
def ray_job() -> dict[str, Any]:
    return load(KUBERNETES / "rayjob.yaml")


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
        assert [name for name, kind in workers.items() if kind["resources"].get("GPU") == 1] == ["gpu"]
        assert any("GPU" not in kind["resources"] for kind in workers.values())
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


class TestFigures:
    """All files that name machines have the figures of conf/cluster/machines.yaml."""

    @pytest.fixture
    def machines(self) -> dict[str, Any]:
        return load(CLUSTERS / "machines.yaml")

    @pytest.mark.parametrize("file", ["cluster.yaml", "conf/cluster/gcp.yaml"])
    def test_files_of_clouds(self, machines: dict[str, Any], file: str) -> None:
        config = load(ROOT / file)
        kinds = config["available_node_types"]
        assert kinds.keys() == {"head", "cpu", "gpu"}
        for name, kind in kinds.items():
            if name == config["head_node_type"]:
                assert kind["resources"] == {"CPU": 0}
                continue
            figures = machines[name]
            gpus = {"GPU": figures["num_gpus"]} if "num_gpus" in figures else {}
            assert kind["resources"] == {"CPU": figures["num_cpus"], **gpus}
            assert (kind["min_workers"], kind["max_workers"]) == (0, figures["most"])
        assert config["max_workers"] == machines["cpu"]["most"] + machines["gpu"]["most"]

    def test_kubernetes(self, machines: dict[str, Any], ray_cluster: dict[str, Any]) -> None:
        for group in ray_cluster["spec"]["workerGroupSpecs"]:
            figures = machines[group["groupName"]]
            (container,) = group["template"]["spec"]["containers"]
            assert int(container["resources"]["limits"]["cpu"]) == figures["num_cpus"] - machines["reserved_cpus"]
            assert group["maxReplicas"] == figures["most"]

    def test_the_preset(self, machines: dict[str, Any]) -> None:
        preset = load(ROOT / "conf" / "resources" / "cluster.yaml")
        kinds = [
            {key: machines[name][key] for key in ("num_cpus", "num_gpus") if key in machines[name]}
            for name in ("cpu", "gpu")
        ]
        reserved = machines["reserved_cpus"]
        assert preset["node_types"] == [{**kind, "num_cpus": kind["num_cpus"] - reserved} for kind in kinds]
        pools = [pool for pool in preset.values() if isinstance(pool, dict) and pool.get("num_gpus")]
        assert {pool["max_actors"] * pool["num_gpus"] for pool in pools} == {machines["gpu"]["most"]}

    def test_prices_name_the_machines_of_their_cloud(self) -> None:
        for file, cloud in (("aws-us-east-1", ROOT / "cluster.yaml"), ("gcp-us-central1", CLUSTERS / "gcp.yaml")):
            kinds = [kind["node_config"] for kind in load(cloud)["available_node_types"].values()]
            names = {kind.get("InstanceType") or kind.get("machineType") for kind in kinds}
            assert {machine["name"] for machine in load(ROOT / "conf" / "prices" / f"{file}.yaml")["machines"]} == names

    def test_prices(self, machines: dict[str, Any]) -> None:
        for file in sorted((ROOT / "conf" / "prices").glob("*.yaml")):
            for machine in load(file)["machines"]:
                if not machine.get("head"):
                    figures = machines["gpu" if machine.get("num_gpus") else "cpu"]
                    assert all(machine[key] == n for key, n in figures.items() if key != "most")


class TestOtherPlaces:
    """conf/cluster/gcp.yaml and on-premises.yaml start what cluster.yaml starts."""

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
        assert other["worker_start_ray_commands"] == cluster["worker_start_ray_commands"]
        assert other["rsync_exclude"] == cluster["rsync_exclude"]
        sources = set(cluster["file_mounts"].values())
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
            assert spot == {"cpu", "gpu"}


class TestConstraints:
    def test_only_name_and_version(self) -> None:
        assert [line for line in pin_lines() if not PIN.fullmatch(line)] == []

    def test_sorted_and_each_once(self) -> None:
        names = [canonicalize_name(line.split("==")[0]) for line in pin_lines()]
        assert len(names) == len(set(names))
        assert pin_lines() == sorted(pin_lines(), key=str.upper)

    def test_tools_of_the_environment_are_not_pinned(self) -> None:
        assert not {"pip", "setuptools", "wheel", "remine"} & pins().keys()

    def test_nothing_slows_the_start_of_each_process(self) -> None:
        """Ray imports jsonschema, which imports these if they are installed: 3 s of CPU in each worker."""
        assert not {"rfc3987-syntax", "chardet"} & pins().keys()

    def test_every_dependency_is_pinned_inside_its_range(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"].values()
        wrong = []
        for line in [*project["dependencies"], *(line for extra in extras for line in extra)]:
            wanted = Requirement(line)
            if wanted.name in ("remine", "vllm"):  # an extra made of others; vLLM has a separate environment
                continue
            version = pins().get(canonicalize_name(wanted.name))
            if version is None or not wanted.specifier.contains(version):
                wrong.append(f"{line}: {version}")
        assert wrong == []

    def test_torch_fits_its_torchvision(self) -> None:
        # torch 2.13.0 is the one release with which no torchvision loads on some machines: its operators are missing.
        assert pins()["torch"] != "2.13.0"
        assert (pins()["torch"], pins()["torchvision"]) == ("2.15.0", "0.29.2")


def strict(schema: Any) -> Any:
    """A schema of Kubernetes that refuses fields which it does not name, as strict validation does."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    closed = {key: strict(value) for key, value in schema.items() if key not in ("format", "description")}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    return closed


def pod_templates(spec: dict[str, Any]) -> list[dict[str, Any]]:
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


class TestKubernetes:
    def test_kinds(self, ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
        assert (ray_cluster["apiVersion"], ray_cluster["kind"]) == ("ray.io/v1", "RayCluster")
        assert (ray_job["apiVersion"], ray_job["kind"]) == ("ray.io/v1", "RayJob")
        assert ray_cluster["metadata"]["name"]
        assert ray_job["metadata"]["name"]

    def test_the_job_brings_the_same_cluster(self, ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
        assert ray_job["spec"]["rayClusterSpec"] == ray_cluster["spec"]
        assert ray_job["metadata"]["annotations"] == ray_cluster["metadata"]["annotations"]

    def test_the_job_runs_a_job_and_leaves_nothing(self, ray_job: dict[str, Any]) -> None:
        spec = ray_job["spec"]
        assert spec["entrypoint"].startswith("python -m jobs.mine ")
        assert "'" not in spec["entrypoint"]
        assert spec["shutdownAfterJobFinishes"] is True
        assert set(yaml.safe_load(spec["runtimeEnvYAML"])) == {"working_dir"}

    def test_ray_is_the_pinned_one_everywhere(self, ray_cluster: dict[str, Any]) -> None:
        pinned = pins()["ray"]
        spec = ray_cluster["spec"]
        assert spec["rayVersion"] == pinned
        images = [template["containers"][0]["image"] for template in pod_templates(spec)]
        cpu, gpu = f"rayproject/ray:{pinned}-py311", f"rayproject/ray:{pinned}-py311-gpu"
        assert images == [cpu, cpu, gpu]

    def test_head_takes_no_work(self, ray_cluster: dict[str, Any]) -> None:
        assert ray_cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"

    def test_workers_scale_from_zero(self, ray_cluster: dict[str, Any]) -> None:
        spec = ray_cluster["spec"]
        assert spec["enableInTreeAutoscaling"] is True
        groups = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
        assert groups.keys() == {"cpu", "gpu"}
        for group in groups.values():
            assert group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"]
        limits = {name: group["template"]["spec"]["containers"][0]["resources"] for name, group in groups.items()}
        assert limits["gpu"]["limits"]["nvidia.com/gpu"] == "1"
        assert "nvidia.com/gpu" not in limits["cpu"]["limits"]

    def test_every_pod_has_bucket_access_memory_and_pins(self, ray_cluster: dict[str, Any]) -> None:
        for template in pod_templates(ray_cluster["spec"]):
            assert template["serviceAccountName"] == "remine"
            (container,) = template["containers"]
            # Ray sizes itself by the limits; a pod that asks for less may be put where that memory is not.
            assert container["resources"]["requests"] == container["resources"]["limits"]
            volumes = {volume["name"] for volume in template["volumes"]}
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes

    def test_pods_install_the_constraints_then_start_ray(self, ray_cluster: dict[str, Any]) -> None:
        # Without the annotation the operator puts its own command in the place of this one.
        assert ray_cluster["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
        for template in pod_templates(ray_cluster["spec"]):
            (script,) = template["containers"][0]["args"]
            assert 0 < script.index("-c /pins/constraints.txt") < script.index("KUBERAY_GEN_RAY_START_CMD")

    def test_the_operator_accepts_them(self, data: Path, ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
        """Against the schemas of KubeRay's definitions of its kinds; unknown fields are refused too."""
        for manifest, name in ((ray_cluster, "rayclusters"), (ray_job, "rayjobs")):
            definition = load(data / "kuberay" / f"ray.io_{name}.yaml")
            (schema,) = (v["schema"]["openAPIV3Schema"] for v in definition["spec"]["versions"] if v["name"] == "v1")
            jsonschema.Draft202012Validator(strict(schema)).validate(manifest)
        del ray_job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]
        ray_job["spec"]["shutdownAfterJobFinish"] = True
        errors = list(jsonschema.Draft202012Validator(strict(schema)).iter_errors(ray_job))
        assert any("shutdownAfterJobFinish" in error.message for error in errors)

    def test_pods_know_the_hubs_cache_and_token(self, ray_cluster: dict[str, Any]) -> None:
        for template in pod_templates(ray_cluster["spec"]):
            (container,) = template["containers"]
            env = {variable["name"]: variable for variable in container["env"]}
            mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert any(env["HF_HOME"]["value"].startswith(mount) for mount in mounts)
            assert env["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {
                "name": "remine-hub",
                "key": "token",
                "optional": True,
            }

    def test_token_authentication_is_on(self, ray_cluster: dict[str, Any]) -> None:
        assert ray_cluster["spec"]["authOptions"] == {"mode": "token"}


class TestDockerfile:
    @pytest.fixture
    def instructions(self) -> list[list[str]]:
        text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        return [line.split() for line in text.splitlines() if line and not line.startswith("#")]

    def test_small_pinned_and_without_root(self, instructions: list[list[str]]) -> None:
        images = {words[1] for words in instructions if words[0] == "FROM"}
        # The Python of constraints.txt and of the rayproject images; one version for both stages.
        (image,) = images
        assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", image)
        assert [words[1] for words in instructions if words[0] == "USER"] == ["ray"]

    @staticmethod
    def run(instructions: list[list[str]], word: str, *, root: Path, **variables: str) -> None:
        """Run the RUN instruction that contains `word` with the folders of the image below `root`."""
        (line,) = [" ".join(words[1:]) for words in instructions if words[0] == "RUN" and word in " ".join(words)]
        line = line.replace("/home/ray", str(root)).replace("/etc/profile.d", str(root))
        subprocess.run(["sh", "-ec", line], cwd=ROOT, env={"PATH": os.defpath, **variables}, check=True)

    def test_login_shells_find_the_environment(self, instructions: list[list[str]], tmp_path: Path) -> None:
        """The pods of conf/kubernetes run `bash -lc`, and Debian's /etc/profile sets PATH."""
        self.run(instructions, "profile.d", root=tmp_path)
        profile = "PATH=/usr/local/bin:/usr/bin:/bin\nexport PATH\n"
        (tmp_path / ".bash_profile").write_text(profile + f". {tmp_path}/remine.sh\n")
        environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/env/bin:{os.defpath}"}
        shell = subprocess.run(
            ["bash", "-lc", "printenv PATH"], env=environment, capture_output=True, text=True, check=True
        )
        assert shell.stdout.split(":")[0] == f"{tmp_path}/env/bin"

    def test_vllm_is_installed_without_the_constraints(
        self, instructions: list[list[str]], cluster: dict[str, Any], tmp_path: Path
    ) -> None:
        """By the build argument of the Dockerfile, and by the second line of the files that start clusters."""
        calls, pip = tmp_path / "calls", tmp_path / "env/bin/pip"
        pip.parent.mkdir(parents=True)
        pip.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {calls}\n')
        pip.chmod(0o755)
        (tmp_path / "remine").symlink_to(ROOT)

        def arguments(extras: str) -> list[str]:
            self.run(instructions, "pip install", root=tmp_path, EXTRAS=extras)
            return [word for word in calls.read_text().splitlines() if word not in ("-q", "--no-cache-dir", "boto3")]

        assert ["ARG", "EXTRAS=all"] in instructions
        assert arguments("all") == ["install", "-c", "constraints.txt", ".[all]"]
        with_vllm = ["install", ".[mining,models,vllm]", f"ray=={pins()['ray']}"]
        assert arguments("mining,models,vllm") == with_vllm
        for path in (ROOT / "cluster.yaml", CLUSTERS / "gcp.yaml", CLUSTERS / "on-premises.yaml"):
            text = path.read_text("utf-8")
            (line,) = re.findall(r"^  # - (cd .*vllm.*)$", text, re.M)
            assert text.index(line) > text.index(load(path)["setup_commands"][-1])
            subprocess.run(["sh", "-ec", line], env={"PATH": os.defpath, "HOME": str(tmp_path)}, check=True)
            words = calls.read_text().splitlines()
            assert [word for word in words if word not in ("-q", "--disable-pip-version-check")] == with_vllm

    def test_it_copies_the_code_and_nothing_else(self, instructions: list[list[str]]) -> None:
        copied = {
            name for words in instructions if words[0] == "COPY" and "--from=build" not in words for name in words[1:-1]
        }
        assert copied == {
            "pyproject.toml",
            "setup.py",
            "constraints.txt",
            "README.md",
            "LICENSE",
            "actors",
            "conf",
            "jobs",
        }
        allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        assert {line[1:] for line in allowed if line.startswith("!")} == copied
        assert "*" in allowed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cluster.yaml", ["ray up", "ray dashboard", "ray job submit", "python -m jobs.mine", "ray down"]),
        ("conf/cluster/gcp.yaml", ["ray up", "ray dashboard", "ray job submit", "python -m jobs.mine", "ray down"]),
        ("conf/cluster/on-premises.yaml", ["ray up", "ray job submit", "python -m jobs.judge", "ray down"]),
        ("conf/kubernetes/raycluster.yaml", ["kubectl apply", "ray job submit", "python -m jobs.mine"]),
        ("conf/kubernetes/rayjob.yaml", ["kubectl apply", "kubectl logs"]),
        ("Dockerfile", ["docker build", "docker push"]),
    ],
)
def test_a_file_opens_with_the_commands_that_use_it(name: str, words: list[str]) -> None:
    opening = opening_comment(ROOT / name)
    assert [word for word in words if word not in opening] == []
