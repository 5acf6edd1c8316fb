"""What to do about a failure, in one sentence.

Owns: the table from failure type, and kind of provider, to advice. Refuses: guessing; a failure it does not know gets
no hint. The sentences hold no markup, so every report can print them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEY_VARIABLES = {"openai_responses": "OPENAI_API_KEY", "claude_code_cli": "ANTHROPIC_API_KEY"}
_ADDRESSES = {"ollama_openai": "http://localhost:11434/v1"}

_HINTS = {
    "api_key_missing": "Set {key_variable} in the environment.",
    "http_401": "The key was refused: check {key_variable}.",
    "http_403": "The key may not use this model: check {key_variable} and the account's access to {model}.",
    "http_404": "Nothing answers at this address: check the base URL of {provider}{at_address}.",
    "http_429": "Wait and refill, lower --concurrency, or raise --max-retries and --max-wait.",
    "usage_limit": "The subscription's limit is reached: refill when it resets.",
    "context_length_exceeded": "The prompt is longer than the model's context: load it with a larger context.",
    "model_not_found": "{provider} has no model {model}: check its name.",
    "connection_refused": "{provider} is not reachable{at_address}: start the server or correct its address.",
    "dns_error": "The host name of {provider} is unknown{at_address}: check its address and the network.",
    "connect_timeout": "{provider} did not take the connection{at_address}: check its address, proxy and firewall.",
    "tls_error": "The server's certificate was refused{at_address}: check the address or add its authority.",
    "redirect_refused": "The server sends elsewhere{at_address}: give the final address as base URL.",
    "cli_missing": "The command for {provider} is not on PATH: install it.",
    "cli_not_executable": "The command for {provider} cannot be executed: check its permissions.",
    "runtime_missing": "The extra for {provider} is not installed: pip install 'clawgauge[embedded]'.",
    "cli_auth": "Log in to the command for {provider} first.",
    "cli_error": "The command failed: its words say why; try it by hand.",
    "timeout": "No answer within the deadline: raise --timeout, or use a smaller model or less --concurrency.",
    "client_limit": "This machine, not the server, ran short: its words say of what; then refill.",
    "stream_interrupted": "The stream ended early: see the server's log, then refill.",
    "connection_reset": "The server dropped the connection: see its log, then refill.",
    "stream_error": "The server failed while answering: its words say why.",
    "invalid_response": "This is not the expected protocol: check the base URL of {provider}{at_address}.",
    "response_too_large": "The reply went past the size cap: lower --max-tokens.",
    "empty_response": "The model answered with nothing: a thinking model may need a higher --max-tokens.",
    "refusal": "The model declined: nothing is wrong with the set-up.",
    "invalid_prompt": "The prompt cannot be sent: check it with clawgauge suites check.",
    "client_stalled": "This machine slept or stood still during the call: keep it awake, or lower --concurrency.",
    "budget_spent": "The money was spent in the middle of a task: refill with a larger --max-cost.",
    "exception": "This is a fault of clawgauge: please report it with the words beside.",
}

_HINTS_BY_PROVIDER = {
    ("ollama_openai", "connection_refused"): "Ollama is not reachable{at_address}: is it running? Start: ollama serve",
    ("ollama_openai", "model_not_found"): "The model is not there; get it: ollama pull {model}",
    ("ollama_openai", "context_length_exceeded"): "The prompt is longer than the context: raise OLLAMA_CONTEXT_LENGTH.",
    ("claude_code_cli", "cli_missing"): "The claude command is not on PATH: npm install -g @anthropic-ai/claude-code",
    ("claude_code_cli", "cli_auth"): "Run claude and log in with /login, or set ANTHROPIC_API_KEY.",
    ("openai_responses", "http_429"): "Wait and refill, lower --concurrency, or check the account's quota.",
}

_HINTS_BY_CLASS = {
    "http_4": "The server refused the request: its words say why.",
    "http_5": "The server failed: see its log, then refill.",
}


def find_hint(failure_type: str, *, provider: str, model: str, settings: Mapping[str, Any] | None = None) -> str | None:
    """What to do about `failure_type`; `settings` is the provider's entry in config.json."""
    settings = settings or {}
    kind = str(settings.get("type") or provider)
    template = _HINTS_BY_PROVIDER.get((kind, failure_type)) or _HINTS.get(failure_type)
    if template is None:
        template = next((words for start, words in _HINTS_BY_CLASS.items() if failure_type.startswith(start)), None)
    if template is None:
        return None
    address = settings.get("base_url") or _ADDRESSES.get(kind)
    return template.format(
        provider=provider,
        model=model,
        at_address=f" at {address}" if address else "",
        key_variable=settings.get("api_key_env") or _KEY_VARIABLES.get(kind) or f"the API key of {provider}",
    )
