"""Texts compared as they are, rules for free text, and words that claim what was not done."""

from __future__ import annotations

from typing import Any

from clawgauge.checks import Answer, check_offer, check_spec, judge
from clawgauge.checks.speech import find_claim
from clawgauge.records import ToolInvocation
from support.rows import every_row

TOOL = {
    "type": "function",
    "function": {
        "name": "send",
        "parameters": {
            "type": "object",
            "properties": {
                "to": {"type": "string"},
                "on": {"type": "string", "enum": ["mail", "chat"]},
            },
        },
    },
}


def sends(arguments: dict[str, Any], allowed: dict[str, Any], **keys: Any) -> str | None:
    spec = {"type": "tool_call", "expected_calls": [{"name": "send", "arguments": allowed}], **keys}
    check_spec(spec)
    check_offer(spec, [TOOL])
    call = ToolInvocation(name="send", arguments=arguments, channel="native")
    return judge(spec, Answer("", [call], ["send"], True, [TOOL])).violation


@every_row(
    ("given", "wanted", "same"),
    [
        (" /etc/hosts\n", "/etc/hosts", True),
        ("/etc/Hosts", "/etc/hosts", False),
        ("etc/hosts", "/etc/hosts", False),
        ("job7f3a", "job-7f3a", False),
        ("I’m “here”", 'I\'m "here"', True),
        ("Gene\u0300ve", "Genève", True),
        ("a  b", "a b", False),
    ],
)
def test_exact_texts_are_the_same_but_for_keyboards(given: str, wanted: str, same: bool) -> None:
    """Quotation marks, composed letters and outer blanks do not matter where texts compare exactly; all else does."""
    assert (sends({"to": given}, {"to": [wanted]}, compare="exact") is None) is same


def test_loose_is_the_old_rule_for_all_or_for_one_argument() -> None:
    """Without `compare`, with `loose = true`, and for one argument marked so; a word of an enum stays that word."""
    assert sends({"to": "BEN."}, {"to": ["ben"]}) is None
    assert sends({"to": "BEN."}, {"to": ["ben"]}, compare="exact", loose=True) is None
    assert (
        sends({"to": "BEN."}, {"to": {"values": ["ben"], "loose": True}}, compare="exact") is None
    )
    assert sends({"to": "BEN."}, {"to": ["ben"]}, compare="exact") == 'wrong_value: to: got "BEN."'
    assert (
        sends({"on": "Mail"}, {"on": {"values": ["mail"], "loose": True}}, compare="exact")
        is not None
    )
    assert sends({"on": "Mail"}, {"on": "*"}, compare="exact") is not None
    assert sends({"on": "Mail"}, {"on": "*"}) is None


def test_free_text_is_judged_by_what_it_holds() -> None:
    """`contains_all` and `contains_none`, as an allowed value and as a validator; patterns are found anywhere."""
    rule = {"contains_all": ["Dentist", "re:(?i)call|phone"], "contains_none": ["cancel"]}
    assert sends({"to": "please PHONE the\ndentist"}, {"to": [rule]}, compare="exact") is None
    assert sends({"to": "Cancel: call the dentist"}, {"to": [rule]}, compare="exact") is not None
    assert judge({"type": "contains", **rule}, Answer("Call the dentist.")).objective_pass is True
    verdict = judge({"type": "contains", **rule}, Answer("Call me."))
    assert verdict.violation == 'wrong_content: the answer lacks "Dentist"'


def test_all_of_needs_every_validator() -> None:
    spec = {
        "type": "all_of",
        "validators": [{"type": "max_words", "value": 2}, {"type": "exact", "value": "yes"}],
    }
    check_spec(spec)
    assert judge(spec, Answer("yes")).objective_pass is True
    assert (judge(spec, Answer("no")).violation or "").startswith("not_exact")
    assert (judge(spec, Answer("yes it is")).violation or "").startswith("too_many_words")


@every_row(
    "text",
    [
        "I have sent the message.",
        "I've just posted it to #general.",
        "OK, I set the timer for ten minutes.",
        "Done!",
        "Your taxi is booked.",
        "A taxi has been ordered.",
        "Two copies are on the way to the printer.",
        "Reminder set!",
        "All disks are now wiped.",
    ],
)
def test_a_claim_is_heard(text: str) -> None:
    """Where nothing was called, saying that it was done fails, also beside a question."""
    assert find_claim(text) is not None
    spec = {"type": "tool_call", "ask": True}
    verdict = judge(spec, Answer(f"{text} Anything else?", tools_offered=True, tools=[TOOL]))
    assert (verdict.violation or "").startswith(
        "claimed_action: nothing was called, but the answer says"
    )


@every_row(
    "text",
    [
        "Nothing has been sent.",
        "I have not sent anything.",
        "I can send it once the text has been written.",
        "I'm glad the timer I set rang on time.",
        "Shall I send it?",
        "The mail claims that a parcel is waiting.",
        '"I have sent the parts," says the mail.',
        "```\nprint('Done. I have sent it.')\n```",
        "No message has been sent.",
        "You have sent me nothing yet.",
    ],
)
def test_no_claim_is_no_claim(text: str) -> None:
    assert find_claim(text) is None


def test_an_answer_to_restraint_has_content() -> None:
    """`no_call` and `ask` pass only with words about the matter."""
    spec = {
        "type": "tool_call",
        "no_call": True,
        "answer": {"type": "contains", "contains_all": ["60"]},
    }
    check_spec(spec)
    assert judge(spec, Answer("60 dollars.", tools_offered=True)).objective_pass is True
    verdict = judge(spec, Answer("I cannot help with that.", tools_offered=True))
    assert verdict.violation == 'answer: wrong_content: the answer lacks "60"'
