"""Who may call: keys are made in ``keys`` and recognised in ``directory``."""
