"""Settings that operators change while Signalbox runs: declared in ``registry``, read and stored in ``store``."""
