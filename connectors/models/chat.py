"""Open any LangChain chat model by the name that the settings give it."""

from langchain_core.language_models import BaseChatModel

from contracts.errors import ConfigError


def open_model(name: str) -> BaseChatModel:
    """The chat model called `provider:name`, such as `openai:gpt-5-mini`.

    Source: langchain.chat_models.init_chat_model, langchain 1.5. Keys come from the environment
    variables that each provider's package documents; nothing is sent before the first call.

    Raises:
        ConfigError: the name has no provider, the provider is unknown, its package is not
            installed, or its key is missing.
    """
    provider, _, model = name.partition(":")
    if not provider or not model:
        raise ConfigError(f"model {name!r}: needs `provider:name`, such as openai:gpt-5-mini")
    # Slow to import, and only needed where somebody configured a model.
    from langchain.chat_models import init_chat_model  # noqa: PLC0415

    try:
        opened = init_chat_model(model, model_provider=provider)
    except ImportError as error:
        package = f"langchain-{provider.replace('_', '-')}"
        raise ConfigError(
            f"model {name!r}: its package is not installed; try `pip install {package}` ({error})"
        ) from None
    except Exception as error:  # noqa: BLE001  # providers raise errors of their own
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"model {name!r}: cannot be opened: {first[:200]}") from None
    if not isinstance(opened, BaseChatModel):
        raise ConfigError(f"model {name!r}: is no chat model")
    return opened
