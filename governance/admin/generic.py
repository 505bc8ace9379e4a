"""Django's classes under names that may be subclassed in typed code.

They are generic for the type checker only: at run time they cannot be subscripted.
"""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core import paginator
from django.db import models

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    StackedInline = admin.StackedInline[Any, Any]
    TabularInline = admin.TabularInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
    InlineFormSet = forms.BaseInlineFormSet[Any, Any, Any]
    Column = models.Field[Any, Any]
    Paginator = paginator.Paginator[Any]
else:
    ModelAdmin = admin.ModelAdmin
    StackedInline = admin.StackedInline
    TabularInline = admin.TabularInline
    ModelForm = forms.ModelForm
    InlineFormSet = forms.BaseInlineFormSet
    Column = models.Field
    Paginator = paginator.Paginator

__all__ = ["Column", "InlineFormSet", "ModelAdmin", "ModelForm", "Paginator", "StackedInline", "TabularInline"]
