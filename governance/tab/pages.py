"""The tab's pages: which panels there are, their addresses, and the one view that answers with a page or a panel."""

from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods
from django_htmx.middleware import HtmxDetails

from governance.tab import budgets, operations, policy, routed, routes, signals, why
from governance.tab.addresses import ROOT, name_of
from governance.tab.panels import Content, Download, Panel

PANELS: tuple[Panel, ...] = (
    policy.PANEL,
    why.PANEL,
    signals.PANEL,
    operations.PANEL,
    routes.PANEL,
    budgets.PANEL,
    routed.PANEL,
)
"""The panels, in the order of their tabs."""

TITLE = "Governance"

View = Callable[[HttpRequest], HttpResponse]


class HtmxRequest(HttpRequest):
    """A request that htmx's middleware has looked at."""

    htmx: HtmxDetails


def tab_urls(site: AdminSite) -> list[URLPattern]:
    """The addresses below the admin's."""
    urls = [path(f"{ROOT}/", site.admin_view(_enter), name="governance_tab")]
    for panel in PANELS:
        urls.append(path(f"{ROOT}/{panel.slug}/", site.admin_view(_view(site, panel)), name=panel.name))
        for download in panel.downloads:
            view = site.admin_view(_guarded(panel, download))
            below = f"{panel.slug}/{download.slug}"
            urls.append(path(f"{ROOT}/{below}", view, name=name_of(below)))
    return urls


def may_enter(request: HttpRequest) -> bool:
    """Whether there is a panel that somebody may look at; named by the navigation."""
    return any(panel.is_open_to(request.user) for panel in PANELS)


def _enter(request: HttpRequest) -> HttpResponse:
    """The tab's own address: the first panel that somebody may look at."""
    panel = next((panel for panel in PANELS if panel.is_open_to(request.user)), None)
    if panel is None:
        raise PermissionDenied
    return redirect(panel.url)


def _view(site: AdminSite, panel: Panel) -> View:
    @require_http_methods(list(panel.methods))
    def view(request: HtmxRequest) -> HttpResponse:
        if not panel.is_open_to(request.user):
            raise PermissionDenied
        content = panel.answer(request)
        return _shown(site, panel, request, content) if isinstance(content, Content) else content

    return view  # type: ignore[return-value]  # its requests have been through the middleware


def _guarded(panel: Panel, download: Download) -> View:
    @require_http_methods(["GET", "HEAD"])
    def view(request: HttpRequest) -> HttpResponse:
        if not panel.is_open_to(request.user):
            raise PermissionDenied
        return download.answer(request)

    return view


def _shown(site: AdminSite, panel: Panel, request: HtmxRequest, content: Content) -> HttpResponse:
    is_part = bool(request.htmx) and not request.htmx.history_restore_request
    context: dict[str, Any] = {
        "title": panel.title,
        "site_title": site.site_title,
        "tabs": [each for each in PANELS if each.is_open_to(request.user)],
        "current": panel,
        "panel": content.panel,
        "status": content.status,
    }
    if not is_part:
        context = {**site.each_context(request), **context, "subtitle": TITLE}
    answer = TemplateResponse(request, "governance/_tab.html" if is_part else "governance/tab.html", context)
    patch_vary_headers(answer, ("HX-Request", "HX-History-Restore-Request"))
    return answer
