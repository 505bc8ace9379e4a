"""The Django application of `governance`: its name, its label and what people read in the admin. No
start-up code: see the rule "no threads in AppConfig.ready()"."""

from django.apps import AppConfig


class GovernanceConfig(AppConfig):
    name = "governance"
    label = "governance"
    verbose_name = "Governance"
