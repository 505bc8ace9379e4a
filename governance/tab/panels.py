"""A panel of the Governance tab: what it is called, who may look at it, what it shows.

A panel's address answers with a whole page, and with the panel alone where htmx asks for it: the same view, the same
template, the same words. Every panel works without JavaScript.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from governance.tab.addresses import name_of


@dataclass(frozen=True, slots=True)
class Content:
    """What a panel shows. Its template reads ``panel``; ``status`` is what a screen reader is told of a change."""

    panel: Any
    status: str


@dataclass(frozen=True, slots=True)
class Download:
    """A file that belongs to a panel: the end of its address, and what answers there."""

    slug: str
    answer: Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        slug: the end of its address.
        title: what its tab says.
        template: what renders it, given ``panel``.
        permissions: what it takes to look, all of it: ``app.view_model``.
        answer: gives its content for a request; a response of its own (a redirect after a POST) goes out as it is.
        methods: what it answers to. A panel that changes something checks who may by itself.
        downloads: files that belong to it.
    """

    slug: str
    title: str
    template: str
    permissions: Sequence[str]
    answer: Callable[[HttpRequest], Content | HttpResponse]
    methods: Sequence[str] = ("GET", "HEAD")
    downloads: Sequence[Download] = field(default=())

    @property
    def name(self) -> str:
        """The name of its address within the admin's."""
        return name_of(self.slug)

    @property
    def url(self) -> str:
        """Its address."""
        return reverse(f"admin:{self.name}")

    def is_open_to(self, user: User | AnonymousUser) -> bool:
        """Whether somebody may look at it: has each permission to view, or the one to change the same."""
        return all(
            user.has_perm(each) or user.has_perm(each.replace(".view_", ".change_")) for each in self.permissions
        )
