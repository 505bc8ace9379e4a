"""Empty tables after tests whose threads see each other's rows."""

from django.apps import apps
from django.db import connection, transaction

APPS = ("routing", "telemetry", "budgets", "governance")


def empty_tables() -> None:
    """Delete every row of ours. Truncating, which is what Django does after such a test, costs PostgreSQL a second
    however few the rows are."""
    with transaction.atomic(), connection.cursor() as cursor:
        for app in APPS:
            for model in apps.get_app_config(app).get_models():
                cursor.execute(f'DELETE FROM "{model._meta.db_table}"')  # noqa: S608  # names of our own
