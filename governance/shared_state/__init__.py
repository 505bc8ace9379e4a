"""The store that the processes of this installation share: Redis where there is one, else a table of the database.

:func:`shared_state` is the one way to it. What it keeps may be lost at any time; see ``routing.core.sharing``.
"""

from django.conf import settings

from governance.shared_state.memory import MemoryStore
from governance.shared_state.server import server_store
from governance.shared_state.standby import StandbyStore
from governance.shared_state.table import TableStore


def shared_state() -> StandbyStore:
    """A store of this process: shared while the server or the database answers, else its own memory."""
    url = settings.REDIS_URL
    return StandbyStore(TableStore() if url is None else server_store(url), memory=MemoryStore())
