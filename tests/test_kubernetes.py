"""The manifests of deploy/kubernetes agree with each other, with the pins, and with what KubeRay accepts."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cluster_files import CLUSTERS, KUBERNETES, ROOT, SCAN_MODULE, load, opening_comment, pins


@pytest.fixture
def ray_cluster() -> dict[str, Any]:
    return load(KUBERNETES / "raycluster.yaml")


@pytest.fixture
def ray_job() -> dict[str, Any]:
    return load(KUBERNETES / "rayjob.yaml")


def strict(schema: Any) -> Any:
    """Return a schema of Kubernetes that refuses fields which it does not name, as strict validation does."""
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


def test_kinds(ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
    assert (ray_cluster["apiVersion"], ray_cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert (ray_job["apiVersion"], ray_job["kind"]) == ("ray.io/v1", "RayJob")
    assert ray_cluster["metadata"]["name"]
    assert ray_job["metadata"]["name"]


def test_the_job_brings_the_same_cluster(ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
    assert ray_job["spec"]["rayClusterSpec"] == ray_cluster["spec"]
    assert ray_job["metadata"]["annotations"] == ray_cluster["metadata"]["annotations"]


def test_the_job_runs_a_job_and_leaves_nothing(ray_job: dict[str, Any]) -> None:
    spec = ray_job["spec"]
    assert spec["entrypoint"].startswith("python -m jobs.mine ")
    assert "'" not in spec["entrypoint"]
    assert spec["shutdownAfterJobFinishes"] is True
    assert set(yaml.safe_load(spec["runtimeEnvYAML"])) == {"working_dir"}


def test_ray_is_the_pinned_one_everywhere(ray_cluster: dict[str, Any]) -> None:
    pinned = pins()["ray"]
    spec = ray_cluster["spec"]
    assert spec["rayVersion"] == pinned
    images = [template["containers"][0]["image"] for template in pod_templates(spec)]
    cpu, gpu = f"rayproject/ray:{pinned}-py311", f"rayproject/ray:{pinned}-py311-gpu"
    assert images == [cpu, cpu, gpu]


def test_head_takes_no_work(ray_cluster: dict[str, Any]) -> None:
    assert ray_cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_workers_scale_from_zero(ray_cluster: dict[str, Any]) -> None:
    spec = ray_cluster["spec"]
    assert spec["enableInTreeAutoscaling"] is True
    groups = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
    assert groups.keys() == {"cpu", "gpu"}
    for group in groups.values():
        assert group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"]
    limits = {name: group["template"]["spec"]["containers"][0]["resources"] for name, group in groups.items()}
    assert limits["gpu"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in limits["cpu"]["limits"]


def test_every_pod_has_bucket_access_memory_and_pins(ray_cluster: dict[str, Any]) -> None:
    for template in pod_templates(ray_cluster["spec"]):
        assert template["serviceAccountName"] == "remine"
        (container,) = template["containers"]
        # Ray sizes itself by the limits; a pod that asks for less may be put where that memory is not.
        assert container["resources"]["requests"] == container["resources"]["limits"]
        volumes = {volume["name"] for volume in template["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"name": "PYTHONPATH", "value": places["pins"]} in container["env"]  # of the compiled scan
    for name in ("raycluster", "rayjob"):
        files = re.findall(r"--from-file=(\S+)", opening_comment(KUBERNETES / f"{name}.yaml"))
        assert files == ["pyproject.toml", "constraints.txt", SCAN_MODULE]


@pytest.fixture
def start(ray_cluster: dict[str, Any], tmp_path: Path) -> Callable[[], list[list[str]]]:
    """Runs the pods' command with a `pip` and a `ray` that record their arguments, and returns these."""
    # Without the annotation the operator puts its own command in the place of this one.
    assert ray_cluster["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    (script,) = {template["containers"][0]["args"][0] for template in pod_templates(ray_cluster["spec"])}
    script = script.replace("/tmp/", f"{tmp_path}/").replace("/pins/", f"{ROOT}/")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "python").symlink_to(sys.executable)
    for name in ("pip", "ray"):
        program(commands / name, f'#!/bin/sh\nprintf "%s " {name} "$@" >> {tmp_path}/calls; echo >> {tmp_path}/calls\n')

    def run() -> list[list[str]]:
        environment = {"PATH": f"{commands}:{os.defpath}", "KUBERAY_GEN_RAY_START_CMD": "ray start --block"}
        subprocess.run(["bash", "-c", script], env=environment, check=True)
        return [line.split() for line in (tmp_path / "calls").read_text().splitlines()]

    return run


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_pods_install_the_constraints_then_start_ray(start: Callable[[], list[list[str]]], tmp_path: Path) -> None:
    pip, ray = start()
    assert " ".join(pip[1:]).endswith(f"-c {ROOT}/constraints.txt -r {tmp_path}/requirements.txt boto3")
    assert ray == ["ray", "start", "--block"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (names,) = (re.fullmatch(r"remine\[(.*)\]", requirement) for requirement in extras["all"])
    assert names is not None
    wanted = {*project["dependencies"], *(need for name in names[1].split(",") for need in extras[name])}
    assert set((tmp_path / "requirements.txt").read_text().splitlines()) == wanted


def test_pods_of_an_image_with_remine_install_nothing(start: Callable[[], list[list[str]]], tmp_path: Path) -> None:
    """pip would put the torch of constraints.txt in the place of vLLM's, and without a network it would fail."""
    program(tmp_path / "bin" / "remine", "#!/bin/sh\n")
    assert start() == [["ray", "start", "--block"]]


def test_no_pod_runs_as_root(ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
    unprivileged = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert ray_cluster["spec"]["autoscalerOptions"]["securityContext"] == unprivileged
    submitter = ray_job["spec"]["submitterPodTemplate"]["spec"]
    assert submitter["containers"][0]["image"] == pod_templates(ray_cluster["spec"])[0]["containers"][0]["image"]
    for template in [*pod_templates(ray_cluster["spec"]), submitter]:
        user = template["securityContext"]
        assert (user["runAsNonRoot"], user["runAsUser"], user["fsGroup"]) == (True, 1000, 1000)
        assert template["containers"][0]["securityContext"] == unprivileged


def test_the_operator_accepts_them(data: Path, ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
    """Against the schemas of KubeRay's definitions of its kinds; unknown fields are refused too."""
    for manifest, name in ((ray_cluster, "rayclusters"), (ray_job, "rayjobs")):
        definition = load(data / "kuberay" / f"ray.io_{name}.yaml")
        (schema,) = (v["schema"]["openAPIV3Schema"] for v in definition["spec"]["versions"] if v["name"] == "v1")
        jsonschema.Draft202012Validator(strict(schema)).validate(manifest)
    del ray_job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]
    ray_job["spec"]["shutdownAfterJobFinish"] = True
    errors = list(jsonschema.Draft202012Validator(strict(schema)).iter_errors(ray_job))
    assert any("shutdownAfterJobFinish" in error.message for error in errors)


def test_pods_know_the_hubs_cache_and_token(ray_cluster: dict[str, Any]) -> None:
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


def test_pods_keep_as_many_idle_processes_as_machines(ray_cluster: dict[str, Any], ray_job: dict[str, Any]) -> None:
    for spec in (ray_cluster["spec"], ray_job["spec"]["rayClusterSpec"]):
        for template in pod_templates(spec):
            env = {variable["name"]: variable.get("value") for variable in template["containers"][0]["env"]}
            assert (
                int(env["RAY_num_workers_soft_limit"] or 0) == 2 * load(CLUSTERS / "machines.yaml")["cpu"]["num_cpus"]
            )


def test_token_authentication_is_on(ray_cluster: dict[str, Any]) -> None:
    assert ray_cluster["spec"]["authOptions"] == {"mode": "token"}
