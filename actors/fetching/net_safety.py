"""Rules for allowed requests: https to allow-listed hosts with public addresses.

Redirects are checked like first URLs, and addresses at the time of connection, so that DNS cannot bypass the rules.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

RECEIVE_BUFFER = 128 * 1024  # bytes; its content was already sent, so a large buffer would defeat a rate limit
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")  # RFC 9637, which Python 3.11 does not know

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]  # returns the addresses of a host and port


class BlockedError(Exception):
    """A request that a rule forbids; `rule` is its name, the row's column `error_kind`."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class AddressError(OSError):
    """A name that resolved to an address that is not public."""


def is_public(address: str) -> bool:
    """Return whether `address` is an IP address of the public internet; False if it is not an IP address.

    An IPv6 address that contains an IPv4 one (mapped, 6to4, NAT64) is judged by the latter.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if ip in _DOCUMENTATION or ip.is_site_local:
            return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


@dataclass(frozen=True)
class Rules:
    """Rules for allowed requests.

    Attributes:
        hosts: names; `*.name` allows all subdomains of a name, `*` all hosts. Each may end in `:port`; the default is
            443.
        private: addresses that are allowed although they are not public; for tests only.
        fixed: (name, address, port) to which a name resolves; for tests only.
    """

    hosts: tuple[str, ...]
    private: frozenset[str] = frozenset()
    fixed: tuple[tuple[str, str, int], ...] = ()

    def check_url(self, url: str) -> tuple[str, int]:
        """Return the host and port of a URL.

        Raises:
            BlockedError: rules `not_https`, `credentials_in_url`, `host_not_allowed`, `private_address`.
            ValueError: `url` is not an http or https URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not an http or https URL")
        if parts.scheme != "https":
            raise BlockedError("not_https", "only https is allowed")
        if parts.username is not None or parts.password is not None:
            raise BlockedError("credentials_in_url", "the URL contains a user name or password")
        host, port = parts.hostname.rstrip(".").lower(), parts.port or 443
        if not any(_matches(pattern, host, port) for pattern in self.hosts):
            raise BlockedError("host_not_allowed", f"{host}:{port} is not among source.allow_hosts")
        if _is_literal(host) and not self.allows(host):
            raise BlockedError("private_address", f"{host} is not a public address")
        return host, port

    def allows(self, address: str) -> bool:
        """Return whether a connection to this IP address may be opened."""
        return address in self.private or is_public(address)


def _matches(pattern: str, host: str, port: int) -> bool:
    name, colon, number = pattern.lower().rpartition(":") if pattern.count(":") == 1 else (pattern.lower(), "", "443")
    if port != int(number if colon else 443):
        return False
    if name == "*":
        return True
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


@lru_cache(4096)
def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class CheckedResolver(AbstractResolver):
    """Resolver of names that raises an error if any address is not allowed.

    aiohttp connects only to these addresses, so later answers of the name server have no effect (DNS rebinding).
    """

    def __init__(self, rules: Rules, lookup: Lookup | None = None) -> None:
        self._rules, self._lookup = rules, lookup or system_lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        fixed = [(address, at) for name, address, at in self._rules.fixed if name == host]
        addresses = [address for address, _ in fixed] or await self._lookup(host, port)
        port = fixed[0][1] if fixed else port
        if not addresses:
            raise OSError(f"{host} has no address")
        if private := [a for a in addresses if not self._rules.allows(a)]:
            raise AddressError(f"{host} resolves to {private[0]}, which is not a public address")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""


async def system_lookup(host: str, port: int) -> list[str]:
    """Return the addresses of a name from the system's resolver, without duplicates."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in infos))


def connector(rules: Rules, *, ssl: Any, lookup: Lookup | None = None) -> aiohttp.TCPConnector:
    """Return a connector for at most one connection, which checks the address of each socket that it opens."""

    def open_socket(info: tuple[Any, Any, int, str, tuple[Any, ...]]) -> socket.socket:
        family, kind, proto, _, address = info
        if not rules.allows(str(address[0])):
            raise AddressError(f"{address[0]} is not a public address")
        opened = socket.socket(family=family, type=kind, proto=proto)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        return opened

    return aiohttp.TCPConnector(
        limit=1,
        ssl=ssl,
        resolver=CheckedResolver(rules, lookup),
        socket_factory=open_socket,
        happy_eyeballs_delay=None,  # racing two addresses would exceed the allowed connections by one
        use_dns_cache=False,  # connections are opened rarely
    )


def address_error(error: BaseException | None) -> AddressError | None:
    """Return the AddressError among the causes of an aiohttp error; None if there is none."""
    seen: Collection[int] = []
    while error is not None and id(error) not in seen:
        if isinstance(error, AddressError):
            return error
        seen = [*seen, id(error)]
        error = getattr(error, "os_error", None) or error.__cause__ or error.__context__
    return None
