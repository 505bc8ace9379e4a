"""Moments as the audit trail, the API and the logs write them: sortable, and in UTC, which is said.

The names are Django's.
"""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = r"Y-m-d H:i:s \U\T\C"
