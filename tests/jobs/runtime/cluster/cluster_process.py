"""A Ray cluster of several nodes on this machine; it ends with its standard input.

python -m tests.jobs.runtime.cluster.cluster_process SHAPE

SHAPE is a JSON object: the arguments of the head, and `nodes`, a list of those of the other nodes, or `node_types`, the
kinds of nodes that Ray's autoscaler may start (with its provider of nodes on one machine). The first line that
it prints is "address HOST:PORT". Each line `MODULE:FUNCTION ARGUMENT` on standard input then calls
FUNCTION(cluster, ARGUMENT) and prints "result" and what it returns as JSON.
"""

import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import ray
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID
from ray.cluster_utils import Cluster

from jobs.runtime.cluster.ray_session import SLOW_START, START_TRIES

MIB = 2**20
JOIN_S = 120
# Ray or the system chooses every port and reports it: one that was free before may be taken by then. Of the
# public interfaces, `ray start` wants the port of its client server and `ray.init` that of the agent.
HEAD: dict[str, Any] = {
    "num_cpus": 2,
    "object_store_memory": 200 * MIB,
    "dashboard_port": None,
    "dashboard_agent_listen_port": 0,
    "include_dashboard": False,
}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * MIB}  # the least memory that Ray accepts


def add_node(cluster: Cluster, **resources: Any) -> Any:
    """Return a new node of `cluster`; on a busy machine Ray gives up waiting for its processes, and is asked again."""
    for left in range(START_TRIES - 1, -1, -1):
        try:
            node = cluster.add_node(wait=False, **NODE | resources)
            break
        except Exception as error:
            if SLOW_START not in str(error) or not left:
                raise
    cluster._wait_for_node(node, JOIN_S)
    return node


def autoscaled(node_types: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a head whose autoscaler starts nodes of `node_types`, as in a cluster file, on this machine."""
    os.environ |= {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = "ray.head.default"
    address = f"{ray.util.get_node_ip_address()}:{port}"
    config = {
        "cluster_name": "simulated",
        "max_workers": sum(kind["max_workers"] for kind in node_types.values()),
        "provider": {"type": "fake_multinode", "gcs_address": address, "launch_multiple": True},
        "available_node_types": {head: {"resources": {}, "node_config": {}, "max_workers": 0}} | node_types,
        "head_node_type": head,
        "idle_timeout_minutes": 10,
        "upscaling_speed": 1.0,
        **{key: {} for key in ("auth", "docker", "file_mounts")},
        **{key: [] for key in ("cluster_synced_files", "initialization_commands", "rsync_exclude", "rsync_filter")},
        **{f"{part}_commands": [] for part in ("setup", "head_setup", "worker_setup", "head_start_ray")},
        "worker_start_ray_commands": [],
        "file_mounts_sync_continuously": False,
    }
    file = Path(os.environ["RAY_TMPDIR"]) / "autoscaler.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")
    node = {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID}
    return {"gcs_server_port": port, "autoscaling_config": str(file), "env_vars": node}


def main(shape: dict[str, Any]) -> None:
    """Start the cluster, print its address, and do what standard input says."""
    nodes, node_types = shape.pop("nodes", []), shape.pop("node_types", None)
    if node_types:
        shape |= autoscaled(node_types)
    cluster = Cluster(initialize_head=True, head_node_args=HEAD | shape)
    try:
        for resources in nodes:
            add_node(cluster, **resources)
        print("address", cluster.address, flush=True)
        for line in sys.stdin:
            name, _, argument = line.strip().partition(" ")
            module, _, function = name.partition(":")
            result = getattr(importlib.import_module(module), function)(cluster, argument)
            print("result", json.dumps(result), flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
