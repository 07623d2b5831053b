"""What stands beside the texts of a whole harness, by their paths in it."""

from collections.abc import Sequence

from connectors.harness.several import Place, Places
from connectors.prompts.heads import Head, Heads, KeepsHeads


def keepers(places: Places) -> Sequence[Place]:
    """The places whose prompts are more than their text."""
    return tuple(place for place in places.places if isinstance(place.harness, KeepsHeads))


async def read_heads(places: Sequence[Place]) -> Heads:
    """What stands beside each prompt's text now.

    Raises:
        ConnectorError: a place cannot be read.
    """
    found: dict[str, Head] = {}
    for place in places:
        if isinstance(place.harness, KeepsHeads):
            for path, head in (await place.harness.heads()).items():
                found[f"{place.prefix}{path}"] = head
    return found
