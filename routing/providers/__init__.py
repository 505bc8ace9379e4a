"""Calling providers: the one way out of this installation.

What lives here: the guarded HTTP client, the wire dialects, and one adapter per vendor. Nothing here knows Django,
rows or settings: endpoints, policies and time-outs are arguments. ``httpx`` and ``aiohttp`` are imported here and
nowhere else.
"""
