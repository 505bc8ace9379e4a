"""The theme's classes under names that may be subclassed in typed code, and its widgets under names of ours.

They are generic for the type checker only: at run time they cannot be subscripted. This and ``governance.site`` are
where the theme is chosen; everything else in the admin speaks of what is here.
"""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core import paginator
from django.db import models
from unfold import admin as theme
from unfold import widgets
from unfold.forms import AdminPasswordChangeForm, PaginationInlineFormSet, UserChangeForm, UserCreationForm

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    StackedInline = admin.StackedInline[Any, Any]
    TabularInline = admin.TabularInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
    InlineFormSet = forms.BaseInlineFormSet[Any, Any, Any]
    Column = models.Field[Any, Any]
    Paginator = paginator.Paginator[Any]
    TextWidget = forms.TextInput
    AreaWidget = forms.Textarea
    PasswordWidget = forms.PasswordInput
    NumberWidget = forms.NumberInput
    SelectWidget = forms.Select
    SwitchWidget = forms.CheckboxInput
    CheckboxesWidget = forms.CheckboxSelectMultiple
    RadioWidget = forms.RadioSelect
    MomentWidget = forms.SplitDateTimeWidget
else:
    ModelAdmin = theme.ModelAdmin
    StackedInline = theme.StackedInline
    TabularInline = theme.TabularInline
    ModelForm = forms.ModelForm
    InlineFormSet = PaginationInlineFormSet
    Column = models.Field
    Paginator = paginator.Paginator
    TextWidget = widgets.UnfoldAdminTextInputWidget
    AreaWidget = widgets.UnfoldAdminTextareaWidget
    PasswordWidget = widgets.UnfoldAdminPasswordWidget
    NumberWidget = widgets.UnfoldAdminIntegerFieldWidget
    SelectWidget = widgets.UnfoldAdminSelectWidget
    SwitchWidget = widgets.UnfoldBooleanSwitchWidget
    CheckboxesWidget = widgets.UnfoldAdminCheckboxSelectMultipleWidget
    RadioWidget = widgets.UnfoldAdminRadioSelectWidget
    MomentWidget = widgets.UnfoldAdminSplitDateTimeWidget

__all__ = [
    "AdminPasswordChangeForm",
    "AreaWidget",
    "CheckboxesWidget",
    "Column",
    "InlineFormSet",
    "ModelAdmin",
    "ModelForm",
    "MomentWidget",
    "NumberWidget",
    "Paginator",
    "PasswordWidget",
    "RadioWidget",
    "SelectWidget",
    "StackedInline",
    "SwitchWidget",
    "TabularInline",
    "TextWidget",
    "UserChangeForm",
    "UserCreationForm",
]
