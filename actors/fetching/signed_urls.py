"""Removal of secrets from URLs and texts: signatures, tokens, user names and passwords."""

import re
from urllib.parse import unquote_plus, urlsplit, urlunsplit

_PREFIXES = ("x-amz-", "x-goog-", "x-oss-")  # of S3, Google Cloud, Alibaba Cloud
_NAMES = frozenset(
    """
    api_key apikey auth authorization awsaccesskeyid googleaccessid hdnea hdnts hmac jwt key-pair-id ossaccesskeyid
    passwd sessionid sig signature
    """.split()
)
_OTHER = re.compile(r".*(token|password)|.*secret.*")
# Parts of signatures by Azure and content networks, which are ordinary names elsewhere.
_NEXT_TO_SIGNATURE = frozenset("expires policy se sip ske skoid sks skt sktid skv sp spr sr st sv".split())
_URL = re.compile(r"""(?:\b[a-z][a-z0-9+.-]*:|(?<![^\s'"(=]))//[^\s"'<>\\`]+""", re.I)

_PARAMETER = re.compile(r"""([?&#]([\w.-]+)=)[^\s&#'"<>\\`]+""")


def without_signature(url: str) -> str:
    """Return the URL without credentials and signature parameters; any other URL unchanged.

    Raises:
        ValueError: not a URL.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query, fragment = _unsigned(parts.query), _unsigned(parts.fragment)
    if (host, query, fragment) == (parts.netloc, parts.query, parts.fragment):
        return url
    return urlunsplit(parts._replace(netloc=host, query=query, fragment=fragment))


def gives_access(url: str) -> bool:
    """Return whether the URL contains credentials or a signature. Raises ValueError as `without_signature` does."""
    return without_signature(url) != url


def without_secrets(text: str) -> str:
    """Return `text` without the credentials and signatures in its URLs; partial URLs lose their signatures' values."""
    text = _URL.sub(lambda match: _cleaned(match[0]), text) if "//" in text else text
    return _PARAMETER.sub(lambda match: match[1] + "…" if _is_secret(match[2].lower()) else match[0], text)


def _cleaned(url: str) -> str:
    address = url.rstrip(").,;:")  # punctuation of the sentence around it
    try:
        return without_signature(address) + url[len(address) :]
    except ValueError:
        return re.sub(r"(?<=//)[^/]*@", "", address).partition("?")[0] + url[len(address) :]


def _unsigned(query: str) -> str:
    """Return parameters without those of a signature; `query` itself if there are none."""
    parameters = query.split("&")
    names = [unquote_plus(parameter.partition("=")[0]).lower() for parameter in parameters]
    signed = {name for name in names if _is_secret(name)}
    if not signed:
        return query
    dropped = signed | _NEXT_TO_SIGNATURE
    return "&".join(parameter for name, parameter in zip(names, parameters, strict=True) if name not in dropped)


def _is_secret(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES) or _OTHER.fullmatch(name) is not None
