"""URLs without what gives access: a redirect to a signed URL must not be stored with its signature."""

from urllib.parse import urlsplit, urlunsplit

_PREFIXES = ("x-amz-", "x-goog-", "x-oss-")  # of S3, Google Cloud, Alibaba Cloud
_NAMES = frozenset(
    """
    access_token api_key apikey auth authorization awsaccesskeyid googleaccessid hdnea hdnts hmac jwt key-pair-id
    ossaccesskeyid password secret security-token sig signature token
    """.split()
)
# Parts of signatures of Azure and of content networks, which are ordinary names elsewhere.
_NEXT_TO_SIGNATURE = frozenset("expires policy se sip ske skoid sks skt sktid skv sp spr sr st sv".split())


def without_signature(url: str) -> str:
    """The URL without credentials and without the parameters of a signature; any other URL as it is."""
    parts = urlsplit(url)
    parameters = parts.query.split("&")
    names = [parameter.partition("=")[0].lower() for parameter in parameters]
    signed = {name for name in names if name in _NAMES or name.startswith(_PREFIXES)}
    dropped = signed | _NEXT_TO_SIGNATURE if signed else signed
    kept = [parameter for name, parameter in zip(names, parameters, strict=True) if name not in dropped]
    host = parts.netloc.rpartition("@")[2]
    if len(kept) == len(parameters) and host == parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=host, query="&".join(kept)))
