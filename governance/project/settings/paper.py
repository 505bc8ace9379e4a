"""The settings of `manage.py explain`: decisions on paper, from files, without environment, database or
network.

The apps are installed only so that Django finds the command and so that modules with models can be
imported; there is no database behind them, and a query fails loudly.
"""

USE_TZ = True
TIME_ZONE = "UTC"
DATABASES: dict[str, dict[str, object]] = {}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "routing",
]
