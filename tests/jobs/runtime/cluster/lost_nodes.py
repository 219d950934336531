"""Losses of nodes of a cluster on this machine; called in its process (see `cluster_process`)."""

import contextlib
from typing import Any

import psutil
from ray.cluster_utils import Cluster

from tests.jobs.runtime.cluster.cluster_process import add_node

CPUS = 2


def replace_raylet(cluster: Cluster, _: str) -> None:
    """SIGKILL the raylet of the node that has been there longest; a new node joins."""
    _replace(cluster, with_children=False)


def replace_node(cluster: Cluster, _: str) -> None:
    """SIGKILL all processes of the node that has been there longest at once; a new node joins."""
    _replace(cluster, with_children=True)


def _replace(cluster: Cluster, *, with_children: bool) -> None:
    node: Any = min(cluster.worker_nodes, key=lambda one: psutil.Process(_raylet(one)).create_time())
    raylet = psutil.Process(_raylet(node))
    family = [*raylet.children(recursive=True), raylet] if with_children else [raylet]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    cluster.remove_node(node, allow_graceful=False)  # what is left of it, as its machine does
    add_node(cluster, num_cpus=CPUS)


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)
