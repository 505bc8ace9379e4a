"""The four apps touch each other by identifiers and function calls, never by foreign keys; and only the
settings read the environment."""

import ast
from pathlib import Path

import pytest
from django.apps import apps

ROOT = Path(__file__).resolve().parents[2]
APPS = ("routing", "telemetry", "budgets", "governance")

# Where the process's environment may be touched: the settings, what prepares it for them, and the demo,
# which starts processes with an environment of their own.
READERS_OF_THE_ENVIRONMENT = (
    "governance/project/settings/",
    "governance/project/asgi.py",
    "governance/project/celery.py",
    "governance/demo/",
    "governance/management/commands/demo.py",
)


def python_files(*, app: str) -> list[Path]:
    return [file for file in sorted((ROOT / app).rglob("*.py")) if "migrations" not in file.parts]


@pytest.mark.parametrize("label", APPS)
def test_an_app_is_installed_under_its_own_name(label: str) -> None:
    config = apps.get_app_config(label)
    assert config.name == label
    assert type(config).__module__ == f"{label}.apps"
    assert str(config.verbose_name) == label.capitalize()


@pytest.mark.parametrize("label", APPS)
def test_no_relation_crosses_from_one_app_to_another(label: str) -> None:
    crossing = [
        f"{model.__name__}.{field.name} -> {field.related_model.__name__}"
        for model in apps.get_app_config(label).get_models(include_auto_created=True)
        for field in model._meta.get_fields()
        if isinstance(field.related_model, type)
        and field.related_model._meta.app_label in APPS
        and field.related_model._meta.app_label != label
    ]
    assert crossing == []


@pytest.mark.parametrize("label", [label for label in APPS if label != "governance"])
def test_an_engine_has_no_surface(label: str) -> None:
    surfaces = {"admin", "views", "urls", "serializers", "tasks", "forms"}
    found = [str(file.relative_to(ROOT)) for file in python_files(app=label) if file.stem in surfaces]
    assert found == []


@pytest.mark.parametrize("label", ["telemetry", "budgets"])
def test_an_engine_beside_routing_sees_its_core_only(label: str) -> None:
    """Import-linter does the same for the modules of routing that its contract names; here they need no name."""
    foreign = []
    for file in python_files(app=label):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            foreign += [
                f"{file.relative_to(ROOT)}: {name}"
                for name in names
                if name.partition(".")[0] == "routing" and not f"{name}.".startswith("routing.core.")
            ]
    assert foreign == []


@pytest.mark.parametrize("label", APPS)
def test_importing_an_app_runs_nothing(label: str) -> None:
    assert (ROOT / label / "__init__.py").read_text(encoding="utf-8").strip() == ""


@pytest.mark.parametrize("label", APPS)
def test_only_the_settings_read_the_environment(label: str) -> None:
    offenders = []
    for file in python_files(app=label):
        path = file.relative_to(ROOT).as_posix()
        if path.startswith(READERS_OF_THE_ENVIRONMENT):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"}:
                offenders.append(f"{path}:{node.lineno}")
    assert offenders == []
