"""The Django application of `telemetry`: its name, its label and what people read in the admin. No start-up
code: see the rule "no threads in AppConfig.ready()"."""

from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "telemetry"
    label = "telemetry"
    verbose_name = "Telemetry"
