"""Templates of others cannot fill the memory."""

import jinja2.sandbox
import pytest

from actors.vlm.templates import environment


@pytest.mark.parametrize(
    "template",
    [
        "{{ '{:>999999999}'.format(1) }}",
        "{{ '{:{w}}'.format(1, w=999999999) }}",
        "{{ '{0:.{1}f}'.format(1.5, 999999999) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%.1000000000f' | format(1) }}",
        "{{ 'x' * 1000000000 }}",
        "{{ 1000000000 * 'x' }}",
        "{{ 'x'.ljust(1000000000) }}",
    ],
)
def test_formats_of_gigabytes_are_refused(template: str) -> None:
    with pytest.raises(jinja2.sandbox.SecurityError, match="at most"):
        environment().from_string(template).render()


def test_ordinary_formats_are_rendered() -> None:
    template = (
        "{{ '%05.1f' % 2.5 }} {{ '%s of 20000' | format(123456) }} {{ '{:>4}/{}'.format(7, 99999) }} {{ 'ab' * 2 }}"
    )
    assert environment().from_string(template).render() == "002.5 123456 of 20000    7/99999 abab"
