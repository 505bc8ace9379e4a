"""The wiring of the project: settings, URLs, the ASGI application, and what answers before any app does."""
