"""Calls that are handed in now and executed later by a worker: each a row whose state says how far it is.

* ``intake``: hands calls in, one or a batch of them, and withdraws what is still queued
* ``readouts``: what became of a call; how far a batch is
* ``claims``: who holds a call: taken up, kept, sent, ended, each by compare-and-set
* ``execution``: what a worker does with one
* ``sweeping``: what is done about calls whose message or whose worker was lost, and about what has grown old

The row decides, never a message: messages may be lost, or come twice. Nobody here knows Celery; ``governance.tasks``
carries the ids about.
"""
