"""The least of records that lead from a key to the simulator, for tests whose processes are real."""

from routing.core.vocabulary import Reach
from tests.factories import (
    ApplicationFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.keys import issue_key
from tests.servers.simulator import SimulatorServer


def furnish(simulator: SimulatorServer) -> str:
    """Two routes, ``prod-east/fast`` and ``prod-west/wise``, for ``support-chat``; gives a key's secret."""
    models = []
    for provider, model in (("prod-east", "fast"), ("prod-west", "wise")):
        row = ProviderFactory(
            identifier=provider,
            adapter_type="custom",
            base_url=simulator.base_url(provider),
            reach=Reach.SELF_HOSTED.value,
        )
        models.append(LanguageModelFactory(identifier=model, provider=row, capabilities=[]))
        PriceFactory(model=models[-1])
    ConfigurationFactory(listed=True, models=models)
    _, secret = issue_key(application=ApplicationFactory(), name="Ticket robot")
    return secret
