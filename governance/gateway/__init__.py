"""The gateway: calls in, calls out, and what happens in between.

``handler`` answers /v1/ at ASGI level, ``views`` reads a request and writes the answer, ``stack`` is what a call walks
through, ``service`` is the process behind it: threads, connections and what is in force.
"""
