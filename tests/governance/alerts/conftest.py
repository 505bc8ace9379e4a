"""Tables in which threads see each other's rows."""

from tests.governance.gateway.conftest import tables

__all__ = ["tables"]
