"""Static files, answered at ASGI level from the folders they lie in.

Starlette's `StaticFiles` does the work: entity tags, ranges, HEAD, and no way out of the folder. The
folders are those of Django's finders, so a checkout works without `collectstatic`, and there is no
collected copy to be forgotten after an upgrade. Names are not hashed; browsers keep the files and ask
whether they changed, which costs a 304. `docs/decisions/0003-static-files-at-asgi-level.md` has the
alternatives.
"""

from pathlib import Path

from django.contrib.staticfiles.finders import AppDirectoriesFinder, FileSystemFinder
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import Response
from starlette.staticfiles import PathLike, StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/static"  # where `STATIC_URL` of the settings points

HEADERS = {
    "cache-control": "public, no-cache",  # keep it, but ask every time
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}


def static_folders() -> tuple[Path, ...]:
    """The project's own folder first, then those of the installed apps: the order of Django's finders."""
    own = [storage.location for storage in FileSystemFinder().storages.values()]
    of_apps = [storage.location for storage in AppDirectoriesFinder().storages.values()]
    return tuple(Path(location) for location in (*own, *of_apps))


class StaticFolders(StaticFiles):
    """`StaticFiles` over several folders, with our headers on what it finds."""

    def __init__(self, *, folders: tuple[Path, ...]) -> None:
        super().__init__()
        self.all_directories: list[PathLike] = list(folders)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


def static_application() -> ASGIApp:
    """An ASGI application for the paths below `PREFIX`; needs Django's apps to be loaded."""
    # StaticFiles raises its 404 and 405; this turns them into answers, as a Starlette application would.
    files = ExceptionMiddleware(StaticFolders(folders=static_folders()))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await files({**scope, "root_path": scope.get("root_path", "") + PREFIX}, receive, send)

    return serve
