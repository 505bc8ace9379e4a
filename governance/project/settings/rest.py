"""What the REST framework and the maker of its description are told; what they do is decided in ``governance.api``."""

from typing import Any

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "governance.api.authentication.KeyAuthentication",
        "governance.api.authentication.PersonAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["governance.api.permissions.Permitted"],
    "DEFAULT_PARSER_CLASSES": ["governance.api.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "governance.api.schema.OperationSchema",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "governance.api.exceptions.answer_exception",
    "URL_FORMAT_OVERRIDE": None,  # the form of an answer is asked for in Accept, and there is one
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Signalbox",
    "DESCRIPTION": "Governance of LLM calls, for programs. How it is used is told in the documentation, docs/rest.md.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    # Closed sets stand where they are used: named apart, they would be called after whatever field came first.
    "POSTPROCESSING_HOOKS": [],
    "SORT_OPERATIONS": False,
    "PATH_CONVERTER_OVERRIDES": {
        "identifier": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,99}$"},
        "setting": {"type": "string", "pattern": "^[A-Za-z.]{1,100}$"},
        "number": {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
    },
    "APPEND_COMPONENTS": {
        "securitySchemes": {
            "virtualKey": {
                "type": "http",
                "scheme": "bearer",
                "description": "A virtual key. “x-api-key: sb-…” does as well.",
            },
            "session": {
                "type": "apiKey",
                "in": "cookie",
                "name": "sessionid",
                "description": "Somebody who is logged in. What changes something needs X-CSRFToken as well.",
            },
        }
    },
}
