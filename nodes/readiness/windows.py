"""How much text models take in, for telling calls that come near the limit.

Source: the model pages of the providers; input tokens of the standard offer, by the beginning of a
model's name. A model that is not listed has no known window: its calls are left out and counted.
"""

from collections.abc import Mapping
from typing import Final

WINDOWS: Final[Mapping[str, int]] = {
    "gpt-3.5-turbo": 16_385, "gpt-4": 8_192, "gpt-4-32k": 32_768, "gpt-4-turbo": 128_000,
    "gpt-4o": 128_000, "gpt-4.1": 1_047_576, "gpt-5": 272_000, "o1": 200_000, "o1-mini": 128_000,
    "o3": 200_000, "o4-mini": 200_000, "claude": 200_000, "gemini-1.5": 1_048_576,
    "gemini-2": 1_048_576, "gemini-3": 1_048_576, "llama-3-": 8_192, "llama-3.1": 131_072,
    "llama-3.2": 131_072, "llama-3.3": 131_072, "mixtral": 32_768, "mistral-large": 131_072,
    "deepseek": 131_072, "qwen2.5": 131_072, "qwen3": 131_072, "command-r": 128_000,
    "grok": 131_072,
}  # fmt: skip


def window_of(model: str | None) -> int | None:
    """Input tokens that the model takes; None where the model is not known."""
    name = (model or "").lower().rpartition("/")[2]
    name = name.rpartition(".")[2] if name.startswith(("anthropic.", "us.anthropic.")) else name
    known = [prefix for prefix in WINDOWS if name.startswith(prefix)]
    return WINDOWS[max(known, key=len)] if known else None
