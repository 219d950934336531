"""Templates of others cannot fill the memory."""

import jinja2.sandbox
import pytest

from actors.vlm.templates import environment
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
