"""Templates of others cannot fill the memory, and our own keep their line breaks."""

import re
from collections.abc import Iterator
from typing import Any

import jinja2.sandbox
import pytest
import yaml

from actors.rubrics import rubric_forms
from actors.rubrics.templates import environment, words
from tests.actors.vlm.helpers import CONF, readme_rubric
from tests.cases import check_cases


def test_formats_of_gigabytes_are_refused() -> None:
    cases = [
        "{{ '{:>999999999}'.format(1) }}",
        "{{ '{:{w}}'.format(1, w=999999999) }}",
        "{{ '{0:.{1}f}'.format(1.5, 999999999) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%.1000000000f' | format(1) }}",
        "{{ 'x' * 1000000000 }}",
        "{{ 1000000000 * 'x' }}",
        "{{ 'x'.ljust(1000000000) }}",
        "{{ 'x'.zfill(1000000000) }}",
        "{{ 'x' | center(1000000000) }}",
        "{{ 'x' | indent(1000000000, true) }}",
        "{{ 'x' | indent(width=1000000000, first=true) }}",
        "{{ [1] | batch(1000000000, 0) | list }}",
        "{{ [1] | slice(1000000000) | list }}",
        "{{ {'a': 1} | tojson(1000000000) }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ (-9) ** 999999999 }}",
        "{% set a = 'x' * 9999 %}{{ a | replace('x', a) }}",
        "{% set a = 'x' * 9999 %}{{ a.replace('x', a) }}",
        "{% set a = 'x' * 9999 %}{{ a | join(a) }}",
        "{% set a = 'x' * 9999 %}{{ a.join(a | list) }}",
        "{% set a = 'x' * 9999 %}" + "{% set a = a ~ a %}" * 40,
        "{% set a = 'x' * 9999 %}" + "{% set a = a + a %}" * 40,
        "{% set a = 'x' * 9999 %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40,
        "{% set a = 'x' * 9999 %}" + "{% set a = [a, a] | join %}" * 40,
        "{% set a = 10 ** 999 %}" + "{% set a = a * a %}" * 40,
        "{% set a = 'x' * 9999 %}{% for b in a %}{% for c in a %}{% for d in a %}{% endfor %}{% endfor %}{% endfor %}",
    ]

    def check(template: str) -> None:
        with pytest.raises(jinja2.sandbox.SecurityError, match="at most"):
            environment().from_string(template).render()

    check_cases(check, cases)


def test_the_largest_sizes_that_are_allowed() -> None:
    """N is the largest number that is allowed, and in the second rendering the next one."""
    cases = [
        *((template, 10_000, "10,000") for template in (
            "{{ '%Nd' % 1 }}", "{{ '%(a)Nd' % {'a': 1} }}", "{{ '%*d' % (N, 1) }}", "{{ '%.Nf' | format(1) }}",
            "{{ '%*d' | format(N, 1) }}", "{{ '{:>N}'.format(1) }}", "{{ '{:{w}}'.format(1, w=N) }}",
            "{{ '{:{}}'.format(1, N) }}", "{{ 'x' * N }}", "{{ N * 'x' }}", "{{ [1] * N }}", "{{ (1, ) * N }}",
            "{{ 'x'.ljust(N) }}", "{{ 'x'.expandtabs(tabsize=N) }}", "{{ 'x' | center(N) }}",
            "{{ 'x' | indent(N, true) }}", "{{ 'x' | truncate(N) }}", "{{ 'x' | truncate(length=N) }}",
            "{{ 'x' | wordwrap(N) }}", "{{ 1 | round(N) }}", "{{ [1] | batch(N, 0) | list }}",
            "{{ [1] | slice(N) | list }}", "{{ [1] | tojson(N) }}",
        )),
        ("{{ [1, 2] * N }}", 5000, "10,000"),
        ("{{ 2 ** N }}", 5000, "10,000"),  # 2 has two bits
        ("{{ 2 ** -N }}", 5000, "10,000"),
        ("{{ (2 ** 4999) * (2 ** (N - 1)) > 0 }}", 5000, "10,000"),
        *((template, 500_000, "1,000,000") for template in (
            "{{ a + a }}", "{{ a | list + a | list }}", "{{ a ~ a }}", "{% set b %}{{ a }}{{ a }}{% endset %}{{ b }}",
        )),
        # The text itself, and as many characters after each of its characters and before the first.
        *((template, 999, "1,000,000") for template in (
            "{{ ('x' * 999) | join(a) }}", "{{ ('x' * 999) | list | join(a) }}", "{{ ('x' * 999) | join(d=a) }}",
            "{{ ('x' * 999).join(a) }}",
        )),
        ("{% for b in a %}{% endfor %}", 100_000, "100,000"),
        ("{% for b in a %}{% for c in 'xyz' %}{% endfor %}{% endfor %}", 25_000, "100,000"),
    ]  # fmt: skip

    def check(template: str, most: int, message: str) -> None:
        for number in (most, most + 1):
            part = environment().from_string(template.replace("N", str(number)))
            if number == most:
                part.render(a="x" * number)
                continue
            with pytest.raises(jinja2.sandbox.SecurityError, match=f"at most {message}$"):
                part.render(a="x" * number)

    check_cases(check, cases)


def test_powers_are_of_numbers() -> None:
    assert environment().from_string("{{ 2.5 ** 2 }} {{ 4 ** 0.5 }} {{ 2 ** -1 }}").render() == "6.25 2.0 0.5"
    for template in ("{{ 'a' ** 2 }}", "{{ 2 ** 'a' }}", "{{ [] ** 2 }}"):
        with pytest.raises(jinja2.sandbox.SecurityError, match="for numbers"):
            environment().from_string(template).render()


def test_words_without_a_value_are_refused() -> None:
    for template in ("{{ nothing }}", "{{ word.nothing }}", "{% if nothing %}{% endif %}", "{{ word.__class__ }}"):
        with pytest.raises((jinja2.UndefinedError, jinja2.sandbox.SecurityError)):
            environment().from_string(template).render(word="x")
    assert words("{{ a }}{% set b = c %}{{ b }}{% for d in e %}{{ d }}{% endfor %}") == {"a", "c", "e"}


def test_ordinary_formats_are_rendered() -> None:
    template = (
        "{{ '%05.1f' % 2.5 }} {{ '%s of 20000' | format(123456) }} {{ '{:>4}/{}'.format(7, 99999) }} {{ 'ab' * 2 }}"
    )
    assert environment().from_string(template).render() == "002.5 123456 of 20000    7/99999 abab"


def test_loops_and_functions_that_never_end_are_refused() -> None:
    for template in (
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for a in [[1]] recursive %}{{ loop(a) }}{{ loop(a) }}{% endfor %}",
    ):
        with pytest.raises(jinja2.TemplateSyntaxError, match="not allowed"):
            environment().from_string(template)
    with pytest.raises(jinja2.UndefinedError):
        environment().from_string("{% for a in range(1000000000) %}{% endfor %}").render()


def test_ordinary_templates_are_rendered() -> None:
    template = (
        "{% for a in words %}{{ loop.index }}{{ loop.last }} {{ a | replace('a', 'b') | center(5) }}, {% endfor %}"
        "{{ words | join(' and ') }} {{ 'x' ~ 2 }} {{ 2 ** 10 }} {{ 3 * 4 }} {{ 'a\nb' | indent(2) }}"
        "{% set b %}{{ words[0] }}{% endset %}{% set c | upper %}{{ b }}{% endset %} {{ b }} {{ c }}"
    )
    text = environment().from_string(template).render(words=["ab", "c"])
    assert text == "1False   bb , 2True   c  , ab and c x2 1024 12 a\n  b ab AB"


def texts_of(data: Any) -> Iterator[str]:
    """Yield all texts in the content of a YAML file."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for entry in data.values() if isinstance(data, dict) else data:
            yield from texts_of(entry)


def joined_lines(template: str) -> list[str]:
    """Return the lines with text that end in a tag, so that the next line with text continues them."""
    pairs = re.findall(r"^(.*[^+]%\})\n(?=[^\n])", template, re.MULTILINE)
    return [line for line in pairs if re.sub(r"\{%.*?%\}", "", line).strip()]


def test_no_line_of_our_templates_ends_in_a_tag_that_joins_it_with_the_next() -> None:
    """`trim_blocks` drops the line break after a tag."""
    assert joined_lines("{{ a }}{% if b %}\n{{ b }}{% endif %}") == ["{{ a }}{% if b %}"]
    assert joined_lines("{% if b %}\n{{ b }}\n{% endif %}\n{{ a }}{% if b +%}\n{{ b }}{% endif %}") == []
    files = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in CONF.rglob("*.yaml")}
    files["a short rubric"] = rubric_forms.completed(readme_rubric())
    templates = [(name, text) for name, data in files.items() for text in texts_of(data) if "{%" in text]
    assert len(templates) > 20
    assert {name: joined_lines(text) for name, text in templates if joined_lines(text)} == {}
