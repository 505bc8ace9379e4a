"""Pages as a browser sees them: what a form would send, and what a table shows."""

from html.parser import HTMLParser
from typing import Any, Protocol


class Page(Protocol):
    """An answer of the test client."""

    content: bytes


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, list[str]] = {}
        self._select: str | None = None
        self._area: str | None = None
        self._first_option: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        name = found.get("name")
        if tag == "input" and name and found.get("type") not in {"submit", "button", "search"}:
            if found.get("type") in {"checkbox", "radio"} and "checked" not in found:
                return
            default = "on" if found.get("type") == "checkbox" else ""
            self.values.setdefault(name, []).append(found.get("value") or default)
        elif tag == "select" and name:
            self._select = name
        elif tag == "option" and self._select and "selected" in found:
            self.values.setdefault(self._select, []).append(found.get("value") or "")
        elif tag == "textarea" and name:
            self._area = name
            self.values[name] = [""]

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None

    def handle_data(self, data: str) -> None:
        if self._area:
            self.values[self._area][0] += data.removeprefix("\n")


def text_of(response: Page) -> str:
    """The page's source."""
    return response.content.decode()


def sent_by(response: Page, **changes: Any) -> dict[str, list[str]]:
    """What the form on a page would send, with changes: a value, a list of values, or ``None`` for an empty box."""
    forms = _Forms()
    forms.feed(text_of(response))
    values = {
        name: value
        for name, value in forms.values.items()
        if "__prefix__" not in name and name not in {"csrfmiddlewaretoken", "q", "action"}
    }
    for name, value in changes.items():
        if value is None:
            values.pop(name, None)
        else:
            values[name] = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    return values


class _Cells(HTMLParser):
    """The texts of table cells that have a class."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._wanted = wanted
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"td", "th"}:
            self._inside = self._wanted in (dict(attrs).get("class") or "").split()
            if self._inside:
                self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


def column(response: Page, name: str) -> list[str]:
    """What a list shows in one of its columns, row by row."""
    cells = _Cells(f"field-{name}")
    cells.feed(text_of(response))
    return [" ".join(text.split()) for text in cells.texts]


def words_of(response: Page) -> str:
    """The page's source with every run of blanks and line ends as one blank."""
    return " ".join(text_of(response).split())


def complaints(response: Any) -> dict[str, list[str]]:
    """The errors of a form that came back, by field; those of inlines by prefixed field."""
    found: dict[str, list[str]] = {
        name: list(errors) for name, errors in response.context["adminform"].form.errors.items()
    }
    for inline in response.context["inline_admin_formsets"]:
        if inline.formset.non_form_errors():
            found[inline.formset.prefix] = list(inline.formset.non_form_errors())
        for form in inline.formset.forms:
            found |= {f"{form.prefix}-{name}": list(errors) for name, errors in form.errors.items()}
    return found
