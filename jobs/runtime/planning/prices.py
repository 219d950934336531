"""Prices of machines and requests (`conf/prices/`), and the machines that a run uses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs.runtime.configuration.config_files import CONF, read_named

FOLDER = CONF / "prices"


class UnpricedError(Exception):
    """The prices do not cover the machines that a run uses; the message says what is missing."""


@dataclass(frozen=True)
class Machine:
    """A kind of machine; the machine of the head does no work."""

    name: str
    per_hour: float
    num_cpus: float = 0.0
    num_gpus: float = 0.0
    gpu: str | None = None  # its kind in conf/gpus.yaml
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
    source: str = ""  # the name or path of the file


def read_prices(name: str) -> Prices:
    """Read the file `name` of `conf/prices/`, or the file at a path that ends with .yaml.

    Raises:
        InputError: no such file, or it is not a table of prices.
    """
    return replace(read_named("resources.prices", name, _parse, folder="prices", noun="prices"), source=name)


def _parse(content: Any) -> Prices:
    machines = tuple(Machine(**machine) for machine in content["machines"])
    requests: dict[str, Any] = {
        f"{kind}_per_1000": float(price) for kind, price in content.get("requests_per_1000", {}).items()
    }
    if not all(price >= 0 for price in (*requests.values(), *(machine.per_hour for machine in machines))):
        raise ValueError("a price below 0")
    if wrong := [m.name for m in machines if not all(0 <= number < math.inf for number in (m.num_cpus, m.num_gpus))]:
        raise ValueError(f"{wrong[0]}: num_cpus and num_gpus must be numbers from 0")
    return Prices(str(content["date"]), str(content["region"]), str(content["currency"]), machines, **requests)


def machines_for(prices: Prices, *, cpus: float, gpus: float, gpus_of_one: float = 0.0) -> list[tuple[Machine, int]]:
    """Return the kinds of machines, with their numbers, that provide this many CPUs and GPUs, and the head.

    The kind with the cheapest GPU provides the GPUs; the kind with the cheapest CPU provides the CPUs that are still
    needed.

    Args:
        gpus_of_one: GPUs of the actor that needs most of them, which must be in one machine.

    Raises:
        UnpricedError: the prices include no machine with such GPUs, or none with CPUs.
    """
    chosen = {machine: 1 for machine in prices.machines if machine.head}
    workers = [machine for machine in prices.machines if not machine.head]
    if gpus:
        kind = _cheapest_gpus(prices, gpus_of_one)
        if kind is None:
            raise _lacks(prices, f"num_gpus of at least {max(gpus_of_one, 1):g}", f"{gpus:g} GPUs")
        chosen[kind] = math.ceil(gpus / kind.num_gpus)
        cpus -= chosen[kind] * kind.num_cpus
    if cpus > 0:
        kind = _cheapest_cpus([machine for machine in workers if machine.num_cpus], prices, cpus)
        chosen[kind] = chosen.get(kind, 0) + math.ceil(cpus / kind.num_cpus)
    return list(chosen.items())


def gpu_of(prices: Prices, gpus_of_one: float) -> str | None:
    """Return the kind of the GPUs that `machines_for` chooses; None if the prices do not have it."""
    machine = _cheapest_gpus(prices, gpus_of_one)
    return machine.gpu if machine else None


def _cheapest_gpus(prices: Prices, gpus_of_one: float) -> Machine | None:
    fitting = [
        machine
        for machine in prices.machines
        if not machine.head and machine.num_gpus and machine.num_gpus >= gpus_of_one
    ]
    return min(fitting, key=lambda machine: machine.per_hour / machine.num_gpus, default=None)


def _cheapest_cpus(machines: Sequence[Machine], prices: Prices, cpus: float) -> Machine:
    """Return the machine with the cheapest CPU, without GPUs if there is one."""
    if not machines:
        raise _lacks(prices, "num_cpus above 0", f"{cpus:g} CPUs more than the machines with GPUs")
    without_gpus = [machine for machine in machines if not machine.num_gpus]
    return min(without_gpus or machines, key=lambda machine: machine.per_hour / machine.num_cpus)


def _lacks(prices: Prices, key: str, need: str) -> UnpricedError:
    return UnpricedError(
        f"resources.prices={prices.source} has no machine with {key}, and the run uses {need}; add one to a file of "
        "your own"
    )
