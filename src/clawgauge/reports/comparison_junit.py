"""A comparison as JUnit XML, which CI systems show as tests.

Owns: one test per rule and pair, and one per flipped prompt: lost is a failure, gained is a pass. Refuses: characters
that XML 1.0 cannot hold, whatever a model wrote.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from clawgauge.compare import Comparison, Flip, PairComparison, RuleFinding
from clawgauge.reports.comparison_phrases import closing_notes, say_pace, say_rule, say_verdict, title_pair
from clawgauge.reports.sanitize import clean_terminal

_REFUSED_BY_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_CHARS = 10_000


def render_comparison_junit(comparison: Comparison) -> str:
    """One test suite per pair of targets, and one per target that rules could not be judged on for want of a pair."""
    lone = (_lone_suite(target, comparison) for target in comparison.only_in_a)
    suites = [_suite(pair, comparison) for pair in comparison.pairs] + [suite for suite in lone if suite is not None]
    root = ET.Element("testsuites", name=_text(f"clawgauge compare {comparison.a.run_id} {comparison.b.run_id}"))
    root.extend(suites)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(pair: PairComparison, comparison: Comparison) -> ET.Element:
    name = _text(title_pair(pair))
    rules = [r for r in comparison.rules if (r.target_a, r.target_b) == (pair.target_a, pair.target_b)]
    cases = [_rule_case(rule, name) for rule in rules] + [_flip_case(flip, name) for flip in pair.flips]
    started = datetime.fromtimestamp(comparison.b.started_at_ms / 1000, UTC)
    suite = ET.Element(
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        timestamp=started.isoformat(timespec="seconds"),
    )
    suite.extend(cases)
    said = [say_verdict(pair), say_pace(pair), *closing_notes(comparison)]
    ET.SubElement(suite, "system-out").text = _text("\n".join(line for line in said if line))
    return suite


def _lone_suite(target: str, comparison: Comparison) -> ET.Element | None:
    rules = [rule for rule in comparison.rules if rule.target_a == rule.target_b == target]
    if not rules:
        return None
    name = _text(target)
    suite = ET.Element("testsuite", name=name, tests=str(len(rules)), failures="0", errors=str(len(rules)))
    suite.extend(_rule_case(rule, name) for rule in rules)
    return suite


def _rule_case(finding: RuleFinding, classname: str) -> ET.Element:
    case = ET.Element("testcase", classname=classname, name=_text(finding.rule))
    said = _text(say_rule(finding))
    if finding.outcome == "broken":
        ET.SubElement(case, "failure", message=said, type="gate").text = said
    elif finding.outcome == "not_judged":
        ET.SubElement(case, "error", message=said, type="gate").text = said
    else:
        ET.SubElement(case, "system-out").text = said
    return case


def _flip_case(flip: Flip, classname: str) -> ET.Element:
    label = f"{flip.suite}/{flip.prompt_id}" if flip.suite else flip.prompt_id
    case = ET.Element("testcase", classname=classname, name=_text(f"{label} {flip.prompt_name}"))
    counts = f"passed {flip.passes_a}/{flip.trials_a} in A and {flip.passes_b}/{flip.trials_b} in B"
    answers = [f"{letter}: {said}" for letter, said in (("A", flip.answer_a), ("B", flip.answer_b)) if said is not None]
    body = _text("\n\n".join([counts, *([flip.violation] if flip.violation else []), *answers]))
    if flip.direction == "lost":
        ET.SubElement(case, "failure", message=_text(flip.violation or counts), type="flipped").text = body
    else:
        ET.SubElement(case, "system-out").text = body
    return case


def _text(text: str) -> str:
    """Text that any XML parser takes and no terminal minds."""
    return _REFUSED_BY_XML.sub("\ufffd", clean_terminal(text))[:_MAX_CHARS]
