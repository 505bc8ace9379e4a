"""The settings of an installation, in the environment of the tests."""

from typing import TYPE_CHECKING

from tests import environment

environment.furnish()

# After the environment is there.
from governance.project.settings import installation  # noqa: E402

globals().update({name: getattr(installation, name) for name in dir(installation) if name.isupper()})

if TYPE_CHECKING:
    # The same, as the type checker understands it: it looks here for the type of every `settings.NAME`.
    from governance.project.settings.installation import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast, and nobody's password
