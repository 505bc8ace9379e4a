"""The Django application of `budgets`: its name, its label and what people read in the admin. No start-up
code: see the rule "no threads in AppConfig.ready()"."""

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    name = "budgets"
    label = "budgets"
    verbose_name = "Budgets"
