"""The decision, as plain Python.

Nothing in this package knows Django, a database, a clock or a network: time, settings and figures are
arguments. The live call, the explain endpoint, the admin's pages and ``manage.py explain`` all call the
functions of this package, so that they cannot disagree.
"""
