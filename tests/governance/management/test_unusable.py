"""``manage.py unusable``: which routes nothing can select."""

import pytest
from django.core.management import call_command

from tests.factories import ConfigurationFactory, LanguageModelFactory, ProviderFactory

pytestmark = pytest.mark.django_db


def test_routes_that_nothing_can_select_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    fast = LanguageModelFactory(provider=ProviderFactory(identifier="prod-east"), identifier="fast")
    configuration = ConfigurationFactory(identifier="support-chat", fixed=True, fixed_model=fast)
    call_command("unusable")
    assert capsys.readouterr().out == "Every route in service can be selected.\n"
    configuration.is_active = False
    configuration.save()
    call_command("unusable")
    assert capsys.readouterr().out == "prod-east/fast: no configuration in service can choose it\n"
