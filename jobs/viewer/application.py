"""The web application: addresses, their protection, and the pages as HTML, from templates that escape every text.

Only a browser on this machine that knows the token can read anything: the server listens on the loopback interface,
refuses requests whose Host is not this machine's (such as a name that an attacker's DNS points here), begins every
address with a random token, and has a content security policy that allows nothing from elsewhere.
"""

import contextlib
import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.html.formats import STYLE, in_words, link, number, percent, writable
from jobs.judging.kept_rubric import Rubrics
from jobs.judging.sent_prompts import PromptTexts
from jobs.viewer import picture_details, queries
from jobs.viewer.corrections import Correction, Corrections
from jobs.viewer.facets import Facets, read_facets, side_bar
from jobs.viewer.loading import load_tags, refresh_lines
from jobs.viewer.picture_details import LARGE, LineKey, PictureBytes, Texts
from jobs.viewer.queries import ATTRIBUTE, HIGHEST, LOWEST, RATING_SORTS, SIMILAR, SORTS, View
from jobs.viewer.saved import LISTS, Saved, check_name
from jobs.viewer.similar_pictures import SimilarPictures

if TYPE_CHECKING:
    import duckdb
    from starlette.requests import Request

HOSTS = ("127.0.0.1", "localhost")
MOST_COLOURS = 8  # of the map; other values are grey
SIDE = 320  # pixels of a picture in a list
MOST_FORM_BYTES = 1 << 20
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # the address contains the token, which the sources of pictures must not see
    "X-Content-Type-Options": "nosniff",
}
SHOWN = "shown"  # begins the names of fields with the answers that a page showed
LIST_NAMES = dict(
    zip(LISTS, ("Pictures", "Ratings", "Side by side", "Map", "Responses", "Spans", "Numbers"), strict=True)
)
PRIVATE, KEPT = "no-store", "private, max-age=3600"


@dataclass(frozen=True)
class Shown:
    """The data and settings of the application.

    Attributes:
        connection: the database of `jobs.viewer.loading`.
        saved: saved views and tags.
        corrections: where corrections are written; None: no label can be corrected.
        blur: whether pictures are blurred until the reader shows them.
        title: the title of the pages.
    """

    connection: "duckdb.DuckDBPyConnection"
    pictures: PictureBytes
    similar: SimilarPictures
    texts: Texts
    prompts: PromptTexts
    rubrics: Rubrics
    saved: Saved
    corrections: Corrections | None
    blur: bool
    title: str


class Viewer:
    """Answers requests; `application` is the ASGI application, and `token` begins the path of every address."""

    def __init__(self, shown: Shown, *, token: str | None = None) -> None:
        self._shown = shown
        self.token = token or secrets.token_urlsafe(32)
        self._read_tags()
        person = shown.corrections.rater if shown.corrections else ""
        shared = {"blur": shown.blur, "title": shown.title, "person": person}
        self._pages = Pages(f"/{self.token}/", **shared, has_vectors=bool(shown.similar))
        routes = [
            Route("/", self._pictures),
            Route("/pictures/{image_id}", self._picture),
            Route("/pictures/{image_id}", self._correct, methods=["POST"]),
            Route("/images/{image_id}", self._image),
            Route("/ratings", self._ratings),
            Route("/responses", self._responses),
            Route("/spans", self._spans),
            Route("/compare", self._compare),
            Route("/numbers", self._numbers),
            Route("/map", self._map),
            Route("/saved", self._saved),
            Route("/saved", self._save_view, methods=["POST"]),
            Route("/tags", self._tag, methods=["POST"]),
            Route("/viewer.css", self._style),
            Route("/viewer.js", self._script),
        ]
        self.application = Starlette(
            routes=[Mount("/{token}", routes=routes, middleware=[Middleware(TokenCheck, token=self.token)])],
            middleware=[
                Middleware(SafeHeaders),
                Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False),
            ],
            exception_handlers={InputError: self._refuse, HTTPException: self._refuse},
        )
        self.application.router.redirect_slashes = False  # a redirect would reveal that an address exists

    def close(self) -> None:
        """Close the database."""
        self._shown.connection.close()

    def _read_facets(self) -> Facets:
        with contextlib.closing(self._shown.connection.cursor()) as cursor:
            return read_facets(cursor, self._shown.rubrics)

    def _read_tags(self) -> dict[str, list[str]]:
        """Read the files of tags, which another viewer may have changed, and return tag -> ids of its pictures."""
        tags = self._shown.saved.tags()
        with contextlib.closing(self._shown.connection.cursor()) as cursor:
            load_tags(cursor, tags)
        self._facets = self._read_facets()
        return tags

    @contextlib.contextmanager
    def _cursor(self, view: View) -> Iterator[tuple["duckdb.DuckDBPyConnection", bool]]:
        """Yield a cursor, and whether it has the relation `ranked`, which searches by similarity need."""
        with contextlib.closing(self._shown.connection.cursor()) as cursor:
            scores = None
            if view.like and self._shown.similar:
                scores = self._shown.similar.to_picture(view.like)
            elif view.near and self._shown.similar:
                scores = self._shown.similar.to_text(view.near)
            if scores is not None:
                cursor.register("ranked", scores)
            yield cursor, scores is not None

    def _page(self, template: str, view: View, **content: Any) -> HTMLResponse:
        html = self._pages.render(template, view=view, facets=self._facets, **content)
        return HTMLResponse(html, headers={"Cache-Control": PRIVATE})

    def _pictures(self, request: "Request") -> Response:
        view = queries.view_of(request.query_params.multi_items())
        with self._cursor(view) as (cursor, similar):
            rows = queries.pictures(cursor, view, similar=similar)
            counts = side_bar(cursor, view, self._facets)
        first = (view.number - 1) * queries.PICTURES_PER_PAGE
        size = queries.PICTURES_PER_PAGE
        return self._page(
            "pictures.html.j2", view, rows=rows, size=size, first=first, is_similar=similar, counts=counts
        )

    def _picture(self, request: "Request") -> Response:
        view, image_id = queries.view_of(request.query_params.multi_items()), request.path_params["image_id"]
        at = request.query_params.get("at", "")
        place = queries.number_in("at", at)
        with self._cursor(view) as (cursor, similar):
            picture = picture_details.find_picture(cursor, image_id)
            if picture is None:
                raise HTTPException(404)
            person = self._shown.corrections.rater if self._shown.corrections else ""
            items = picture_details.items_of(
                cursor, image_id, view, rubrics=self._shown.rubrics, texts=self._shown.texts, person=person
            )
            sent = {
                item.item_id: self._shown.prompts.of_item(
                    image_id, item.context, [line.key[:3] for line in item.lines], pictures=item.pictures
                )
                for item in items
            }
            adjacent: dict[str, tuple[str, int]] = {}
            if place is not None:
                begin = max(0, place - 1)
                listed = queries.pictures(cursor, view, similar=similar, offset=begin, limit=3).rows
                numbered = {begin + number: row["image_id"] for number, row in enumerate(listed)}
                for name, other in (("previous", place - 1), ("next", place + 1)):
                    if other in numbered:
                        adjacent[name] = (numbered[other], other)
        messages = {name: request.query_params.get(name, "") for name in ("saved", "unseen")}
        return self._page(
            "picture.html.j2", view, picture=picture, items=items, sent=sent, adjacent=adjacent, at=at, **messages
        )

    @staticmethod
    async def _form(request: "Request") -> list[tuple[str, str]]:
        """Return the fields of a form that one of the viewer's own pages sent."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise HTTPException(403, "changes are sent by the viewer's own pages only")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_FORM_BYTES:
                raise HTTPException(413, f"the form has more than {MOST_FORM_BYTES:,} bytes")
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)

    async def _correct(self, request: "Request") -> Response:
        if self._shown.corrections is None:
            raise HTTPException(403, "corrections need rater= and out=")
        form = dict(await self._form(request))
        view, at = queries.view_of(request.query_params.multi_items()), request.query_params.get("at", "")
        changed, unseen = await run_in_threadpool(self._save, request.path_params["image_id"], form, view)
        query = view.address(page=view.page) + (f"&at={quote(at)}" if at else "") + f"&saved={changed}"
        query += f"&unseen={unseen}" if unseen else ""
        path = f"/{self.token}/pictures/{quote(request.path_params['image_id'], safe='')}"
        return RedirectResponse(path + query, status_code=303)

    def _save(self, image_id: str, form: Mapping[str, str], view: View) -> tuple[int, int]:
        """Write the answers that the person changed on the page.

        Args:
            view: the view that showed the form: with a question it has lines that a page of all questions leaves out.

        Returns:
            The number of answers, and of those that replaced an answer that the page did not show.
        """
        corrections = self._shown.corrections
        assert corrections is not None
        item_id = form.get("item_id", "")
        with contextlib.closing(self._shown.connection.cursor()) as cursor:
            items = picture_details.items_of(
                cursor, image_id, view, rubrics=self._shown.rubrics, texts=Texts(()), person=corrections.rater
            )
            lines = {line.key for item in items if item.item_id == item_id for line in item.lines}
            stored = {key: row["value"] for key, row in corrections.answers(item_id).items()}
            changed, unseen = [], 0
            for key, value, shown in _answers(form):
                before = stored.get(key)
                if key in lines and (value or None) != (before if shown is None else shown or None):
                    changed.append(Correction(item_id, key, value or None, form.get("comment", "")))
                    unseen += shown is not None and (shown or None) != before
            if changed:
                corrections.save(changed)
            self._reload(cursor, item_id, corrections)
        return len(changed), unseen

    def _reload(self, cursor: "duckdb.DuckDBPyConnection", item_id: str, corrections: Corrections) -> None:
        """Read the person's answers about an item again, which another viewer may have written as well."""
        cursor.execute("DELETE FROM ratings WHERE item_id = ? AND rater = ?", [item_id, corrections.rater])
        columns = [column[0] for column in cursor.execute("SELECT * FROM ratings LIMIT 0").description]
        marks = ", ".join("?" for _ in columns)
        for row in corrections.answers(item_id).values():
            cursor.execute(f"INSERT INTO ratings VALUES ({marks})", [row[name] for name in columns])
        refresh_lines(cursor, item_id)
        self._facets = self._read_facets()

    def _image(self, request: "Request") -> Response:
        side = LARGE if request.query_params.get("size") == "large" else SIDE
        small = self._shown.pictures.thumbnail(request.path_params["image_id"], side)
        if small is None:
            raise HTTPException(404)
        return Response(small.data, media_type=small.mime, headers={"Cache-Control": KEPT})

    def _ratings(self, request: "Request") -> Response:
        view = queries.view_of(request.query_params.multi_items())
        with self._cursor(View()) as (cursor, _):
            rows = queries.ratings(cursor, view)
        return self._page("ratings.html.j2", view, rows=rows, size=queries.ROWS_PER_PAGE)

    def _responses(self, request: "Request") -> Response:
        view = queries.view_of(request.query_params.multi_items())
        with self._cursor(View()) as (cursor, _):
            rows = queries.responses(cursor, view)
        return self._page("responses.html.j2", view, rows=rows, size=queries.ROWS_PER_PAGE)

    def _spans(self, request: "Request") -> Response:
        view = queries.view_of(request.query_params.multi_items())
        with self._cursor(View()) as (cursor, _):
            rows = queries.spans(cursor, view)
        texts = self._shown.texts.rows([row["text_id"] for row in rows.rows])
        for row in rows.rows:
            row["text"] = picture_details.marked_text(row, texts.get(row["text_id"], ("", ""))[1])
        return self._page("spans.html.j2", view, rows=rows, size=queries.ROWS_PER_PAGE)

    def _compare(self, request: "Request") -> Response:
        view = queries.view_of(request.query_params.multi_items())
        raters = [option.value for option in self._facets.raters]
        if not (view.a and view.b) and len(raters) > 1:
            question = view.question or next((option.value for option in self._facets.questions), "")
            view = queries.view_of({**request.query_params, "a": raters[0], "b": raters[1], "question": question})
        with self._cursor(View()) as (cursor, _):
            rows, matrix = queries.side_by_side(cursor, view)
            questions = queries.compared_questions(cursor, view)
        return self._page(
            "compare.html.j2", view, rows=rows, matrix=matrix, questions=questions, size=queries.ROWS_PER_PAGE
        )

    def _numbers(self, request: "Request") -> Response:
        view = queries.view_of(request.query_params.multi_items())
        with self._cursor(View()) as (cursor, _):
            rows = queries.numbers(cursor, view)
        return self._page("numbers.html.j2", view, rows=rows, size=queries.ROWS_PER_PAGE)

    def _saved(self, request: "Request") -> Response:
        tags = self._read_tags()
        views = self._shown.saved.views()
        files = {tag: self._shown.saved.tag_file(tag) for tag in tags}
        return self._page("saved.html.j2", View(), views=views, tags=tags, files=files, lists=LIST_NAMES)

    async def _save_view(self, request: "Request") -> Response:
        form = dict(await self._form(request))
        name = form.get("name", "") if "remove" in form else check_name("name", form.get("name", ""))
        address = None if "remove" in form else form.get("address", "")
        await run_in_threadpool(self._shown.saved.save_view, name, address)
        return RedirectResponse(f"/{self.token}/saved", status_code=303)

    async def _tag(self, request: "Request") -> Response:
        """Add pictures to a tag, or remove them: those of the form, or all that the view of the address shows."""
        pairs = await self._form(request)
        form, view = dict(pairs), queries.view_of(request.query_params.multi_items())
        image_ids = [value for name, value in pairs if name == "image_id"]

        def change() -> None:
            tag = self._shown.saved.spelling(check_name("tag", form.get("tag", "")))
            with self._cursor(View()) as (cursor, _):
                ids = queries.picture_ids(cursor, view if "all" in form else None, image_ids)
            if not ids:
                raise InputError("no picture is selected", remedy="go back, and select pictures or tag all of the view")
            self._shown.saved.tag(tag, ids, add="remove" not in form)
            self._read_tags()

        await run_in_threadpool(change)
        at = f"&at={quote(form['at'])}" if form.get("at") else ""
        path = f"pictures/{quote(image_ids[0], safe='')}" if "picture" in form and image_ids else ""
        return RedirectResponse(f"/{self.token}/{path}{view.address(page=view.page)}{at}", status_code=303)

    def _map(self, request: "Request") -> Response:
        view = queries.view_of(request.query_params.multi_items())
        with self._cursor(View()) as (cursor, _):
            points = queries.on_map(cursor, view, view.colour)
        counts = Counter(row["group"] for row in points.rows if row["group"])
        groups = [group for group, _ in counts.most_common(MOST_COLOURS)]
        return self._page("map.html.j2", view, rows=points, groups=groups)

    def _style(self, request: "Request") -> Response:
        css = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
        return Response(css, media_type="text/css", headers={"Cache-Control": KEPT})

    def _script(self, request: "Request") -> Response:
        return Response(SCRIPT.read_text("utf-8"), media_type="text/javascript", headers={"Cache-Control": KEPT})

    def _refuse(self, request: "Request", error: Exception) -> Response:
        status, message = (error.status_code, error.detail) if isinstance(error, HTTPException) else (400, str(error))
        if not _has_token(request.scope, self.token.encode()):  # the error page has links, which contain the token
            return Response(message + "\n", status, media_type="text/plain", headers={"Cache-Control": PRIVATE})
        if status == 404:
            message = f"{request.url.path.removeprefix(f'/{self.token}/')}: no such page or picture, or it is excluded"
        image_id = request.path_params.get("image_id", "") if request.method == "POST" else ""
        html = self._pages.render(
            "error.html.j2", view=View(), facets=self._facets, status=status, message=message, image_id=image_id
        )
        return HTMLResponse(html, status, headers={"Cache-Control": PRIVATE})


def _answers(form: Mapping[str, str]) -> Iterator[tuple[LineKey, str, str | None]]:
    """Yield the lines of a form with their value, and with the value that the page showed; None if it does not say.

    The name of a field is its line as a JSON list, after `SHOWN` that of the field of what was shown.

    Raises:
        InputError: a name is JSON that is nested too deeply.
    """
    for name, value in form.items():
        if not name.startswith("["):
            continue
        try:
            with contextlib.suppress(ValueError, TypeError):
                yield LineKey(*map(str, json.loads(name))), value, form.get(f"{SHOWN} {name}")
        except RecursionError as error:
            raise InputError(f"field {name[:40]!r}…: not the name of a question") from error


def _parameter(name: str) -> str:
    """Return the words for a query parameter, such as `year from` for `from.attribute.year`."""
    if name.startswith((LOWEST, HIGHEST)):
        end, _, rest = name.partition(".")
        return f"{_parameter(rest)} {end}"
    return in_words(name.removeprefix(ATTRIBUTE).replace(".", " "))


def _has_token(scope: Any, token: bytes) -> bool:
    """Return whether the first part of a request's path is the token, in constant time."""
    return secrets.compare_digest(scope.get("path_params", {}).get("token", "").encode("utf-8", "replace"), token)


class TokenCheck:
    """Answers 404 unless the first part of the path is the token; both are compared in constant time."""

    def __init__(self, app: Any, *, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or refuse it."""
        if _has_token(scope, self._token):
            await self._app(scope, receive, send)
        else:
            await Response("not found\n", 404, media_type="text/plain")(scope, receive, send)


class SafeHeaders:
    """Adds `HEADERS` to every response."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, and add the headers to the response."""

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


FOLDER = Path(__file__).parent
STYLES = (STYLE, FOLDER / "viewer.css")
SCRIPT = FOLDER / "viewer.js"


class Pages:
    """Renders templates.

    Args:
        base: the path that all addresses begin with, including the token, such as `/TOKEN/`.
        shared: values that every template may use.
    """

    def __init__(self, base: str, **shared: Any) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "n": number,
            "pct": percent,
            "link": link,
            "words": in_words,
            "quantity": quantity,
            "parameters": lambda address: queries.view_of(parse_qsl(address.partition("?")[2])).pairs,
            "parameter": _parameter,
            "bound": lambda value: f"{value:.12g}",
            "by_group": lambda numbers: [
                (group, list(names)) for group, names in groupby(numbers, key=lambda name: numbers[name].group)
            ],
            "prefixed": lambda names: [ATTRIBUTE + name for name in names],
            "sliders": lambda numbers: [end + name for name in numbers for end in (LOWEST, HIGHEST)],
        }
        self._environment.globals |= {"base": base, "sorts": SORTS, "rating_sorts": RATING_SORTS, "similar": SIMILAR}
        self._environment.globals |= shared

    def render(self, template: str, **content: Any) -> str:
        """Return a page."""
        return writable(self._environment.get_template(template).render(**content))
