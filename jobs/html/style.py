"""The style of all pages: colours of light and dark, type, tables, cards, pictures that are blurred."""

from pathlib import Path

STYLE = Path(__file__).with_name("page.css")
