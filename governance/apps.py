"""The Django application of `governance`: its name, its label and what people read in the admin.

All that happens at the start is that the roles' groups are tied to the moment after migrating. No thread, no query: see
the rule "no threads in AppConfig.ready()".
"""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from governance.access.roles import provide_roles


class GovernanceConfig(AppConfig):
    name = "governance"
    label = "governance"
    verbose_name = "Governance"

    def ready(self) -> None:
        """Listen to this app's own signal: it is the last of ours, so every permission is there by then."""
        post_migrate.connect(provide_roles, sender=self, dispatch_uid="governance.access.roles")
