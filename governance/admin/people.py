"""People and groups: Django's own, in the theme's forms."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User

from governance.admin.generic import AdminPasswordChangeForm, ModelAdmin, UserChangeForm, UserCreationForm

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(UserAdmin, ModelAdmin):  # type: ignore[type-arg]  # cannot be subscripted at run time
    """People."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class PeopleGroupAdmin(GroupAdmin, ModelAdmin):
    """Groups."""
