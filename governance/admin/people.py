"""People and groups: Django's own, in the theme's forms."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from governance.admin.fields import without_menu
from governance.admin.generic import (
    AdminPasswordChangeForm,
    CheckboxesWidget,
    ModelAdmin,
    UserChangeForm,
    UserCreationForm,
)

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(UserAdmin, ModelAdmin):  # type: ignore[type-arg]  # cannot be subscripted at run time
    """People."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    filter_horizontal = ()  # Django's boxes with filters cannot be read aloud

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return without_menu(super().formfield_for_dbfield(db_field, request, **kwargs))

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Groups, of which there are few, as boxes to tick."""
        if db_field.name == "groups":
            kwargs["widget"] = CheckboxesWidget
        return super().formfield_for_manytomany(db_field, request, **kwargs)


@admin.register(Group)
class PeopleGroupAdmin(GroupAdmin, ModelAdmin):
    """Groups."""

    filter_horizontal = ()
