"""Tests of the wiring: settings, health, headers, the ASGI application, and the project's own tools."""
