"""The page of settings in the documentation is made from the registry, and says all of it."""

from pathlib import Path

from governance.settings_store.page import settings_page
from governance.settings_store.registry import REGISTRY

PAGE = Path(__file__).resolve().parents[3] / "docs/settings.md"


def test_the_page_in_the_tree_is_the_registrys() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page()


def test_every_setting_has_a_section_with_all_of_its_values() -> None:
    sections = settings_page().split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == sorted(REGISTRY)
    for section in sections:
        setting = REGISTRY[section.partition("\n")[0]]
        assert setting.help in section
        for value, label in setting.choices:
            assert f"| `{str(value).lower() if isinstance(value, bool) else value}` | {label} |" in section
        for bound in setting.bounds or ():
            assert f"{bound:,}" in section
