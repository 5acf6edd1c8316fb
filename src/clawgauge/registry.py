"""Every built-in provider type and every vendor, in one table.

Whatever has to know something of a kind of provider reads it here: how it is made, whose key it
takes, where it runs, how it is billed, and what OpenClaw and LiteLLM call it. To add a provider,
write its class and its entry here; nothing else has a list of them. A plug-in has no entry: what is
not known of it has the defaults of `UNKNOWN`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

EMBEDDED_MODEL = "smollm2-135m"
"""The model that comes with clawgauge, as the type `embedded` calls it."""

OLLAMA_PORT = 11434
DEFAULT_CHAT_SERVER = "llamacpp"
"""The local server that `openai_chat` means where it has no address of its own."""
# Where chat servers on the user's machine listen unless they are told otherwise. This is the only
# list of such addresses: `config/local_servers.py` says who looks at them, and how a user names
# others.
CHAT_SERVER_ADDRESSES = {
    DEFAULT_CHAT_SERVER: "http://localhost:8080/v1",
    "lmstudio": "http://localhost:1234/v1",
    "vllm": "http://localhost:8000/v1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A company that sells calls to its models."""

    name: str
    """As in prices.toml, and as OpenClaw calls its own provider for it."""
    title: str
    host: str
    key_variable: str
    address_variable: str
    other_key_variables: tuple[str, ...] = ()
    """Further variables in which people keep its key; the first that is set counts."""
    lists_models_by_key: bool = False
    """Whether its list of models is known to be given to a valid key alone.

    Who got the list then knows that calls take the key.
    """

    def find_key_variable(self, environ: Mapping[str, str]) -> str:
        """The variable that holds the key; the usual one where none is set."""
        for variable in (self.key_variable, *self.other_key_variables):
            if environ.get(variable, "").strip():
                return variable
        return self.key_variable

    @property
    def domain(self) -> str:
        """The part of the host that all its services share."""
        return ".".join(self.host.split(".")[-2:])

    def is_address(self, address: str) -> bool:
        """Whether an address is plainly the vendor's own, and so may be given the vendor's key."""
        # The whole text is matched, so that no two readers can see two hosts in it.
        pattern = rf"https://{re.escape(self.host)}(?::443)?(?:/[\w./-]*)?"
        return re.fullmatch(pattern, address, re.IGNORECASE | re.ASCII) is not None


OPENAI = Vendor(
    name="openai",
    title="OpenAI",
    host="api.openai.com",
    key_variable="OPENAI_API_KEY",
    address_variable="OPENAI_BASE_URL",
    lists_models_by_key=True,
)
ANTHROPIC = Vendor(
    name="anthropic",
    title="Anthropic",
    host="api.anthropic.com",
    key_variable="ANTHROPIC_API_KEY",
    address_variable="ANTHROPIC_BASE_URL",
)
GOOGLE = Vendor(
    name="google",
    title="Google",
    host="generativelanguage.googleapis.com",
    key_variable="GEMINI_API_KEY",
    address_variable="GOOGLE_GEMINI_BASE_URL",
    other_key_variables=("GOOGLE_API_KEY",),
    lists_models_by_key=True,
)
VENDORS = (OPENAI, ANTHROPIC, GOOGLE)


class Location(enum.Enum):
    """Where the models of a provider type run."""

    LOCAL = "local"
    """On the user's machine, unless its address says otherwise."""
    BY_ADDRESS = "by address"
    REMOTE = "remote"
    """Elsewhere, whatever address it is given."""


class Wire(enum.Enum):
    """A wire format: what an agent program may speak with a model's server."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    OLLAMA = "ollama"
    GEMINI = "gemini"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderType:
    """What the program knows of a kind of provider without loading it."""

    name: str
    factory: str = ""
    """Module and class, as `package.module:Class`."""
    vendor: Vendor | None = None
    """Whose service it is, or whose protocol it speaks."""
    uses_vendor_variables: bool = False
    """Whether the vendor's variables say where it is and which key it takes."""
    is_any_server: bool = False
    """Whether it is made for servers of anybody: the vendor's key is then for an address from
    the environment alone."""
    default_address: str = ""
    location: Location = Location.BY_ADDRESS
    reports_cost: bool = False
    """Whether it says itself what a call cost, once it is made."""
    is_ollama: bool = False
    program: str | None = None
    """The program of the user's that it runs."""
    is_agent: bool = False
    """Whether it asks the models of other providers inside an agent program."""
    wires: tuple[Wire, ...] = ()
    """The wire formats that its servers speak; of an agent, those that the program speaks.

    Where both have several, the agent's first counts."""
    is_own_server: bool = False
    """Whether this program starts its server itself, for as long as a run takes.

    It can be asked any model file, what it is sent stays on this machine, and nothing can call it
    after the run.
    """
    own_settings: frozenset[str] = frozenset()
    """The keys of its table that no other type takes."""
    former_context: int | None = None
    """How many tokens fitted every model's window in runs that did not record it."""
    takes_thinking: bool = True
    """Whether a thinking level does anything."""
    counts_cached_input: bool = True
    """Whether the input tokens it reports have in them what came from its cache."""
    finds_models: bool = True
    """Whether its list is searched for a model that is named without a provider."""
    suggested_model: str | None = None
    """The model that `init` proposes where the provider costs money."""
    openclaw_api: str | None = None
    """What OpenClaw calls its protocol."""
    openclaw_vendor: bool = False
    """Whether OpenClaw has a provider of its own for the vendor's address."""
    openclaw_runtime: str | None = None
    """What OpenClaw calls the runtime, where it does not reach the models over a protocol."""
    litellm_prefix: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether its models run on the user's machine unless its address says otherwise."""
        return self.location is Location.LOCAL

    @property
    def is_billed_by_address(self) -> bool:
        """Whether a vendor's price list holds where the address is the vendor's."""
        return self.vendor is not None and self.uses_vendor_variables


ANTHROPIC_MESSAGES = ProviderType(
    name="anthropic_messages",
    wires=(Wire.MESSAGES,),
    factory="clawgauge.providers.claude.messages:MessagesServer",
    vendor=ANTHROPIC,
    uses_vendor_variables=True,
    default_address=f"https://{ANTHROPIC.host}",
    suggested_model="claude-haiku-4-5",
    openclaw_api="anthropic-messages",
    openclaw_vendor=True,
    litellm_prefix="anthropic/",
)
CLAUDE_CODE_CLI = ProviderType(
    name="claude_code_cli",
    factory="clawgauge.providers.claude.provider:ClaudeCodeCli",
    vendor=ANTHROPIC,
    location=Location.REMOTE,
    reports_cost=True,
    finds_models=False,  # it lists none
    suggested_model="claude-haiku-4-5",
    program="claude",
    openclaw_runtime="claude-cli",
)
EMBEDDED = ProviderType(
    name="embedded",
    wires=(Wire.CHAT, Wire.RESPONSES),
    factory="clawgauge.providers.embedded.provider:Embedded",
    location=Location.LOCAL,
    is_own_server=True,
    own_settings=frozenset({"chat_template_file"}),
    former_context=4096,
    takes_thinking=False,
)
GEMINI = ProviderType(
    name="gemini",
    wires=(Wire.GEMINI,),
    factory="clawgauge.providers.gemini.provider:GeminiServer",
    vendor=GOOGLE,
    uses_vendor_variables=True,
    default_address=f"https://{GOOGLE.host}/v1beta",
    suggested_model="gemini-2.5-flash",
    openclaw_api="google-generative-ai",
    openclaw_vendor=True,
    litellm_prefix="gemini/",
)
OLLAMA = ProviderType(
    name="ollama",
    wires=(Wire.OLLAMA,),
    factory="clawgauge.providers.ollama:OllamaNative",
    default_address=f"http://localhost:{OLLAMA_PORT}",
    location=Location.LOCAL,
    is_ollama=True,
    finds_models=False,  # those of `ollama_openai` again
    openclaw_api="ollama",
    litellm_prefix="ollama_chat/",
    own_settings=frozenset({"keep_alive"}),
    # `prompt_eval_count` is what was read anew: 0 for a prompt that is all in the cache.
    counts_cached_input=False,
)
OLLAMA_OPENAI = ProviderType(
    name="ollama_openai",
    wires=(Wire.CHAT,),
    factory="clawgauge.providers.ollama:Ollama",
    default_address=f"http://localhost:{OLLAMA_PORT}/v1",
    location=Location.LOCAL,
    is_ollama=True,
    openclaw_api="openai-completions",
    # LiteLLM's word for any server that speaks OpenAI's protocol at `api_base`.
    litellm_prefix="openai/",
    counts_cached_input=False,
)
OPENAI_CHAT = ProviderType(
    name="openai_chat",
    wires=(Wire.CHAT,),
    factory="clawgauge.providers.openai.chat:ChatServer",
    vendor=OPENAI,
    uses_vendor_variables=True,
    is_any_server=True,
    default_address=CHAT_SERVER_ADDRESSES[DEFAULT_CHAT_SERVER],
    openclaw_api="openai-completions",
    litellm_prefix="openai/",
)
OPENAI_RESPONSES = ProviderType(
    name="openai_responses",
    wires=(Wire.RESPONSES,),
    factory="clawgauge.providers.openai.responses:ResponsesServer",
    vendor=OPENAI,
    uses_vendor_variables=True,
    default_address=f"https://{OPENAI.host}/v1",
    suggested_model="gpt-5-mini",
    openclaw_api="openai-responses",
    openclaw_vendor=True,
    litellm_prefix="openai/responses/",
)
CODEX = ProviderType(
    name="codex",
    factory="clawgauge.providers.agents.codex:Codex",
    location=Location.REMOTE,
    finds_models=False,
    program="codex",
    is_agent=True,
    wires=(Wire.RESPONSES,),
)
GOOSE = ProviderType(
    name="goose",
    factory="clawgauge.providers.agents.goose:Goose",
    location=Location.REMOTE,
    finds_models=False,
    takes_thinking=False,
    program="goose",
    is_agent=True,
    wires=(Wire.CHAT,),
)
OPENCLAW = ProviderType(
    name="openclaw",
    factory="clawgauge.providers.agents.openclaw:OpenClaw",
    location=Location.REMOTE,
    finds_models=False,
    program="openclaw",
    is_agent=True,
    wires=(Wire.OLLAMA, Wire.CHAT, Wire.RESPONSES, Wire.MESSAGES),
)
_TYPES = (
    ANTHROPIC_MESSAGES,
    CLAUDE_CODE_CLI,
    CODEX,
    EMBEDDED,
    GEMINI,
    GOOSE,
    OLLAMA,
    OLLAMA_OPENAI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    OPENCLAW,
)
PROVIDER_TYPES = {provider_type.name: provider_type for provider_type in _TYPES}
UNKNOWN = ProviderType(name="unknown")
"""What is known of a plug-in."""


def find_type(name: str) -> ProviderType:
    """The entry of a provider type; `UNKNOWN` for one that is not built in."""
    return PROVIDER_TYPES.get(name, UNKNOWN)


def find_vendor(host: str) -> Vendor | None:
    """The vendor whose API is at this host."""
    for vendor in VENDORS:
        if vendor.host == host:
            return vendor
    return None
