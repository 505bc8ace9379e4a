"""The protocol endpoints by path."""

from django.urls import path

from governance.gateway import views

urlpatterns = [
    path("v1/chat/completions", views.chat_completions),
    path("v1/messages", views.messages),
    path("v1/messages/count_tokens", views.count_tokens),
    path("v1/responses", views.responses),
    path("v1/completions", views.completions),
    path("v1/embeddings", views.embeddings),
    path("v1/models", views.models),
    path("v1/models/<path:name>", views.model),
]
