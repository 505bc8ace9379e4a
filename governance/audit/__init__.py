"""The audit trail: what may be recorded is in ``actions``, how it is written and verified in ``trail``."""
