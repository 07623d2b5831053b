"""Who calls, told by a bearer's text: a token of ours, or one of the identity provider's."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from configs.server_settings import OidcSettings
from contracts.people import Principal
from graph.server.oidc import Oidc
from memory.tokens import PREFIX, Tokens


class Callers:
    """Tells callers apart. One for each open installation."""

    def __init__(self, tokens: Tokens, oidc: OidcSettings | None) -> None:
        self._tokens = tokens
        self._oidc = None if oidc is None else Oidc(oidc)
        # A provider that hangs holds these threads, never those that everything else needs.
        self._threads = ThreadPoolExecutor(2, "oidc")

    async def principal(self, bearer: str) -> Principal | None:
        """The caller; None: the text is no valid bearer, and why is not said.

        Raises:
            ProviderDown: it is none of ours, and the identity provider cannot be asked.
        """
        if bearer.startswith(PREFIX):
            return await asyncio.to_thread(self._tokens.principal, bearer)
        if self._oidc is None or not bearer:
            return None
        running = asyncio.get_running_loop()
        return await running.run_in_executor(self._threads, self._oidc.principal, bearer)
