"""Cells of lists: two lines where two columns would be too wide, figures that do not break, names that do."""

import re

from django.utils.html import format_html, format_html_join


def two_lines(first: str, second: str) -> str:
    """What a cell says, and beneath it what goes with that, if anything does."""
    if not second:
        return first
    return format_html(
        '<span class="sb-cell"><span>{}</span><span class="sb-quiet sb-small">{}</span></span>', first, second
    )


def figure(text: str) -> str:
    """A figure with its unit, on one line."""
    return format_html('<span class="sb-figure-cell">{}</span>', text)


def breakable(name: str) -> str:
    """A dotted name that may break after a dot or before a capital, and nowhere else."""
    return format_html_join("", "{}<wbr>", ((part,) for part in re.split(r"(?<=\.)|(?=[A-Z])", name)))
