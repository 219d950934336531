"""The viewer as a server: what it refuses, what its pages have, and what a person does with it in a real browser."""

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics
from jobs.runtime.command_line import cli
from jobs.store.files import spool
from jobs.viewer import queries
from jobs.viewer.corrections import Correction, Corrections
from jobs.viewer.picture_details import MOST_LINES, LineKey
from tests.browser import CHROMIUM
from tests.chromium import Chromium, chromium
from tests.factories import FIVE, copy_folder, image_row, metric_values, rating, rows_of, write_table
from tests.jobs.viewer.small_study import BLUE, GOLD, GREEN, RED, URLS, Served, served, viewer_of, write_study

ROOT = Path(__file__).parents[3]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
LINE = '["r", "fit", "", ""]'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def site(place: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("site")
    with served(viewer_of(place, folder, rater="ada", out=str(folder / "corrections"))) as site:
        yield site


def test_only_who_knows_the_token_and_asks_this_machine_is_answered(site: Served) -> None:
    inside = f"/{site.token}/"
    assert site.ask(inside).status == 200
    assert site.ask(inside, host=f"localhost:{site.port}").status == 200
    for path in ("/", "/x/", f"/{site.token[:-1]}/", f"/{site.token}x/", "/viewer.css", f"//{site.token}/", "/%00/"):
        assert site.ask(path).status == 404, path
    for host in ("attacker.example", f"attacker.example:{site.port}", "127.0.0.1.attacker.example", "169.254.169.254"):
        reply = site.ask(inside, host=host)
        assert (reply.status, "Pictures" in reply.text) == (400, False), host


def test_no_path_leads_to_a_file(site: Served) -> None:
    for path in ("../../../etc/passwd", "images/../../../etc/passwd", "images/..%2f..%2f..%2fetc%2fpasswd",
                 "images/%2e%2e/%2e%2e/etc/passwd", "viewer.css/../../view.py", "images//etc/passwd",
                 "pictures/' OR 1=1 --", "templates/base.html.j2"):  # fmt: skip
        reply = site.ask(f"/{site.token}/{path}".replace(" ", "%20"))
        assert (reply.status, "root:" in reply.text) == (404, False), path


def test_errors_are_pages_with_a_way_back(site: Served) -> None:
    for path in ("pictures/no<b>pe", "nothing", "images/x"):
        reply = site.ask(f"/{site.token}/{path}".replace("<", "%3C").replace(">", "%3E"))
        assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert '<html lang="en">' in reply.text
        assert re.search("<title>Not found .* R</title>", reply.text)
        assert "data-key" not in reply.text
        assert f'<p><a href="/{site.token}/">' in reply.text
        assert "<b>pe" not in reply.text
    refused = site.ask(f"/{site.token}/pictures/{RED}", method="POST", body=urlencode({"item_id": RED, LINE: "6"}))
    assert f'<p><a href="/{site.token}/pictures/{RED}">Back to the picture' in refused.text
    assert site.token not in site.ask("/x/pictures/nope").text + site.ask("/").text


def test_what_changes_nothing_is_not_called_saved(place: str, tmp_path: Path) -> None:
    out = tmp_path / "corrections"
    with served(viewer_of(place, tmp_path / "db", rater="ada", out=str(out))) as site:
        path = f"/{site.token}/pictures/{RED}"

        def save(value: str) -> str:
            form = urlencode({"item_id": RED, LINE: value, "comment": "c"})
            shown = site.ask(site.ask(path, method="POST", body=form).headers["location"]).text
            return re.findall(r'<p class="(saved|unchanged)"', shown)[0]

        assert (save(""), out.exists()) == ("unchanged", False)
        assert [save(value) for value in ("4", "4", "5", "", "")] == [
            "saved", "unchanged", "saved", "saved", "unchanged"
        ]  # fmt: skip


def sent_fields(page: str) -> dict[str, str]:
    """Return what a browser would send of a page's forms: the selected answers, and the hidden fields."""
    sent = {}
    for name, options in re.findall(r'<select name="([^"]*)".*?>(.*?)</select>', page, re.DOTALL):
        selected = re.search(r'<option value="([^"]*)" selected', options)
        sent[html.unescape(name)] = selected[1] if selected else ""
    for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page):
        sent[html.unescape(name)] = html.unescape(value)
    return sent


def test_an_older_page_withdraws_nothing_that_it_did_not_show(tmp_path: Path) -> None:
    place = write_study(tmp_path)
    rows = [rating(RED, "o", question, "1") for question in ("fit", "tone")]
    write_table(tmp_path / "R" / "ratings" / "o", "ratings", rows, rubric=FIVE)
    out = tmp_path / "corrections"
    fit, tone = LINE, LINE.replace("fit", "tone")

    def stored() -> dict[str, str]:
        return {row["question"]: row["value"] for row in rows_of(str(out / "r"))}

    with served(viewer_of(place, tmp_path / "db", rater="ada", out=str(out))) as site:
        path = f"/{site.token}/pictures/{RED}"

        def send(**answers: str) -> str:
            names = {"fit": fit, "tone": tone}
            form = urlencode({**old, "item_id": RED, **{names[name]: value for name, value in answers.items()}})
            reply = site.ask(path, method="POST", body=form)
            assert reply.status == 303, reply
            return site.ask(reply.headers["location"]).text

        old = sent_fields(site.page(f"pictures/{RED}"))
        assert {name: old[name] for name in (fit, f"shown {fit}")} == {fit: "", f"shown {fit}": ""}
        assert "elsewhere" not in send(fit="4")
        assert stored() == {"fit": "4"}
        assert "elsewhere" not in send(tone="2")  # of a page that shows no answer to either
        assert stored() == {"fit": "4", "tone": "2"}
        assert "1 of your answers had been changed elsewhere" in send(fit="5")
        assert stored() == {"fit": "5", "tone": "2"}
        other = Corrections(str(out), "ada", Rubrics({"r": FIVE}))  # another viewer of the same person
        other.save([Correction(RED, LineKey("r", "tone", "", ""), "1")])
        old = sent_fields(site.page(f"pictures/{RED}"))
        assert old[fit] == "5"
        page = send(fit="")
        assert stored() == {"tone": "1"}
        assert sent_fields(page)[tone] == "1"


def test_numbers_and_names_that_no_page_sends_are_refused(site: Served) -> None:
    long = "9" * 5000
    for path in (f"?page={long}", f"ratings?page={long}", f"responses?page={long}", f"spans?page={long}",
                 f"compare?page={long}", f"pictures/{RED}?at={long}"):  # fmt: skip
        reply = site.ask(f"/{site.token}/{path}")
        assert (reply.status, "at most 100 digits" in reply.text) == (400, True), path
    body = urlencode({"item_id": RED, "[" * 100_000: "4"})
    assert site.ask(f"/{site.token}/pictures/{RED}", method="POST", body=body).status == 400


def test_a_line_that_only_its_question_shows_can_be_corrected(tmp_path: Path) -> None:
    """A picture has more lines than its page, which shows those of one question if it is chosen."""
    rows = [rating("i", "m", "fit", "1", target=f"t{n:02}") for n in range(MOST_LINES)]
    rows.append(rating("i", "m", "right", "1"))
    write_table(tmp_path / "R" / "images", "images", [image_row("", image_id="i")])
    write_table(tmp_path / "R" / "ratings", "ratings", rows, rubric=FIVE)
    out = tmp_path / "corrections"
    with served(viewer_of(str(tmp_path / "R"), tmp_path / "db", rater="ada", out=str(out))) as site:
        path = f"/{site.token}/pictures/i?question=r%2Fright"
        form = urlencode({"item_id": "i", '["r", "right", "", ""]': "4"})
        assert site.ask(path, method="POST", body=form).headers["location"].endswith("&saved=1")
        assert '<option value="4" selected>' in site.ask(path).text
    assert [(row["question"], row["value"]) for row in rows_of(str(out / "r"))] == [("right", "4")]


def test_nothing_is_loaded_from_elsewhere_or_kept_by_others(site: Served) -> None:
    reply = site.ask(f"/{site.token}/pictures/{RED}")
    policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert set(policy.values()) == {"'none'", "'self'"}
    assert (reply.headers["referrer-policy"], reply.headers["cache-control"]) == ("same-origin", "no-store")
    assert "server" not in reply.headers
    loaded = re.findall(r"(?:src|action|rel=\"stylesheet\" href)=\"([^\"]*)\"", reply.text)
    assert loaded
    assert all(address.startswith(f"/{site.token}/") for address in loaded)
    assert "<b>house" not in reply.text
    assert "&lt;b&gt;house" in reply.text


def test_each_page_offers_the_keys_that_work_there(site: Served) -> None:
    offered = {
        path: re.findall(r"<kbd>(.)</kbd>", site.page(path)) for path in ("", "ratings", f"pictures/{GOLD}?at=3")
    }
    cards = ["j", "k", "x"]
    assert offered == {
        "": ["/", "s", "t", "a", *cards], "ratings": ["/", "s"], f"pictures/{GOLD}?at=3": ["p", "s", "c", "t"],
    }  # fmt: skip
    for path, keys in offered.items():
        assert sorted(set(keys) - set(cards)) == sorted(set(re.findall(r'data-key="(.)"', site.page(path))))
    # On each field: the first question may have none.
    fields = re.findall(r"<select name=[^>]*>", site.page(f"pictures/{RED}"))
    assert len(fields) > 1
    assert all('data-key="c"' in field for field in fields)


def test_every_list_shows_its_rows(site: Served) -> None:
    assert site.page("").count('class="card"') == 4
    assert "1 picture" in site.page("?region=North")
    assert "No picture matches." in site.page("?q=nothing")
    for path in ("", "ratings", "compare", "responses", "spans"):  # each says which list it is, and nothing after it
        assert re.findall(r'href="[^"]*/(\w*)" aria-current="page"', page := site.page(path)) == [path]
        assert re.fullmatch(r"\s*</body>\s*</html>\s*", page.partition("</footer>")[2])
    assert "Seen." in site.page("ratings?question=r%2Fright")
    assert "A red door." in site.page("responses")
    assert "<mark>red</mark>" in site.page("spans")
    assert "va=3&amp;vb=1" in site.page("compare?a=m&b=p1&question=r/fit")
    chosen = {
        query: re.findall(r'<option value="(\w+)" selected', site.page(f"compare{query}"))
        for query in ("", "?a=p1", "?b=p1", "?a=n&b=p1")
    }
    assert chosen == {"": ["m", "n"], "?a=p1": ["m", "n"], "?b=p1": ["m", "n"], "?a=n&b=p1": ["n", "p1"]}
    for query, question in (("", "r/fit"), ("?question=r%2Fright", "r/right")):
        assert f'<option value="{question}" selected>' in site.page(f"compare{query}")
    similar = site.page(f"?like={RED}")
    assert [similar.index(f"pictures/{name}?") for name in (RED, GOLD, BLUE)] == sorted(
        similar.index(f"pictures/{name}?") for name in (RED, GOLD, BLUE)
    )
    assert "does not say which encoder" in site.ask(f"/{site.token}/?near=a+red+door").text
    second = site.page(f"pictures/{GOLD}?at=3")
    assert f'rel="prev" data-key="p" href="/{site.token}/pictures/{BLUE}?&amp;at=2"' in second
    assert 'rel="next"' not in second
    picture = site.ask(f"/{site.token}/images/{RED}")
    assert (picture.status, picture.headers["content-type"], picture.text[8:12]) == (200, "image/webp", "WEBP")


def test_a_picture_has_links_to_those_next_to_it(site: Served) -> None:
    def links(at: str) -> dict[str, tuple[str, str]]:
        matches = re.findall(r'rel="(\w+)" data-key="." href="[^"]*/pictures/(\w+)\?[^"]*&amp;at=(\d+)"',
                           site.page(f"pictures/{BLUE}?at={at}"))  # fmt: skip
        return {name: (picture, place) for name, picture, place in matches}

    assert links("0") == {"next": (GREEN, "1")}
    assert links("1") == {"prev": (RED, "0"), "next": (BLUE, "2")}
    assert links("3") == {"prev": (BLUE, "2")}
    assert links("4") == {"prev": (GOLD, "3")}
    assert links("x") == links("9" * 30) == {}


def test_after_a_form_the_picture_is_shown_with_the_same_filters(site: Served) -> None:
    form = urlencode({"item_id": RED, LINE: ""})  # changes nothing
    path = f"/{site.token}/pictures/{RED}"
    for query, shown in (
        ("", "?"),
        ("?region=North&page=2&at=3", "?region=North&page=2&at=3"),
        ("?at=%26", "?&at=%26"),
    ):
        reply = site.ask(path + query, method="POST", body=form, Sec_Fetch_Site="none")
        assert (reply.status, reply.headers["location"]) == (303, f"{path}{shown}&saved=0")
    for place in ("cross-site", "same-site"):
        assert site.ask(path, method="POST", body=form, Sec_Fetch_Site=place).status == 403
    for field in ("[1", '["r"]', '["r", "fit", "", "", ""]', "[1, 2, 3, 4]", "[]", "null"):  # not names of lines
        reply = site.ask(path, method="POST", body=urlencode({"item_id": RED, field: "4"}))
        assert (reply.status, reply.headers["location"]) == (303, f"{path}?&saved=0"), field


def test_a_picture_is_small_in_lists_and_large_on_its_page(place: str, tmp_path: Path) -> None:
    viewer = viewer_of(place, tmp_path)
    asked: list[tuple[str, int]] = []
    thumbnail = viewer._shown.pictures.thumbnail
    viewer._shown.pictures.thumbnail = lambda *asked_for: asked.append(asked_for) or thumbnail(*asked_for)  # type: ignore
    with served(viewer) as site:
        for path in (RED, f"{RED}?size=large", f"{RED}?size=huge"):
            reply = site.ask(f"/{site.token}/images/{path}")
            assert (reply.status, reply.headers["cache-control"]) == (200, "private, max-age=3600")
    assert asked == [(RED, 320), (RED, 1280), (RED, 320)]


def test_links_of_a_second_page_have_the_place_of_each_picture(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PICTURES_PER_PAGE", 3)
    places = {page: re.findall(r"pictures/\w+\?[^\"]*at=(\d+)", site.page(page)) for page in ("", "?page=2")}
    assert places == {"": ["0", "1", "2"], "?page=2": ["3"]}
    pagers = {
        page: re.findall(r'<a rel="(\w+)" data-key="." href="([^"]*)">|<span>page (.*?)</span>', site.page(page))
        for page in ("", "?page=2", "?q=gold")
    }
    assert pagers == {
        "": [("", "", "1 of 2"), ("next", "?page=2", "")], "?page=2": [("prev", "?page=1", ""), ("", "", "2 of 2")],
        "?q=gold": [],
    }  # fmt: skip


def test_an_attribute_is_a_filter_of_pictures_and_ratings(tmp_path: Path) -> None:
    items = [
        {"item_id": f"i{n}", "kind": "image", "image_ids": [f"i{n}"], "attributes": [("film <stock>", "ab"[n % 2])]}
        for n in range(5)
    ]
    write_table(tmp_path / "R" / "images", "images", [image_row("", image_id=f"i{n}") for n in range(5)])
    write_table(tmp_path / "R" / "items", "items", items)
    write_table(tmp_path / "R" / "ratings", "ratings", [rating(f"i{n}", "m", "fit", "1") for n in range(5)])
    with served(viewer_of(str(tmp_path / "R"), tmp_path / "db")) as site:
        query = urlencode({"attribute.film <stock>": "b"})
        for path, count in (("", "2 pictures"), ("ratings", "2 ratings")):
            page = site.page(f"{path}?{query}")
            assert count in page
            assert '<span dir="auto">film &lt;stock&gt; b</span> <span aria-hidden="true">' in page
        assert '<option value="b" selected>b (2)</option>' in page
        bar = r'<a href="([^"]*)"( aria-current="true")?><span class="of" dir="auto">(\w)</span> <span class="n">(\d)'
        assert re.findall(bar, site.page(f"?{query}")) == [
            ("?attribute.film+%3Cstock%3E=b&amp;attribute.film+%3Cstock%3E=a", "", "a", "3"),
            ("?", ' aria-current="true"', "b", "2"),
        ]
        assert '<option value="m">' in site.page("compare")  # the only rater


def test_the_start_counts_rows_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(tmp_path / "R" / "m", "ratings", [rating("i", "m", "fit", "1")])
    write_table(tmp_path / "R" / "images", "images", [image_row("", image_id=name) for name in "ij"])
    viewer_of(str(tmp_path / "R"), tmp_path / "db").close()
    printed = capsys.readouterr().out
    assert "ratings: 1 row of 1 table\n" in printed
    assert "images: 2 rows of 1 table\n" in printed


def test_corrections_are_refused_from_elsewhere_and_without_a_rater(site: Served, place: str, tmp_path: Path) -> None:
    form = urlencode({"item_id": RED, LINE: "4"})
    path = f"/{site.token}/pictures/{RED}"
    reply = site.ask(path, method="POST", body=form, Sec_Fetch_Site="cross-site")
    assert reply.status == 403
    assert site.ask(path, method="POST", body="x" * (1 << 21)).status == 413
    refused = site.ask(path, method="POST", body=urlencode({"item_id": RED, LINE: "6"}))
    assert (refused.status, "must be one of 1, 2, 3, 4, 5" in refused.text) == (400, True)
    with served(viewer_of(place, tmp_path / "db")) as readers:
        assert readers.ask(f"/{readers.token}/pictures/{RED}", method="POST", body=form).status == 403


def test_a_correction_reaches_the_report(place: str, tmp_path: Path) -> None:
    out = tmp_path / "corrections"
    viewer = viewer_of(place, tmp_path / "db", rater="ada", out=str(out))
    with served(viewer) as site:
        path = f"/{site.token}/pictures/{RED}"
        reply = site.ask(path, method="POST", body=urlencode({"item_id": RED, LINE: "4", "comment": "é"}))
        assert reply.status == 303
        assert reply.headers["location"].startswith(path)
        assert '<option value="4" selected>' in site.page(f"pictures/{RED}")
        assert "1 picture" in site.page("?rater=ada")
        of_red = "SELECT n FROM lines WHERE question = 'fit' AND item_id = ?"
        assert viewer._shown.connection.cursor().execute(of_red, [RED]).fetchall() == [(4,)], "with the new answer"
        assert '<option value="ada"' in site.page(""), "the filter of raters has the new one"
    assert [(row["rater"], row["value"], row["comment"]) for row in rows_of(str(out / "r"))] == [("ada", "4", "é")]
    again = viewer_of(place, tmp_path / "again", rater="ada", out=str(out))
    with served(again) as site:
        site.ask(f"/{site.token}/pictures/{RED}", method="POST", body=urlencode({"item_id": RED, LINE: ""}))
        site.ask(f"/{site.token}/pictures/{GOLD}", method="POST", body=urlencode({"item_id": GOLD, LINE: "1"}))
    report = tmp_path / "report"
    cli.execute("report", [f"ratings=[{place}/ratings/*,{out}/*]", f"out={report}"])
    value = metric_values(str(report / "metrics"))
    assert value("mean_score", rubric="r", question="fit", rater="ada") == 1
    with pytest.raises(InputError, match=r"rater=m: .*has ratings by this rater"):
        viewer_of(place, tmp_path / "taken", rater="m", out=str(tmp_path / "other"))
    for key in ("rater=ada", f"out={tmp_path}/other"):
        with pytest.raises(InputError, match=r"set both rater= .* and out="):
            cli.execute("view", [f"inputs=[{place}]", key])


def test_tables_and_corrections_on_s3(s3: str, tmp_path: Path) -> None:
    place = f"{s3}/view/R"
    copy_folder(Path(write_study(tmp_path)), place)
    with served(viewer_of(place, tmp_path / "db", rater="ada", out=f"{place}/corrections")) as site:
        assert site.ask(f"/{site.token}/images/{RED}").status == 200
        reply = site.ask(f"/{site.token}/pictures/{RED}", method="POST", body=urlencode({"item_id": RED, LINE: "4"}))
        assert reply.status == 303
    assert [row["value"] for row in rows_of(f"{place}/corrections/r")] == ["4"]


def test_excluded_pictures_have_no_address(place: str, tmp_path: Path) -> None:
    with served(viewer_of(place, tmp_path, excluded=URLS[0])) as site:
        assert RED not in site.page("")
        for path in (f"pictures/{RED}", f"images/{RED}"):
            assert site.ask(f"/{site.token}/{path}").status == 404
        assert RED not in site.page(f"?like={GOLD}")


def test_a_number_of_the_report_leads_to_all_its_ratings(tmp_path: Path) -> None:
    items = [{"item_id": f"i{n}", "kind": "image", "image_ids": [f"i{n}"], "attributes": [("hall", "AB"[n % 3 > 0])]}
             for n in range(9)]  # fmt: skip
    ratings = [rating(f"i{n}", rater, "fit", str(1 + (n + shift) % 5), target=target)
               for n in range(9) for shift, rater in enumerate(("m", "k")) for target in "xy"]  # fmt: skip
    ratings[3] |= {"status": "refused", "value": None, "score": None}
    write_table(tmp_path / "R" / "images", "images", [image_row("", image_id=f"i{n}") for n in range(9)])
    write_table(tmp_path / "R" / "items", "items", items)
    write_table(tmp_path / "R" / "ratings", "ratings", ratings, rubric=FIVE)
    tables = [f"{name}=[{tmp_path}/R/{name}]" for name in ("ratings", "items")]
    cli.execute("report", [*tables, "metrics.disaggregate=[hall]", f"out={tmp_path}/R/report"])
    with served(viewer_of(str(tmp_path / "R"), tmp_path / "db")) as site:
        page = site.page("numbers?q=mean_score")
        numbers = re.findall(
            r'<td class="num"><a href="/[^"/]*/(ratings[^"]*)".*?<td class="num">(\d+)', page, re.DOTALL
        )
        counts = {html.unescape(path): int(n) for path, n in numbers}
        of_raters = {path: n for path, n in counts.items() if "by=" not in path}
        assert {"rater=m&rated=ok&attribute.hall=A", "rater=k&rated=ok"} <= {
            path.partition("fit&")[2] for path in of_raters
        }
        for path, n in of_raters.items():
            assert f"{n} rating" in site.page(path), path
        assert '<p class="count" role="status">6 ratings of' in site.page("ratings?rater=k&attribute.hall=A")


AUDIT = """axe.run(document, {resultTypes: ['violations']}).then(result => result.violations
    .filter(one => ['serious', 'critical'].includes(one.impact))
    .map(one => [one.id, one.nodes.length, one.nodes[0].html]))"""


PRESS = "dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Chromium]:
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "chromium is not installed, and CI is set"
        pytest.skip("chromium is not installed")
    with chromium(tmp_path) as page:
        yield page


@pytest.mark.long
def test_a_person_uses_it_in_chromium(site: Served, page: Chromium) -> None:
    for dark in (False, True):
        page.show(1280, 900, dark=dark)
        for path in (
            "",
            f"pictures/{RED}?at=0",
            "ratings",
            "compare",
            "responses",
            "spans",
            "numbers",
            "map?colour=region",
            "saved",
            "pictures/nope",
        ):
            page.open(site.url + path)
            if AXE.exists():
                page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
                assert page.evaluate(AUDIT) == [], (path, dark)
    page.show(390, 800)
    for path in ("", f"pictures/{RED}", "map", "?region=North"):
        page.open(site.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.show(1280, 900)
    page.open(site.url)
    page.evaluate("low = document.querySelector('[name=\"from.score.r/fit\"]'), low.value = 3")
    page.evaluate("low.dispatchEvent(new Event('input', {bubbles: true}))")
    assert page.evaluate("low.closest('fieldset').querySelector('output').value").startswith("3 –")
    page.follow("low.form.requestSubmit()")
    assert page.evaluate("location.search") == "?sort=place&from.score.r%2Ffit=3"
    assert page.evaluate("document.querySelectorAll('.card').length") == 2
    page.show(390, 800)
    page.open(f"{site.url}compare?a=m&b=p1&question=r/fit")  # both answers are seen without scrolling
    page.evaluate("content = document.createRange()")
    page.evaluate("content.selectNodeContents(document.querySelector('.list td:last-child'))")
    assert page.evaluate("content.getBoundingClientRect().right") < 390
    assert page.evaluate("getComputedStyle(document.querySelector('.frame img')).filter").startswith("blur")
    page.evaluate("document.querySelector('.reveal').click()")
    assert page.evaluate("getComputedStyle(document.querySelector('.frame img')).filter") == "none"
    page.open(site.url)
    page.evaluate(f"document.body.{PRESS % '/'}")
    assert page.evaluate("document.activeElement.name") == "q"
    page.evaluate("document.activeElement.value = 'gold'")
    page.follow("document.activeElement.form.requestSubmit()")
    assert page.evaluate("location.search") == "?q=gold&sort=place"
    page.follow("document.querySelector('.card h2 a').click()")
    page.evaluate("document.querySelector('td select').value = '2'")
    page.follow("document.querySelector('.save button').click()")
    assert page.evaluate("document.querySelector('.saved').textContent") == "Saved."
    assert page.evaluate("document.querySelector('td select').value") == "2"
    page.follow("document.querySelector('.save button').click()")
    assert page.evaluate("document.querySelector('.unchanged').textContent").startswith("Nothing changed")
    page.open(site.url + "pictures/nope")
    page.follow("document.querySelector('main a').click()")
    assert page.evaluate("document.querySelectorAll('.card').length") == 4


@pytest.mark.long
def test_pictures_are_tagged_by_keys_and_selected_on_the_map_in_chromium(site: Served, page: Chromium) -> None:
    page.open(site.url)  # two cards are selected and tagged with keys, and the view gets a name
    for key in "jxjxt":
        page.evaluate(f"document.activeElement.{PRESS % key}")
    assert page.evaluate("document.querySelectorAll('.pick :checked').length") == 2
    page.evaluate("document.activeElement.value = 'odd'")
    page.follow("document.activeElement.form.requestSubmit()")
    page.follow("document.querySelector('.tag').click()")
    assert page.evaluate("document.querySelectorAll('.card').length") == 2
    page.evaluate(f"document.body.{PRESS % 'v'}")
    page.evaluate("document.activeElement.value = 'Odd ones'")
    page.follow("document.activeElement.form.requestSubmit()")
    page.follow("document.querySelector('.saved-list a').click()")
    assert page.evaluate("location.search") == "?tag=odd"
    page.open(site.url + "map")  # a line around all points but those at the right edge
    page.evaluate("""at = (type, x, y) => lasso.dispatchEvent(new PointerEvent(type, {bubbles: true, button: 0,
        clientX: box.left + x * box.width, clientY: box.top + y * box.height}))""")
    page.evaluate("box = lasso.getBoundingClientRect(), lasso.setPointerCapture = () => {}")
    page.evaluate(
        "at('pointerdown', 0, 0), at('pointermove', 0.9, 0), at('pointermove', 0.9, 1), at('pointermove', 0, 1)"
    )
    inside = page.evaluate("[...lasso.querySelectorAll('circle')].filter(one => one.cx.baseVal.value < 900).length")
    assert 0 < inside < 4
    page.follow("at('pointerup', 0, 1)")
    assert page.evaluate("location.search").startswith("?within=")
    assert page.evaluate("document.querySelectorAll('.card').length") == inside


def test_ctrl_c_ends_it_without_a_trace(place: str, tmp_path: Path) -> None:
    script = (
        "import signal, sys, threading, urllib.request\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a parent in the background has it ignored
        "from jobs.runtime.command_line import cli\nfrom jobs.runtime.process import console\n"
        "from jobs import view\n"
        "def use(url):\n"
        "    print(urllib.request.urlopen(url).status, flush=True)\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "def say(text):\n"
        "    if 'http' in text:\n"
        "        threading.Thread(target=use, args=(text.split()[-1],)).start()\n"
        "view.say = say\n"
        f"sys.exit(cli.main('view', [{place!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[-1]) == (130, "200"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_database_of_a_killed_viewer_is_removed_by_the_next_command(place: str, tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom jobs.runtime.command_line import cli\nfrom jobs import view\n"
        "view.say = lambda text: os.kill(os.getpid(), signal.SIGKILL) if 'http' in text else None\n"
        f"cli.main('view', [{place!r}])\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, timeout=120, check=False)
    assert ended.returncode == -9
    assert [path.name for path in tmp_path.glob("remine-view-*/tables.duckdb")] == ["tables.duckdb"]
    spool.sweep.__wrapped__(str(tmp_path))  # as each process does with its first temporary folder
    assert list(tmp_path.iterdir()) == []
