"""An honest simulator of OpenAI-compatible providers, a plain ASGI application for demo and tests.

It answers over real HTTP and never passes for a model: every answer has the header
``x-signalbox-simulator: 1``, every completion the fingerprint ``signalbox-simulator``, and the text itself
says that it is simulated. What it does not do: judge, remember, or call anything.

**Provider endpoints.** ``/v1/...`` is the provider ``default``; ``/<provider>/v1/...`` any other:
``POST chat/completions``, ``POST completions``, ``POST embeddings``, ``GET models``, ``GET models/{id}``.
Errors have OpenAI's envelope. A tool call is answered when tools are offered and ``tool_choice`` forces one,
or when the last message is the user's and has the word "tool" in it.

**Behaviours.** A mapping from a pattern ``provider/model`` (``*`` stands for any characters; the model part
may itself contain ``/``) to a behaviour, every part of which may be left out::

    {"atlas/*": {
        "latency":  {"mean_ms": 800, "spread_ms": 200,            # whole answers, and streams to their end
                     "first_chunk_ms": 150,                       # null: a quarter of the total
                     "first_chunk_spread_ms": 40},                # spreads are standard deviations
        "tokens":   {"prompt": null,                              # null: UTF-8 bytes of the text / 4
                     "completion": 32, "completion_spread": 0,    # reasoning tokens included
                     "cached": 0, "reasoning": 0},
        "failures": [{"kind": "429",
                      "rate": 0.05,          # share of requests; left out: all, or none beside fail_next
                      "fail_next": 2,        # exactly the next two requests, whatever the rate
                      "retry_after": 3,      # number or any text, header of 429, insufficient_quota and 503
                      "retry_after_ms": null,
                      "after_ms": 0,         # wait before the failure
                      "after_chunks": 1,     # truncated, error_frame: frames sent before it
                      "abrupt": false,       # truncated: the connection breaks; else the body ends tidily
                      "on": "calls"}],       # or "models" (the GET endpoints), or "all"
        "down": false,                       # a bare 503 for everything, before the key is looked at
        "offered": true,                     # false: 404 model_not_found
        "chunk_tokens": 4,                   # words in one content frame
        "dimensions": 256}}                  # of an embedding, unless the request says

All matching patterns apply, the more specific over the less: a literal provider counts more than a literal
model, then the longer pattern wins. ``latency`` and ``tokens`` merge field by field; a list of failures
replaces another. Literal model names that are offered are what ``GET models`` lists; a provider without any
lists two stand-ins. Models that are not listed are served too, unless a pattern says ``"offered": false``.

**Failure kinds**: ``429``, ``insufficient_quota``, ``500``, ``503``, ``401``, ``404``,
``context_length_exceeded`` (400), ``timeout`` (no answer until the caller hangs up), ``reset`` (the
connection is reset without an answer), ``garbage`` (200, not JSON), ``truncated`` (a stream without its end,
half a whole body), ``error_frame`` (an error inside a stream, or in a whole answer of status 200),
``no_usage``, ``empty`` (200 without a byte of body). All but ``truncated``, ``error_frame`` and ``no_usage``
come at once, or after ``after_ms``; those three come in an answer that takes the route's latency. A request
that is refused as invalid uses up no ``fail_next``.

**Control endpoints** (they want the key too, if one is set):

- ``GET /_simulator/behaviours``: what holds now, ``fail_next`` counted down
- ``PUT /_simulator/behaviours``: a mapping as above; each pattern named is replaced, others stay
- ``DELETE /_simulator/behaviours``: back to what was given at the start; random sequences start anew
- ``GET``, ``DELETE /_simulator/stats``: requests by provider, model and outcome, and how many callers hung up
- ``GET /_simulator/requests``: the last 100 requests: digest, headers without credentials, and bodies in
  base64 if started with ``record_bodies=True``

**Determinism.** Texts, vectors, tool arguments and JSON instances depend on the request alone. Draws
(latency, token counts, failures) come from one seeded sequence per provider and model, so that the traffic of
one does not disturb the other's. The defaults are instant and draw nothing.
"""

from governance.demo.simulator.application import Simulator, build_application
from governance.demo.simulator.behaviours import Behaviour, FailureKind
from governance.demo.simulator.book import load_behaviours
from governance.demo.simulator.shapes import BehaviourError

__all__ = [
    "Behaviour",
    "BehaviourError",
    "FailureKind",
    "Simulator",
    "build_application",
    "load_behaviours",
]
