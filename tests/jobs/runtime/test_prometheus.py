"""Metrics that Ray exports for Prometheus, and the dashboard that shows them."""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from ray._private.ray_constants import PROMETHEUS_SERVICE_DISCOVERY_FILE

from jobs.runtime.prometheus import JOB, METRICS, JobMetrics
from jobs.store.counts import Counts, Failure
from jobs.testbed.loopback_s3 import free_ports
from tests.jobs.runtime.cluster.numbered_pictures import run_numbered

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
CONFIGURATION = ALERTS.with_name("prometheus.yaml")
DASHBOARD = ROOT / "deploy" / "grafana" / "remine.json"
SUFFIXES = {"Counter": ("_total",), "Gauge": ("",), "Histogram": ("_bucket", "_sum", "_count")}
EXPORTED = {f"ray_{name}{suffix}" for name, entry in METRICS.items() for suffix in SUFFIXES[entry.kind]}
ROWS, ERRORS = 5, 2
EXPORT_S = 120  # Ray exports every few seconds; a busy machine takes longer


def test_the_dashboard_shows_metrics_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for expression in expressions for name in re.findall(r"\bray_\w+", expression)}
    assert names <= EXPORTED
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names} == {f"ray_{name}" for name in METRICS}
    for expression in expressions:
        used = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}
        allowed = {label for name in METRICS if name in expression for label in METRICS[name].labels}
        assert {JOB} <= used <= allowed | {JOB, "stage", "le"}
        assert re.findall(r"\{(\w+)=~", expression) == [JOB] * expression.count("{")
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def expected(summary: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return an alert with these labels, as promtool expects it."""
    for name, value in labels.items():
        summary = summary.replace("{{ $labels." + name + " }}", value)
    return {"exp_labels": labels, "exp_annotations": {"summary": summary}}


def test_alerts_fire_for_what_they_say(tmp_path: Path) -> None:
    """By Prometheus's own test of rules, on made-up values per minute; names and labels are those that exist."""
    if shutil.which("promtool") is None:
        pytest.skip("no promtool (apt-get install prometheus)")
    rules = yaml.safe_load(ALERTS.read_text())
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert {name for expression in expressions for name in re.findall(r"\bray_\w+", expression)} <= EXPORTED
    stuck, well = '{remine_job="judge",stage="judge"}', '{remine_job="embed",stage="embed"}'
    series = {
        f"ray_remine_queued{stuck}": "100+0x90",
        f"ray_remine_queued{well}": "100+0x90",
        'ray_remine_rows_total{remine_job="judge",stage="judge",status="ok"}': "7+0x90",
        'ray_remine_rows_total{remine_job="embed",stage="embed",status="ok"}': "0+100x90",
        'ray_remine_rows_total{remine_job="embed",stage="embed",status="error"}': "0+1x90",
        'ray_remine_rows_total{remine_job="fetch",stage="fetch",status="ok"}': "0+90x90",
        'ray_remine_rows_total{remine_job="fetch",stage="fetch",status="error"}': "0+10x90",
        f"ray_remine_actor_seconds_total{stuck}": "0+60x90",
        f"ray_remine_device_seconds_total{stuck}": "0+6x90",
        f"ray_remine_actor_seconds_total{well}": "0+60x90",
        f"ray_remine_device_seconds_total{well}": "0+50x90",
        'ray_remine_budget_share{remine_job="judge",stage="run"}': "0+0.0102x90",
        'ray_remine_budget_share{remine_job="embed",stage="run"}': "0+0.0098x90",
    }
    summaries = {rule["alert"]: rule["annotations"]["summary"] for group in rules["groups"] for rule in group["rules"]}
    fired = {
        "RemineNoProgress": {"remine_job": "judge"},
        "RemineIdleDevices": {"remine_job": "judge", "stage": "judge"},
        "RemineErrors": {"remine_job": "fetch"},
        "RemineBudget": {"remine_job": "judge"},
    }
    tests = {
        "rule_files": [str(ALERTS)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": "80m", "alertname": name, "exp_alerts": [expected(summaries[name], labels)]}
                    for name, labels in fired.items()
                ],
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    command = ["promtool", "test", "rules", str(tmp_path / "tests.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_prometheus_loads_the_configuration_of_a_head_with_the_alerts(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("no Prometheus (apt-get install prometheus)")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = ["prometheus", f"--config.file={CONFIGURATION}", f"--web.listen-address={address}"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([*command, f"--storage.tsdb.path={tmp_path}/data"], stdout=log, stderr=log)
    try:
        groups = answer(f"http://{address}/api/v1/rules", server)["data"]["groups"]
    finally:
        server.terminate()
        server.wait()
    names = {rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
    assert {rule["name"] for group in groups for rule in group["rules"]} == names
    (scraped,) = yaml.safe_load(CONFIGURATION.read_text())["scrape_configs"]
    ((file,),) = (entry["files"] for entry in scraped["file_sd_configs"])
    assert Path(file).name == PROMETHEUS_SERVICE_DISCOVERY_FILE


def answer(url: str, server: "subprocess.Popen[bytes]") -> Any:
    """Return the JSON that a server answers as soon as it is up."""
    while True:
        try:
            with urllib.request.urlopen(url) as response:
                return json.load(response)
        except OSError:
            assert server.poll() is None
            time.sleep(0.1)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What is exported: the sums of the values by name and the metric's own labels."""
    sums: dict[str, float] = {}

    class Recorder:
        def __init__(self, name: str) -> None:
            self._name = name

        def inc(self, value: float, *, tags: dict[str, str]) -> None:
            key = " ".join([self._name, *(tags[label] for label in METRICS[self._name].labels)])
            sums[key] = sums.get(key, 0.0) + value

        observe = inc

    monkeypatch.setattr("jobs.runtime.prometheus._exported", Recorder)
    return sums


def test_a_batch_has_rows_by_status_errors_by_kind_pictures_and_tokens(seen: dict[str, float]) -> None:
    rows = {"status": ["ok", "error", "error", "missing"], "error_kind": [None, "oom", None, "http_404"]}
    exported = JobMetrics("judge", "judge")
    pictures = pa.table({"pictures": [[b"a", b"b"], [], None, [b"c"]]})
    exported.add_batch(pictures, pa.table(rows), {"tokens/passed": 7, "milliseconds/device": 500}, seconds=2.0)
    assert seen == {
        "remine_rows ok": 1,
        "remine_rows error": 2,
        "remine_rows missing": 1,
        "remine_errors oom": 1,
        "remine_errors unknown": 1,
        "remine_pictures": 3,
        "remine_tokens": 7,
        "remine_device_seconds": 0.5,
        "remine_actor_seconds": 2.0,
    }
    seen.clear()
    exported = JobMetrics("embed", "embed")
    exported.add_batch(pa.table({"bytes": [b"a", None]}), pa.table({"item": ["a", "b"]}), {}, seconds=2.0)
    assert seen == {
        "remine_rows ok": 2,
        "remine_pictures": 1,
        "remine_device_seconds": 2.0,
        "remine_actor_seconds": 2.0,
    }
    seen.clear()
    JobMetrics("", "embed").add_batch(pictures, pa.table(rows), {"tokens/passed": 7}, seconds=2.0)  # of no job
    JobMetrics("", "embed").add_unit(Counts(1, 1), seconds=2.0)
    assert seen == {}


def test_a_unit_that_an_actor_writes_has_errors_by_kind_and_time(seen: dict[str, float]) -> None:
    """With the errors of `fetch source=urls`, which are the main thing to monitor."""
    failures = {"error/dns": Failure(2, "u", "m"), "error/": Failure(1, "u", "m"), "missing/404": Failure(3, "u", "m")}
    status = Counter({"ok": 4, "error": 3, "missing": 3})
    exported = JobMetrics("fetch", "fetch")
    exported.add_unit(Counts(10, 10, status=status, failures=failures, rejected=Counter({"csv": 5})), seconds=2.0)
    assert seen == {
        "remine_rows ok": 4,
        "remine_rows error": 3,
        "remine_rows missing": 3,
        "remine_errors dns": 2,
        "remine_errors unknown": 1,
        "remine_errors csv": 5,
        "remine_unit_seconds": 2.0,
        "remine_device_seconds": 2.0,
        "remine_actor_seconds": 2.0,
    }
    exported.add_unit(Counts(), seconds=0.0)  # after a wait for data, however short
    assert seen["remine_device_seconds"] == 2.0 < seen["remine_actor_seconds"]


@pytest.fixture(scope="module")
def address(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """HOST:PORT of the node's metrics, after a run of the stage `embed` with errors."""
    import ray

    run_numbered(tmp_path_factory.mktemp("run"), rows=ROWS, errors=ERRORS)
    (node,) = ray.nodes()
    return f"127.0.0.1:{node['MetricsExportPort']}"


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each line of Prometheus's text format that is ours."""
    for line in text.splitlines():
        if match := re.match(r"(ray_remine_\w+)\{(.*)\} (\S+)", line):
            yield match[1], dict(re.findall(r'(\w+)="([^"]*)"', match[2])), float(match[3])


def of_run(result: list[tuple[str, dict[str, str], float]]) -> dict[tuple[str, ...], float]:
    """Return the metrics of this module's job, by name and the metric's own labels."""
    sums: dict[tuple[str, ...], float] = {}
    for name, labels, value in result:
        if labels.get(JOB) == "numbered" and "le" not in labels:
            key = (name, labels["stage"], *(labels[label] for label in ("status", "kind") if label in labels))
            sums[key] = sums.get(key, 0.0) + value
    return sums


@pytest.mark.long
def test_ray_exports_what_the_stages_did(address: str) -> None:
    counted = {
        ("ray_remine_rows_total", "embed", "ok"): ROWS - ERRORS,
        ("ray_remine_rows_total", "embed", "error"): ERRORS,
        ("ray_remine_errors_total", "embed", "cursed"): ERRORS,
        ("ray_remine_pictures_total", "embed"): ROWS,
        ("ray_remine_tokens_total", "embed"): 7 * ROWS,
        ("ray_remine_unit_seconds_count", "write"): 1,
        ("ray_remine_queued", "embed"): 0,
    }
    timed = {(f"ray_remine_{part}_seconds_total", "embed") for part in ("device", "actor")}
    deadline, values = time.monotonic() + EXPORT_S, dict[tuple[str, ...], float]()
    # A gauge is exported before its last value.
    while time.monotonic() < deadline and not (counted.items() <= values.items() and timed <= values.keys()):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            values = of_run(list(samples(answer.read().decode())))
        time.sleep(1)
    assert {key: values.get(key) for key in counted} == counted
    device, actor = (values[key] for key in sorted(timed, reverse=True))
    assert 0 < device <= actor


@pytest.mark.long
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="not installed: apt-get install prometheus")
def test_a_prometheus_collects_them(address: str, tmp_path: Path) -> None:
    """With Ray's own configuration, and the list of machines that Ray writes for it."""
    import ray
    from ray._private.metrics_agent import PrometheusServiceDiscoveryWriter

    writer = PrometheusServiceDiscoveryWriter(ray.get_runtime_context().gcs_address, str(tmp_path))
    writer.write()
    template = Path(ray.__file__).parent / "dashboard/modules/metrics/export/prometheus/prometheus.yml"
    config = yaml.safe_load(template.read_text())
    config["global"]["scrape_interval"] = "1s"
    config["scrape_configs"][0]["file_sd_configs"] = [{"files": [writer.get_target_file_name()]}]
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    log = tmp_path / "log"
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/data",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=stream,
        )
    try:
        deadline, result = time.monotonic() + EXPORT_S, list[Any]()
        while time.monotonic() < deadline and not result:
            time.sleep(1)
            if match := re.search(r"address=(127\.0\.0\.1:[1-9]\d*)", log.read_text()):
                query = urllib.parse.urlencode(
                    {"query": f'sum(ray_remine_rows_total{{{JOB}="numbered", stage="embed"}})'}
                )
                with urllib.request.urlopen(f"http://{match[1]}/api/v1/query?{query}", timeout=30) as answer:
                    result = json.load(answer)["data"]["result"]
        assert float(result[0]["value"][1]) == ROWS, log.read_text()[-2000:]
    finally:
        server.terminate()
        server.wait()
