"""The settings of an installation, in the environment of the tests."""

from tests import environment

environment.furnish()

# After the environment is there, and by name rather than by star, which would hide what is missing.
from governance.project.settings import installation  # noqa: E402

globals().update({name: getattr(installation, name) for name in dir(installation) if name.isupper()})

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast, and nobody's password
