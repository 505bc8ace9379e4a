"""The REST interface below /api/v1/: for programs what the admin is for people, and calls that need not be waited for.

Every address is a class of a view, and every view says who may do what (``permissions``), what it reads from the query
and what it takes and gives (``serializers``); the description at /api/v1/openapi.json is made of that and of nothing
else. What is written goes through ``governance.changes``, as everywhere.
"""
