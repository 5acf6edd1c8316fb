"""awk: a program run over the lines of files or of standard input.

Owns: its options and the order of BEGIN, lines and END. Refuses: programs in files.
"""

from __future__ import annotations

import contextlib

from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.awk_language import Exit, Next, Rule, parse_program
from clawgauge.world.shell.commands.awk_values import Record, is_true
from clawgauge.world.shell.commands.formatting import unescape
from clawgauge.world.shell.options import parse_options


def awk(call: Call) -> int:
    options = parse_options(call.args, "", "Fvf", mixed=False)
    if "f" in options.values:
        raise UsageFault("programs in files (-f) are not supported here", 2)
    if not options.operands:
        raise UsageFault("usage: awk [-F fs][-v var=value]['prog'] [file ...]", 2)
    program, *operands = options.operands
    rules = parse_program(program)
    record = Record(call.machine.fuel, call.print, separator=unescape(options.value("F", " ")))
    for assignment in options.values.get("v", []):
        name, _, value = assignment.partition("=")
        record.variables[name] = unescape(value)
    code = 0
    # `exit` ends the lines, and END is still run.
    with contextlib.suppress(Exit):
        _run(rules, "BEGIN", record)
        if any(rule.moment != "BEGIN" for rule in rules):
            texts, code = call.read_operands(operands, 'cannot open "{}": ')
            code *= 2
            for line in (line for _, text in texts for line in text.splitlines()):
                record.read(line)
                _run(rules, "line", record)
    with contextlib.suppress(Exit):
        _run(rules, "END", record)
    return code


def _run(rules: list[Rule], moment: str, record: Record) -> None:
    try:
        for rule in rules:
            if rule.moment == moment and (rule.pattern is None or is_true(rule.pattern.get(record))):
                rule.action(record)
    except Next:
        return
