"""Final URLs are stored without what gives access."""

from actors.fetching.signed_urls import gives_access, without_secrets, without_signature
from tests.cases import check_cases


def test_signatures_and_credentials_are_left_out() -> None:
    cases = [
        ("https://b.s3.amazonaws.com/a.jpg?X-Amz-Credential=AK&X-Amz-Signature=f0",
         "https://b.s3.amazonaws.com/a.jpg"),
        ("https://cdn.example/a.jpg?w=300&Expires=9&Signature=x&Key-Pair-Id=K", "https://cdn.example/a.jpg?w=300"),
        ("https://b.blob.core.windows.net/a.jpg?sv=2024&se=2030&sig=abc", "https://b.blob.core.windows.net/a.jpg"),
        ("https://storage.googleapis.com/b/a.jpg?x-goog-signature=1&x-goog-date=2#f",
         "https://storage.googleapis.com/b/a.jpg#f"),
        ("https://user:word@files.example/a.jpg?access_token=t", "https://files.example/a.jpg"),
        ("https://user:w@rd@files.example/a.jpg", "https://files.example/a.jpg"),
        ("https://files.example/a.jpg?%74oken=t&a=1#access_token=u", "https://files.example/a.jpg?a=1"),
        ("s3://key:word@bucket/a", "s3://bucket/a"),
        ("https://b.example/a.jpg?sig=x&sip=1&ske=1&skoid=1&sks=1&skt=1&sktid=1&skv=1&sp=1&spr=1&sr=1&st=1&size=1",
         "https://b.example/a.jpg?size=1"),
        ("https://b.example/a.jpg?Policy=1&w=3&sig=x#expires=1", "https://b.example/a.jpg?w=3#expires=1"),
        ("https://b.example/a.jpg?a=sig&b&=token", None),
        ("https://wiki.example/index.php?title=File:A.jpg&width=300", None),
        ("https://files.example/a.jpg?", None),
        ("https://files.example/a.jpg?sp=2&st=3", None),
        ("", None),
    ]  # fmt: skip

    def check(url: str, stored: str | None) -> None:
        assert without_signature(url) == (url if stored is None else stored)
        assert gives_access(url) == (stored is not None)
        assert (
            without_secrets(f"see '{url}' ({url}), or {url}.")
            == f"see '{stored or url}' ({stored or url}), or {stored or url}."
        )

    check_cases(check, cases)


def test_parameters_that_give_access() -> None:
    names = (
        "api_key apiKey auth Authorization AWSAccessKeyId client_secret GoogleAccessId hdnea hdnts hmac jwt "
        "Key-Pair-Id oauth_token OSSAccessKeyId passwd password sessionid sig Signature token X-Amz-Date X-Goog-Date "
        "x-oss-date"
    )
    kept = [
        name for name in names.split() if without_signature(f"https://a.org/1?w=3&{name}=x") != "https://a.org/1?w=3"
    ]
    assert kept == []
    for name in ("api_secret_v2", "secrets"):
        assert gives_access(f"https://a.org/1?w=3&{name}=x")
    for name in ("author", "tokens", "size", "design", "passwords", "hash"):
        assert not gives_access(f"https://a.org/1?w=3&{name}=x")


def test_texts_without_secrets() -> None:
    for text in (
        "",
        "a // b",
        "C://x",
        "/tmp/a//b@c",
        "mail@example.org",
        "https://",
        "'//': no bucket",
        "//" * 50_000,
    ):
        assert without_secrets(text) == text
    assert without_secrets("https://u:word@[half/a?sig=word") == "https://[half/a"
    assert without_secrets("https://u:w@rd@[half/a") == "https://[half/a"
    assert without_secrets("//u:word@a.org/1, HTTPS://u:word@a.org/2; x") == "//a.org/1, https://a.org/2; x"
    assert without_secrets("src=//u:word@a.org/1: (//u:word@a.org/2)") == "src=//a.org/1: (//a.org/2)"
    assert without_secrets('"//u:word@a.org/1"') == '"//a.org/1"'
    assert without_secrets("https://a.org/1?sig=word; https://a.org/2?sig=word:") == "https://a.org/1; https://a.org/2:"
    assert without_secrets("GET /a#token=word&sig='x'&w=1") == "GET /a#token=…&sig='x'&w=1"
    assert without_secrets("GET /a?size=1&sig=word HTTP") == "GET /a?size=1&sig=… HTTP"
    assert without_secrets("GET /a?Signature=word&size=1") == "GET /a?Signature=…&size=1"
    assert without_secrets("proxy http://u:word@127.0.0.1:9/, then") == "proxy http://127.0.0.1:9/, then"
