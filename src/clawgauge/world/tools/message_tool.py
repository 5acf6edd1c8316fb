"""The tools `message` and `ask_user`: reading what came in, writing to people, asking the one who gave the job."""

from __future__ import annotations

from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine


def message(machine: Machine, arguments: Arguments) -> ToolAnswer:
    if arguments.action("send", "read") == "send":
        sent = machine.mailbox.send(arguments.text("to"), arguments.text("text"))
        return ToolAnswer(f"Sent to {sent.who}.")
    lines = [
        f"[{machine.clock.moment(received.at_s):%Y-%m-%d %H:%M}] {received.who}: {received.text}"
        for received in machine.mailbox.incoming(arguments.text("from", ""))
    ]
    return ToolAnswer("\n".join(lines) or "No messages.")


def ask_user(machine: Machine, arguments: Arguments) -> ToolAnswer:
    return ToolAnswer(f"The user answered: {machine.mailbox.ask(arguments.text('question')).text}")
