"""The Django application of `routing`: its name, its label and what people read in the admin. No start-up
code: see the rule "no threads in AppConfig.ready()"."""

from django.apps import AppConfig


class RoutingConfig(AppConfig):
    name = "routing"
    label = "routing"
    verbose_name = "Routing"
