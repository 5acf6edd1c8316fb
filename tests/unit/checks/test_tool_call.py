"""The `tool_call` validator: which calls are the expected ones, and what is said of those that are not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clawgauge.checks import Answer, Verdict, check_offer, check_spec, judge
from clawgauge.checks.tool_call import pair_up
from clawgauge.records import ToolInvocation
from support.rows import every_row

PROPERTIES: dict[str, Any] = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    "limit": {"type": "number"},
    "hourly": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "place": {
        "type": "object",
        "properties": {"lat": {"type": "number"}, "names": {"type": "array"}},
    },
    "level": {"type": ["integer", "null"]},
    "when": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    "free": {},
}


def tool(name: str, properties: dict[str, Any] | None = None) -> dict[str, Any]:
    parameters = {"type": "object", "properties": PROPERTIES if properties is None else properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("get_weather"), tool("exec", {"command": {"type": "string"}})]


def native(name: str, arguments: Any = None, *, valid: bool = True) -> ToolInvocation:
    return ToolInvocation(
        name=name, arguments={} if arguments is None else arguments, channel="native", valid=valid
    )


def judged(spec: dict[str, Any], calls: list[ToolInvocation], text: str = "") -> Verdict:
    whole = {"type": "tool_call", **spec}
    check_spec(whole)
    check_offer(whole, TOOLS)
    return judge(whole, Answer(text, calls, tools_offered=True, tools=TOOLS))


def weather(**arguments: Any) -> dict[str, Any]:
    return {"name": "get_weather", "arguments": arguments}


def violation(
    expected: dict[str, Any] | list[dict[str, Any]], *calls: ToolInvocation, **more: Any
) -> str | None:
    listed = expected if isinstance(expected, list) else [expected]
    verdict = judged({"expected_calls": listed, **more}, list(calls))
    assert (verdict.violation is None) == verdict.objective_pass
    return verdict.violation


@every_row(
    ("allowed", "value"),
    [
        ({"city": ["St. Gallen"]}, " st gallen"),
        ({"city": ["Winston-Salem"]}, "WINSTON SALEM"),
        ({"city": ["straße"]}, "STRASSE"),
        ({"city": ["Paris", "Paris, France"]}, "Paris France"),
        ({"city": ["/"]}, "/"),
        ({"city": ["re:(?i)par[iy]s"]}, " PARYS "),
        ({"city": "*"}, "anything"),
        ({"city": ["*"]}, "anything"),
        ({"unit": "*"}, "Celsius"),
        ({"days": [3]}, 3),
        ({"limit": [3]}, 3),
        ({"limit": [3]}, 3.0),
        ({"limit": [2.5]}, 2.5),
        ({"hourly": [False]}, False),
        ({"tags": [["a", "b"], ["b", "a"]]}, ["B", "a"]),
        ({"tags": [[]]}, []),
        (
            {"place": [{"lat": 1, "names": ["re:x+", {"a": None}]}]},
            {"names": ["xxx", {"a": None}], "lat": 1.0},
        ),
        ({"level": [None]}, None),
        ({"when": ["now", 5]}, 5),
        ({"free": [{"any": [1]}]}, {"any": [1]}),
    ],
)
def test_a_value_that_is_allowed_passes(allowed: dict[str, Any], value: Any) -> None:
    """Texts differ in case and marks at most, numbers are compared by value, lists and objects member by member."""
    (name,) = allowed
    assert violation(weather(**allowed), native("get_weather", {name: value})) is None


@every_row(
    ("allowed", "value", "said"),
    [
        ({"city": ["Paris"]}, "Lyon", 'wrong_value: city: got "Lyon"'),
        ({"city": ["re:Par"]}, "Paris", 'wrong_value: city: got "Paris"'),
        ({"city": ["/"]}, "-", 'wrong_value: city: got "-"'),
        ({"city": ["/"]}, "", 'wrong_value: city: got ""'),
        ({"city": ["3"]}, 3, "wrong_type: city"),
        ({"city": "*"}, 3, "wrong_type: city"),
        ({"city": "*"}, None, "wrong_type: city"),
        ({"unit": "*"}, "kelvin", 'wrong_value: unit: got "kelvin"'),
        ({"days": [3]}, "3", "wrong_type: days"),
        ({"days": [3]}, 3.0, "wrong_type: days"),
        ({"days": [1]}, True, "wrong_type: days"),
        ({"days": [3]}, 4, "wrong_value: days: got 4"),
        ({"limit": [1]}, True, "wrong_type: limit"),
        ({"limit": [2.5]}, 2, "wrong_value: limit: got 2"),
        ({"level": [1]}, "1", "wrong_type: level"),
        ({"level": [1]}, None, "wrong_value: level: got null"),
        ({"level": [1]}, 2, "wrong_value: level: got 2"),
        ({"hourly": [True]}, 1, "wrong_type: hourly"),
        ({"hourly": [True]}, "true", "wrong_type: hourly"),
        ({"hourly": [True]}, False, "wrong_value: hourly: got false"),
        ({"tags": [["a", "b"]]}, ["b", "a"], "wrong_value: tags: got a list"),
        ({"tags": [["a"]]}, ["a", "b"], "wrong_value: tags: got a list"),
        ({"tags": [["a"]]}, ["a", 1], "wrong_type: tags[1]"),
        ({"tags": [["a"]]}, "a", "wrong_type: tags"),
        ({"place": [{"lat": 1}]}, {"lat": "1"}, "wrong_type: place.lat"),
        ({"place": [{"lat": 1}]}, {"lat": 1, "lon": 2}, "wrong_value: place: got an object"),
        ({"when": ["now", 5]}, 5.5, "wrong_type: when"),
        ({"free": [1]}, True, "wrong_value: free: got true"),
        ({"free": ["3"]}, 3, "wrong_value: free: got 3"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(
    allowed: dict[str, Any], value: Any, said: str
) -> None:
    """A wrong type is told from a wrong value, and the argument is named down to the part that is wrong."""
    (name,) = allowed
    assert violation(weather(**allowed), native("get_weather", {name: value})) == said


def test_arguments_missing_optional_and_unasked_for() -> None:
    """Each expected argument must be there, an optional one may be, and no other may."""
    expected = {
        "name": "get_weather",
        "arguments": {"city": ["Paris"], "days": [3]},
        "optional": {"unit": ["celsius"]},
    }
    paris = {"city": "Paris", "days": 3}
    assert violation(expected, native("get_weather", paris)) is None
    assert violation(expected, native("Get_Weather", paris | {"unit": "celsius"})) is None
    assert violation(expected, native("get_weather", {"days": 3})) == "missing_argument: city"
    assert violation(expected, native("get_weather")) == "missing_argument: city, days"
    assert violation(expected, native("get_weather", paris | {"unit": "fahrenheit"})) == (
        'wrong_value: unit: got "fahrenheit"'
    )
    assert (
        violation(expected, native("get_weather", paris | {"foo": 1})) == "unexpected_argument: foo"
    )
    assert (
        violation(expected, native("get_weather", {"city": "Lyon", "foo": 1}))
        == "missing_argument: days"
    )


def test_wrong_tools_and_wrong_numbers_of_calls() -> None:
    """Calls are counted before they are compared, and a tool nobody asked for is named."""
    expected = weather(city=["Paris"])
    paris, command = (
        native("get_weather", {"city": "Paris"}),
        native("exec", {"command": "curl wttr.in"}),
    )
    assert violation(expected) == "wrong_call_count: 0 native calls, 1 expected"
    assert violation(expected, command) == "unexpected_call: exec"
    assert violation(expected, paris, command) == "wrong_call_count: 2 native calls, 1 expected"
    assert violation([expected, expected], paris) == "wrong_call_count: 1 native call, 2 expected"
    assert violation([expected, expected], paris, command) == "unexpected_call: exec"
    assert violation([expected, expected], paris, paris) is None


def test_a_malformed_call_is_told_first() -> None:
    """Arguments that do not parse are the fault that is reported, whatever else was called."""
    broken = native("get_weather", '{"city": "Par', valid=False)
    right = native("get_weather", {"city": "Paris"})
    assert (
        violation(weather(city=["Paris"]), broken)
        == "malformed_call: get_weather: the arguments are not a JSON object"
    )
    assert (violation(weather(city=["Paris"]), right, broken) or "").startswith("malformed_call: ")


def test_calls_written_as_text_are_no_calls_made() -> None:
    """On a prompt that offers tools, a call in the text counts for nothing, however right it is."""
    written = ToolInvocation(name="get_weather", arguments={"city": "Paris"}, channel="text:hermes")
    assert (
        violation(weather(city=["Paris"]), written)
        == "wrong_call_count: 0 native calls, 1 expected"
    )
    assert (
        violation(weather(city=["Paris"]), native("get_weather", {"city": "Paris"}), written)
        is None
    )


def test_any_order_finds_a_pairing_if_there_is_one() -> None:
    """A call that fits two expectations leaves the one to the call that fits no other."""
    both, only_rome = weather(city="*"), weather(city=["Rome"])
    rome, oslo = native("get_weather", {"city": "Rome"}), native("get_weather", {"city": "Oslo"})
    for expected in ([both, only_rome], [only_rome, both]):
        assert violation(expected, rome, oslo) is None
        assert violation(expected, oslo, rome) is None
    assert violation([both, only_rome], oslo, oslo) == 'wrong_value: city: got "Oslo"'


def test_strict_order_is_strict() -> None:
    """The right calls in another order are told apart from wrong calls."""
    expected = [weather(city=["Paris"]), weather(city=["Rome"])]
    paris, rome = native("get_weather", {"city": "Paris"}), native("get_weather", {"city": "Rome"})
    oslo = native("get_weather", {"city": "Oslo"})
    assert violation(expected, paris, rome, order="strict") is None
    assert (
        violation(expected, rome, paris, order="strict")
        == "wrong_order: got get_weather, get_weather"
    )
    assert violation(expected, rome, paris, order="any") is None
    assert violation(expected, paris, oslo, order="strict") == 'wrong_value: city: got "Oslo"'


@given(st.lists(st.lists(st.integers(0, 5), unique=True), max_size=6))
def test_the_pairing_is_as_large_as_can_be(fitting: list[list[int]]) -> None:
    """No pairing that brute force can find pairs more, and no partner is taken twice."""

    def most(row: int, taken: frozenset[int]) -> int:
        if row == len(fitting):
            return 0
        options = [
            1 + most(row + 1, taken | {partner}) for partner in fitting[row] if partner not in taken
        ]
        return max([most(row + 1, taken), *options])

    partners = pair_up(fitting)
    paired = [partner for partner in partners if partner is not None]
    assert len(paired) == len(set(paired)) == most(0, frozenset())
    assert all(partner is None or partner in fitting[row] for row, partner in enumerate(partners))


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
RULES = {
    "city": ["Paris", "re:.*x"],
    "days": [3],
    "tags": [["a", "re:b+"]],
    "place": [{"lat": 1.5, "names": []}],
    "when": "*",
    "free": [None, {"a": [1]}],
}


@given(st.dictionaries(st.sampled_from([*RULES, "other"]), ANY_JSON), st.booleans())
def test_no_arguments_break_the_judgement(arguments: dict[str, Any], valid: bool) -> None:
    """Whatever a model puts into a call, there is a verdict, on one line, that can be written down."""
    said = violation(weather(**RULES), native("get_weather", arguments, valid=valid))
    assert said is None or ("\n" not in said and len(said) < 300)


def test_the_tools_called_are_kept() -> None:
    """`parsed_output` lists the native calls by name, once each."""
    calls = [
        native("exec", {"command": "a"}),
        native("get_weather"),
        native("exec", {"command": "b"}),
    ]
    assert judged({"expected_calls": [weather(city="*")]}, calls).parsed_output == {
        "tools": ["exec", "get_weather"]
    }
    assert judged({"no_call": True}, [], "Hello").parsed_output == {"tools": []}


MENTION = ToolInvocation(name="exec", channel="mention")
WRITTEN = ToolInvocation(name="exec", arguments={}, channel="text:marker")
BROKEN = ToolInvocation(name="exec", arguments="{", channel="text:hermes", valid=False)


@every_row("spec", [{"no_call": True}, {"ask": True}], ids=["no_call", "ask"])
@every_row(
    ("calls", "text", "said"),
    [
        ([], "Which one?", None),
        ([MENTION], "Shall I use `exec`?", None),
        ([native("exec")], "Which one?", "unexpected_call: exec"),
        ([native("exec", "{", valid=False)], "Which one?", "unexpected_call: exec"),
        ([native("", "{", valid=False)], "Which one?", "unexpected_call: a call without a name"),
        ([WRITTEN], "<tool>exec</tool> Which one?", "call_as_text: exec"),
        ([BROKEN], "<tool_call>{</tool_call> Which one?", "call_as_text: exec"),
        ([WRITTEN, native("read")], "<tool>exec</tool> Which one?", "unexpected_call: read"),
        ([], "", "no_text: no call was made, and nothing was said"),
        ([], "<think>Which one?</think> \n", "no_text: no call was made, and nothing was said"),
    ],
)
def test_restraint(
    spec: dict[str, Any], calls: list[ToolInvocation], text: str, said: str | None
) -> None:
    """Where no call is wanted, words pass and any call fails: native, malformed, or written in a model's own format."""
    assert judged(spec, calls, text).violation == said


@every_row(
    ("text", "asks"),
    [
        ("Which city?", True),
        ("Which city? I can look it up then.", True),
        ('He asked "where?" and so do I.', True),
        ("哪个城市？请告诉我", True),
        ("أي مدينة؟", True),
        ("Tell me the city, please.", False),
        ("<think>Which city?</think>It is sunny.", False),
        ("Which city?I need it.", True),
        ("Which city?_Please_ say.", True),
        ("Shall I open https://example.org/a?b=1 or www.example.org?", True),
        ("Shall I open https://example.org?", True),
        ("要打开https://example.org/a吗？", True),
        ("See https://example.org/?city=Paris&days=3 for the forecast.", False),
        ("See https://x/?", False),
        ("See <https://example.org/?>, (www.example.org/search?q) and ?page=2.", False),
        ("https://example.org/?which?one=a?b", False),
    ],
)
def test_asking_takes_a_question(text: str, asks: bool) -> None:
    """A question mark in the answer asks; one in thinking or inside an address does not."""
    verdict = judged({"ask": True}, [], text)
    assert verdict.objective_pass is asks
    assert (verdict.violation or "no_question").startswith("no_question")
