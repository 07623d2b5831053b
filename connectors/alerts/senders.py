"""The readers, by source."""

from collections.abc import Callable, Mapping

from connectors.alerts import alertmanager, generic, langfuse, langsmith
from connectors.alerts.reading import Arrival
from contracts.alerts import Alert, HookSource
from contracts.json_types import JsonObject

READERS: Mapping[HookSource, Callable[[JsonObject, Arrival], Alert]] = {
    "langfuse": langfuse.read,
    "langsmith": langsmith.read,
    "alertmanager": alertmanager.read,
    "generic": generic.read,
}
