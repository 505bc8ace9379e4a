"""A real Chromium: the one of the machine, told not to ask anybody anything."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
_UNSAFE = "DJANGO_ALLOW_ASYNC_UNSAFE"


def find_chromium() -> Path | None:
    """Where it is; ``None`` if there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return None if found is None else Path(found)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser until the block ends. Without one the tests are skipped, except in CI, which installs one."""
    path = find_chromium()
    if path is None:
        message = f"no browser is installed: none of {', '.join(NAMES)} is on the path"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    # The browser's own event loop runs in this thread, which Django would take for asynchronous code.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_UNSAFE, "1")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            try:
                yield browser
            finally:
                browser.close()
