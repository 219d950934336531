"""Prices of machines and requests (`conf/prices/`), and the machines that a run uses."""

import math
from dataclasses import dataclass
from typing import Any

from jobs.runtime.config_files import CONF, read_named

FOLDER = CONF / "prices"


@dataclass(frozen=True)
class Machine:
    """A kind of machine; the head's has no part in the work."""

    name: str
    per_hour: float
    num_cpus: float = 0.0
    num_gpus: float = 0.0
    head: bool = False


@dataclass(frozen=True)
class Prices:
    """Prices in a currency, with their date and region: of machines per hour, and of requests to S3 per thousand."""

    date: str
    region: str
    currency: str
    machines: tuple[Machine, ...]
    put_per_1000: float = 0.0
    get_per_1000: float = 0.0


def read_prices(name: str) -> Prices:
    """Read the file `name` of `conf/prices/`, or the file at a path that ends with .yaml.

    Raises:
        InputError: no such file, or it is not a table of prices.
    """
    return read_named("resources.prices", name, _parse, folder="prices", noun="prices")


def _parse(content: Any) -> Prices:
    machines = tuple(Machine(**machine) for machine in content["machines"])
    requests = {f"{kind}_per_1000": float(price) for kind, price in content.get("requests_per_1000", {}).items()}
    if not all(price >= 0 for price in (*requests.values(), *(machine.per_hour for machine in machines))):
        raise ValueError("a price below 0")
    return Prices(str(content["date"]), str(content["region"]), str(content["currency"]), machines, **requests)


def machines_for(prices: Prices, *, cpus: float, gpus: float) -> list[tuple[Machine, int]]:
    """The machines, with their number, that have this many CPUs and GPUs, and the head.

    The kind with the cheapest GPU holds the GPUs; the kind with the cheapest CPU holds the CPUs that those lack.
    """
    chosen = [(machine, 1) for machine in prices.machines if machine.head]
    workers = [machine for machine in prices.machines if not machine.head]
    with_gpus = [machine for machine in workers if machine.num_gpus]
    without = [machine for machine in workers if machine.num_cpus and not machine.num_gpus]
    if gpus and with_gpus:
        kind = min(with_gpus, key=lambda machine: machine.per_hour / machine.num_gpus)
        count = math.ceil(gpus / kind.num_gpus)
        chosen.append((kind, count))
        cpus -= count * kind.num_cpus
    if cpus > 0 and without:
        kind = min(without, key=lambda machine: machine.per_hour / machine.num_cpus)
        chosen.append((kind, math.ceil(cpus / kind.num_cpus)))
    return chosen
