"""Numbers, shares, links and characters as pages show them."""

import pytest

from jobs.html.formats import in_words, link, number, percent, without_folders, without_shared_folders, writable
from tests.cases import check_cases


def test_what_is_not_linked() -> None:
    def check(url: str | None) -> None:
        assert link(url) is None

    check_cases(check, [
        None, "", "javascript:alert(1)", "JAVASCRIPT:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)",
        "data:text/html,x", "file:///etc/passwd", "s3://bucket/key", "//evil.example/x", "https:", "https:///x",
        "http://[::1", "https://user:pass@host.example/x",
        "https://b.example/x?X-Amz-Credential=AKIA&X-Amz-Signature=1", "https://b.example/x?sv=1&sig=abc",
        "https://b.example/x?access_token=abc", "https://a.example/a b", "https://a.example/\x7f",
        "https://a.example/\x00", "https://a.example/\x1f",
    ])  # fmt: skip


@pytest.mark.parametrize("url", ["http://a.example/!x~", "https://upload.wikimedia.org/a/Müller_%28x%29.jpg?width=3"])
def test_what_is_linked(url: str) -> None:
    assert link(url) == url


def test_percent() -> None:
    expected = {
        None: "—", 0.0: "0.0%", 0.0001: "<0.1%", 0.0005: "0.1%", 0.125: "12.5%", 0.9994: "99.9%", 0.9995: ">99.9%",
        0.99999: ">99.9%", 1.0: "100.0%", -0.1: "-10.0%", 1.5: "150.0%",
    }  # fmt: skip
    assert {share: percent(share) for share in expected} == expected


def test_names_in_words() -> None:
    names = {"time_period": "time period", "sub_region": "sub-region", "sub_regions": "sub-regions", "ok": "ok", "": ""}
    assert {name: in_words(name) for name in names} == names


def test_number() -> None:
    assert [number(37_800_000), number(-3.14159, 2), number(None)] == ["37,800,000", "−3.14", "—"]


def test_characters_that_no_page_can_hold_are_replaced() -> None:
    ends = [0x00, 0x08, 0x0B, 0x0C, 0x0E, 0x1F, 0x7F, 0x9F, 0xD800, 0xDFFF, 0xFFFE, 0xFFFF]
    assert writable("".join(map(chr, ends))) == "\ufffd" * len(ends)
    allowed = "".join(map(chr, [0x09, 0x0A, 0x0D, 0x20, 0x7E, 0xA0, 0xD7FF, 0xE000, 0xFFFD, 0x10000]))
    assert writable(allowed) == allowed


def test_local_paths_lose_the_folders_around_all_of_them() -> None:
    cases = {
        ("/home/ada/study/R/images", "/home/ada/study/R/ratings/a"): ["R/images", "R/ratings/a"],
        ("/home/ada/R/images",): ["images"],
        ("/R/a", "s3://b/R/x"): ["a", "s3://b/R/x"],
        ("/a/x", "/b/y"): ["a/x", "b/y"],
        (): [],
    }
    assert {uris: without_shared_folders(list(uris)) for uris in cases} == cases


def test_a_local_path_loses_its_folders_and_an_address_does_not() -> None:
    cases = {
        "/home/ada/models/mine/": "mine",
        "~/models/mine": "mine",
        "../mine": "mine",
        "local-dir:/home/ada/clip": "local-dir:clip",
        "org/model": "org/model",
        "local:tiny": "local:tiny",
        "s3://b/models/mine": "s3://b/models/mine",
        "https://h:80/a:/b": "https://h:80/a:/b",
        "": "",
    }
    assert {place: without_folders(place) for place in cases} == cases
