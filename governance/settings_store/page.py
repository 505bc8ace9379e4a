"""The settings as a page of the documentation: ``python -m governance.settings_store.page`` prints it.

Made from the registry alone, without Django, so that ``docs/check.py`` can compare it with ``docs/settings.md``.
"""

import sys
from typing import Any

from governance.settings_store.registry import REGISTRY, Setting, spell_typed

_HEAD = """# Settings

What operators change while Signalbox runs, on the page *Settings* of the admin or by `manage.py set_setting`. A value
is checked when it is stored, and every process acts on a change within a second. What must be known before the database
can be read is [configuration](configuration.md).

A stored value that cannot be read (an older or newer version may have stored it) never stops a call: the table says
what it means. `SIGNALBOX_SETTINGS` [pins settings](configuration.md#pinned-settings) for an installation; a pinned one
is shown as such and cannot be changed in the admin.

<!-- Made by `make format` from governance/settings_store/registry.py: change that file, not this one. -->
"""


def settings_page() -> str:
    """The whole page in Markdown, with a line end."""
    sections = [_section(setting) for setting in sorted(REGISTRY.values(), key=lambda setting: setting.key)]
    return "\n".join([_HEAD, *sections])


def _section(setting: Setting[Any]) -> str:
    choices = "".join(f"| `{spell_typed(value)}` | {label} |\n" for value, label in setting.choices)
    meanings = f"\n| value | meaning |\n|---|---|\n{choices}" if choices else ""
    return (
        f"## {setting.key}\n\n{setting.help}\n\n"
        "| accepts | default | what cannot be read means |\n|---|---|---|\n"
        f"| {_accepts(setting)} | `{spell_typed(setting.default)}` | `{spell_typed(setting.unreadable)}` |\n"
        f"{meanings}\nRead by {_readers(setting)}.\n"
    )


def _readers(setting: Setting[Any]) -> str:
    return ", ".join(f"`{reader}`" for reader in setting.readers) or "unknown code"


def _accepts(setting: Setting[Any]) -> str:
    if setting.bounds is None:
        return setting.kind.value
    least, greatest = setting.bounds
    return f"{setting.kind.value} of {setting.unit} from {least:,} to {greatest:,}"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
