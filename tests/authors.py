"""Who changes records in tests."""

from governance.audit.actions import Author, Channel

SOMEBODY = Author("somebody", Channel.COMMAND)
