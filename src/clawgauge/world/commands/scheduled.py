"""The command on the jobs of cron: crontab."""

from clawgauge.world.commands.call import Call, NotSimulated, command
from clawgauge.world.effects import FileFault, Refusal


@command("crontab")
def crontab(call: Call) -> int:
    options = call.options
    owner = call.machine.user
    if options.has("u") and call.machine.ledger.user not in ("root", options.value("u")):
        raise Refusal("must be privileged to use -u")
    if options.has("e"):
        raise NotSimulated("there is no editor here; use 'crontab FILE' or 'crontab -'")
    user = options.value("u", owner)
    file = options.operands[0] if options.operands else None
    needs_jobs = options.has("l", "r") or file is None
    if needs_jobs and (not call.machine.schedule.jobs or user != owner):
        return call.say(f"no crontab for {user[:40]}\n")
    if user != owner:
        raise NotSimulated(f"a crontab of {user[:40]} is not supported here")
    try:
        _list_or_install(call, file)
    except FileFault as fault:
        return call.complain(f"{file}: {fault}")
    except Refusal as refusal:
        return call.say(f"{refusal}\n")
    return 0


def _list_or_install(call: Call, file: str | None) -> None:
    schedule = call.machine.schedule
    if call.options.has("r"):
        schedule.install("")
    elif call.options.has("l") or file is None:
        lines = [f"{job.schedule} {job.command}\n" for job in schedule.jobs]
        call.print("".join(lines))
    elif file == "-":
        schedule.install(call.stdin)
    else:
        schedule.install(call.files.read(call.resolve(file)))
