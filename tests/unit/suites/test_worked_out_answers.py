"""Answers that are worked out from a prompt's own text are right in every drawing: no drawn answer is astray.

Each solver reads the prompt as a careful person would, and knows nothing of its validator.
"""

from __future__ import annotations

import calendar
import functools
import ipaddress
import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from clawgauge.checks import judge_answer
from clawgauge.records import Prompt
from clawgauge.suites import load_suite

Answer = str | dict[str, Any]
Solver = Callable[[str], Answer]
SOLVERS: dict[str, Solver] = {}
# The first prompt of each suite that has a solver; all behind it have one, too.
FIRST_SOLVED = {"core": 36, "native_tools": 68}
NUMBER_WORDS = {"three": 3, "four": 4, "five": 5, "six": 6}


def solves(name: str) -> Callable[[Solver], Solver]:
    def register(solver: Solver) -> Solver:
        SOLVERS[name] = solver
        return solver

    return register


@functools.cache
def prompts_by_id(suite: str, drawing: int) -> dict[str, Prompt]:
    return {prompt.id: prompt for prompt in load_suite(suite, drawing=drawing).prompts}


def solved_ids(suite: str) -> list[str]:
    ids = []
    for prompt_id in prompts_by_id(suite, 0):
        number = int(prompt_id.removeprefix("P").partition("#")[0])
        if number >= FIRST_SOLVED[suite]:
            ids.append(prompt_id)
    return ids


@pytest.mark.parametrize("drawing", range(4))
@pytest.mark.parametrize("suite", FIRST_SOLVED)
def test_the_answer_that_the_text_gives_passes_in_every_drawing(suite: str, drawing: int) -> None:
    for prompt_id in solved_ids(suite):
        prompt = prompts_by_id(suite, drawing)[prompt_id]
        answer = SOLVERS[prompt.name](prompt.prompt)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        judgement = judge_answer(prompt, text, [])
        assert judgement.objective_pass is True, (prompt.name, text, judgement.violation)


@pytest.mark.parametrize("suite", FIRST_SOLVED)
def test_the_answer_to_one_drawing_is_wrong_in_another(suite: str) -> None:
    """Of nearly all prompts: a word or a small count may be the answer twice."""
    n_same = 0
    for prompt_id in solved_ids(suite):
        answers = set()
        for drawing in range(4):
            prompt = prompts_by_id(suite, drawing)[prompt_id]
            answers.add(json.dumps(SOLVERS[prompt.name](prompt.prompt)))
        n_same += 4 - len(answers)
    assert n_same <= 1


def read(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern that stands in the text once."""
    matches = list(re.finditer(pattern, text))
    assert len(matches) == 1, (pattern, text)
    return matches[0].groups()


def read_ints(pattern: str, text: str) -> list[int]:
    return [int(group) for group in read(pattern, text)]


def minutes_of(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def clock_of(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def cents_of(amount: str) -> int:
    """Of an amount with two decimals."""
    return int(re.sub(r"\D", "", amount))


# --- core: JSON ------------------------------------------------------------------------------------------------------


@solves("contact_from_a_footer")
def _contact(text: str) -> Answer:
    name, phone, mail = read(
        r'"([\w ]+), Purchasing\..*Since July: ([^.]+)\..*goes to (\S+);', text
    )
    return {"name": name, "phone": re.sub(r"[ /-]", "", phone), "fax": None, "mail": mail}


@solves("receipt_with_a_return")
def _receipt(text: str) -> Answer:
    items = re.findall(r"(\d+) (\w+) at (\d+\.\d\d) each", text)
    n_returned, article = read(r"(\d+) (\w+) were returned", text)
    n_pieces = 0
    cents = 0
    for count, name, price in items:
        n_kept = int(count) - (int(n_returned) if name == article else 0)
        n_pieces += n_kept
        cents += n_kept * cents_of(price)
    return {"pieces": n_pieces, "before_cents": cents, "to_pay_cents": cents * 90 // 100}


@solves("host_table_with_gaps")
def _hosts(text: str) -> Answer:
    hosts = []
    for name, cores, memory, rack in re.findall(r"(?m)^(\w+); (\S+); (\S+); (\S+)$", text):
        n_cores = sum(map(int, cores.split("+")))
        if n_cores >= 8:
            memory_mb = None if memory == "-" else int(memory) * 1024
            rack_or_none = None if rack == "-" else rack
            host = {"name": name, "cores": n_cores, "memory_mb": memory_mb, "rack": rack_or_none}
            hosts.append(host)
    return {"hosts": sorted(hosts, key=lambda host: str(host["name"]))}


@solves("sensors_in_one_unit")
def _sensors(text: str) -> Answer:
    celsius = {}
    for name, value, unit in re.findall(r"(?m)^(\w+) ([\d.]+) (°C|°F|K)$", text):
        degrees = float(value)
        if unit == "°F":
            degrees = (degrees - 32) * 5 / 9
        elif unit == "K":
            degrees -= 273.15
        celsius[name] = round(degrees * 10)
    return celsius


@solves("settings_from_a_chat")
def _relay(text: str) -> Answer:
    (port,) = read_ints(r"From now on the relay listens on port (\d+)", text)
    (workers,) = read_ints(r"with (\d+) workers", text)
    return {"port": port, "workers": workers // 2, "tls": True}


@solves("shifts_after_two_swaps")
def _shifts(text: str) -> Answer:
    plan = (
        r"(\w+), (\w+) and (\w+) work early, (\w+) and (\w+) work late, (\w+) and (\w+) work nights"
    )
    names = read(plan, text)
    shifts = dict(zip(names, ["early"] * 3 + ["late"] * 2 + ["night"] * 2, strict=True))
    for one, other in re.findall(r"(\w+) and (\w+) swap", text):
        shifts[one], shifts[other] = shifts[other], shifts[one]
    del shifts[read(r"(\w+) falls ill", text)[0]]
    by_shift: dict[str, list[str]] = {"early": [], "late": [], "night": []}
    for name in sorted(shifts):
        by_shift[shifts[name]].append(name)
    return by_shift


@solves("days_in_one_form")
def _days(text: str) -> Answer:
    days = set()
    for form in read(r'"(.*)"\. In forms', text)[0].split("; "):
        is_day_before = form.startswith("the day after ")
        numbers = list(map(int, re.findall(r"\d+", form)))
        if re.search("[a-z]", form.removeprefix("the day after ")):
            month = next(m for m in range(1, 13) if calendar.month_name[m] in form)
            day = date(numbers[1], month, numbers[0])
        elif "." in form:
            day = date(numbers[2], numbers[1], numbers[0])
        else:
            day = date(numbers[0], numbers[1], numbers[2])
        days.add(day + timedelta(days=1) if is_day_before else day)
    written = [day.isoformat() for day in sorted(days)]
    return {"days": written, "last": written[-1]}


@solves("settings_file_to_json")
def _settings(text: str) -> Answer:
    (section,) = read(r"(?m)^\[(\w+)\]$", text)
    settings: dict[str, Any] = {}
    for name, value in re.findall(r"(?m)^([\w.]+) = (.+)$", text):
        target = settings
        *outer, last = name.split(".")
        for key in outer:
            target = target.setdefault(key, {})
        if value.startswith('"'):
            target[last] = value.strip('"')
        elif value.isdecimal():
            target[last] = int(value)
        elif value in ("on", "off"):
            target[last] = value == "on"
        else:
            target[last] = value.split(", ")
    return {section: settings}


@solves("stock_after_corrections")
def _stock(text: str) -> Answer:
    bolts, nuts, pins = read_ints(r"with (\d+) bolts, (\d+) nuts and (\d+) pins", text)
    (moved_bolts,) = read_ints(r"A: (\d+) bolts go out", text)
    (new_nuts,) = read_ints(r"B: (\d+) nuts come in", text)
    (nuts_out,) = read_ints(r"D: (\d+) nuts go out", text)
    (pins_out,) = read_ints(r"F: (\d+) pins go out", text)
    (nuts_back,) = read_ints(r"H: Of the nuts of entry D, (\d+) come back", text)
    return {
        "bolts": bolts + moved_bolts,
        "nuts": nuts + new_nuts - nuts_out + nuts_back,
        "pins": pins - pins_out,
    }


@solves("calendar_after_changes")
def _calendar(text: str) -> Answer:
    begin, end = map(minutes_of, read(r'"review" from (\S+) to (\S+);', text))
    (talk_end,) = read(r'"talk" from \S+ to (\S+)\.', text)
    (delay,) = read_ints(r"review begins (\d+) minutes later", text)
    (length,) = read_ints(r'"call" of (\d+) minutes', text)
    return {
        "events": [
            {
                "title": "call",
                "from": clock_of(begin + delay - length),
                "to": clock_of(begin + delay),
            },
            {"title": "review", "from": clock_of(begin + delay), "to": clock_of(end + delay)},
            {"title": "talk", "from": clock_of(end + delay), "to": talk_end},
        ]
    }


@solves("list_edited_in_order")
def _edited(text: str) -> Answer:
    words = read(r"six words: ([\w, ]+)\.", text)[0].split(", ")
    new, before = read(r"Put the word (\w+) directly behind the word (\w+)", text)
    del words[2]
    words.insert(0, words.pop())
    words.insert(words.index(before) + 1, new)
    words[0], words[-1] = words[-1], words[0]
    words[:3] = reversed(words[:3])
    return {"list": words, "third": words[2]}


@solves("log_lines_by_host")
def _log_lines(text: str) -> Answer:
    counts: dict[str, dict[str, int]] = {}
    for host, level, message in re.findall(r"(?m)^\d\d:\d\d (\w+) ([A-Z]+) (.+)$", text):
        by_level = counts.setdefault(host, {"error": 0, "warn": 0})
        times = re.search(r"seen (\d+) times", message)
        if level.lower() in by_level and not message.startswith("drill"):
            by_level[level.lower()] += int(times[1]) if times else 1
    return counts


@solves("amounts_in_two_styles")
def _invoice(text: str) -> Answer:
    hosting, domains = read(r"hosting (\S+) EUR; domains (\S+) EUR", text)
    hours, rate, credit = read(r"support, (\d+) hours at EUR (\S+) an hour; EUR (\S+) credit", text)
    support = int(hours) * cents_of(rate)
    net = cents_of(hosting) + cents_of(domains) + support - cents_of(credit)
    assert net % 5 == 0
    return {
        "hosting": cents_of(hosting),
        "domains": cents_of(domains),
        "support": support,
        "net": net,
        "tax": net // 5,
        "gross": net + net // 5,
    }


@solves("folders_added_up")
def _folders(text: str) -> Answer:
    root: dict[str, Any] = {"name": "", "kb": 0, "folders": []}
    path = [root]
    for indent, line in re.findall(r"(?m)^( *)(\S+/|\S+ \d+|\S+ -> \S+)$", text):
        path = path[: len(indent) // 2 + 1]
        if line.endswith("/"):
            folder = {"name": line.rstrip("/"), "kb": 0, "folders": []}
            path[-1]["folders"].append(folder)
            path.append(folder)
        elif "->" not in line:
            for folder in path:
                folder["kb"] += int(line.split()[1])
    (top,) = root["folders"]
    return dict(top)


# --- core: reading ---------------------------------------------------------------------------------------------------


@solves("port_after_a_withdrawal")
def _port(text: str) -> Answer:
    return read(r"08:45 .* Use port (\d+) for the relay", text)[0]


@solves("least_room_in_a_rack")
def _least_room(text: str) -> Answer:
    rows = re.findall(r"(?m)^(\w+), B, ([\d.]+), up$", text)
    return str(min(rows, key=lambda row: float(row[1]))[0])


@solves("orders_that_fit_three_conditions")
def _orders(text: str) -> Answer:
    day, least = read(r"came in after (\S+), are of at least (\d+) euros", text)
    n_orders = 0
    for ordered, amount, state in re.findall(r"(?m)^K-\d+, (\S+), (\S+), (\w+)$", text):
        is_in_march = ordered.startswith("2027-03-") and ordered > day
        if is_in_march and float(amount) >= int(least) and state != "void":
            n_orders += 1
    return str(n_orders)


@solves("value_after_resets")
def _resets(text: str) -> Answer:
    limit, burst = read_ints(r"defaults: limit = (\d+), burst = (\d+)", text)
    return str(2 * limit + burst)


@solves("minutes_a_job_ran")
def _minutes_run(text: str) -> Answer:
    (job,) = read(r"did job (\S+) run", text)
    marks = []
    for clock in re.findall(
        rf"(?m)^(\d\d:\d\d) job {job} (?:started|paused|went on|finished)$", text
    ):
        minutes = minutes_of(clock)
        marks.append(minutes if clock.startswith("23") else minutes + 24 * 60)
    started, paused, went_on, finished = marks
    return str(paused - started + finished - went_on)


@solves("price_with_footnotes")
def _price(text: str) -> Answer:
    prices = {}
    for article, price in re.findall(r"(?m)^(desk|corner desk|lamp) (\d+\.\d\d)", text):
        prices[article] = cents_of(price)
    (delivery,) = read(r"Delivery is (\d+\.\d\d)", text)
    desks, corner_desks = read_ints(r"do (\d+) desks, (\d+) corner desks and one lamp", text)
    cents = desks * prices["desk"]
    if desks >= 5:
        cents = cents * 90 // 100
    cents += corner_desks * (prices["corner desk"] + cents_of(delivery)) + prices["lamp"]
    return f"{cents // 100}.{cents % 100:02}"


@solves("time_that_was_agreed")
def _agreed(text: str) -> Answer:
    first, second = map(minutes_of, read(r"15:00\. (\S+) or (\S+)\?", text))
    begin = first + 10
    assert begin + 60 <= second + 30
    return clock_of(begin)


@solves("fifth_in_the_build")
def _build(text: str) -> Answer:
    needs = {}
    for part, needed in re.findall(r"(?m)^(\w+) needs (.+)\.$", text):
        needs[part] = set() if needed == "nothing" else set(needed.split(" and "))
    order: list[str] = []
    while len(order) < len(needs):
        ready = [part for part in needs if part not in order and needs[part] <= set(order)]
        assert len(ready) == 1
        order += ready
    return order[4]


@solves("address_inside_a_block")
def _inside(text: str) -> Answer:
    block = ipaddress.ip_network(read(r"in the block (\S+)\. ", text)[0])
    addresses = re.findall(r"(?m)^(\d+\.\d+\.\d+\.\d+)$", text)
    (inside,) = [address for address in addresses if ipaddress.ip_address(address) in block]
    return str(inside)


@solves("highest_version_allowed")
def _version(text: str) -> Answer:
    versions = read(r"Released versions: (.+)", text)[0].split(", ")
    rules = r"from (\S+) on; below (\S+); nothing that begins with (\S+); .*; not (\S+), which"
    lowest, limit, refused, withdrawn = read(rules, text)

    def parts(version: str) -> list[int]:
        return list(map(int, version.split(".")))

    allowed = []
    for version in versions:
        if "beta" in version or version == withdrawn or version.startswith(refused):
            continue
        if parts(lowest) <= parts(version) < parts(limit):
            allowed.append(version)
    return max(allowed, key=parts)


@solves("quoted_cell_of_a_row")
def _cell(text: str) -> Answer:
    (row_id,) = read(r"with the id (\d+)\?", text)
    (row,) = read(rf"(?m)^({row_id},.*)$", text)
    cells = re.findall(r'(?:^|,)("(?:[^"]|"")*"|[^,]*)', row)
    return str(cells[2])[1:-1].replace('""', '"')


# --- core: reckoning and rules ---------------------------------------------------------------------------------------


@solves("three_sizes_in_mib")
def _mib(text: str) -> Answer:
    gib, mib, kib = read(r"parts: (\S+) GiB, (\d+) MiB and (\d+) KiB", text)
    total = float(gib) * 1024 + int(mib) + int(kib) / 1024
    assert total == int(total)
    return str(int(total))


@solves("moment_between_two_zones")
def _moment(text: str) -> Answer:
    moment, behind, ahead = read(
        r"moment (\S+ \S+); its clock is (\S+) .* behind UTC\. .* that is (\S+) .* ahead of UTC",
        text,
    )
    there = timezone(-timedelta(minutes=minutes_of(behind)))
    here = timezone(timedelta(minutes=minutes_of(ahead)))
    written = datetime.strptime(moment, "%Y-%m-%d %H:%M").replace(tzinfo=there)
    return written.astimezone(here).strftime("%Y-%m-%d %H:%M")


@solves("next_run_of_a_schedule")
def _next_run(text: str) -> Answer:
    minute, hour = read_ints(r"(?m)^(\d+) (\d+) 2-31 \* 1-5$", text)
    now, weekday = read(r"It is (\S+ \S+), a (\w+);", text)
    moment = datetime.strptime(now, "%Y-%m-%d %H:%M")
    assert moment.strftime("%A") == weekday
    run = moment.replace(hour=hour, minute=minute)
    while run <= moment or run.day == 1 or run.isoweekday() > 5:
        run += timedelta(days=1)
    return run.strftime("%Y-%m-%d %H:%M")


@solves("minutes_of_two_schedules")
def _two_schedules(text: str) -> Answer:
    moments = set()
    for step, first, last in re.findall(r"(?m)^\*/(\d+) (\d+)-(\d+) \* \* \*$", text):
        for hour in range(int(first), int(last) + 1):
            for minute in range(0, 60, int(step)):
                moments.add((hour, minute))
    return str(len(moments))


@solves("first_rule_that_fits")
def _queue(text: str) -> Answer:
    (domain,) = read(r"ends in (@\S+): \w+", text)
    (limit,) = read_ints(r"larger than (\d+) MB", text)
    sender, subject, size = read(r'from (\S+), subject "(.*)", two attachments, (\d+) MB', text)
    is_threads = not sender.endswith(domain) and "INV-" not in subject and int(size) <= limit
    assert is_threads and subject.startswith("Re:")
    return read(r"begins with Re: (\w+)", text)[0]


# --- native_tools: JSON by a schema ----------------------------------------------------------------------------------


@solves("shipment_as_json")
def _shipment(text: str) -> Answer:
    pallets, pallet_kg, crates, crate_kg = read_ints(
        r"takes (\d+) pallets of (\d+) kg each and (\d+) crates of (\d+) kg each", text
    )
    n_days = NUMBER_WORDS[read(r"on the road for (\w+) days", text)[0]]
    monday = date(2026, 3, 2)
    leaves = monday + timedelta(days=4)
    return {
        "pallets": pallets - 1,
        "crates": crates,
        "total_kg": (pallets - 1) * pallet_kg + crates * crate_kg,
        "leaves": leaves.isoformat(),
        "arrives": (leaves + timedelta(days=n_days)).isoformat(),
    }


@solves("outages_of_one_service")
def _outages(text: str) -> Answer:
    (service,) = read(r"the outages of (\w+),", text)
    clocks = read(
        rf'"(\S+) {service} stopped answering.* (\S+) {service} was back, (\S+) it was gone once more;'
        r".*it took until (\S+)\.",
        text,
    )
    outages = []
    for begin, end in (clocks[:2], clocks[2:]):
        minutes = minutes_of(end) - minutes_of(begin)
        outages.append({"from": begin, "to": end, "minutes": minutes})
    total = sum(int(outage["minutes"]) for outage in outages)
    return {"service": service, "outages": outages, "minutes": total, "cause": None}


@solves("poll_as_json")
def _poll(text: str) -> Answer:
    days = ("tuesday", "wednesday", "thursday")
    votes_by_name: dict[str, set[str]] = {}
    for name, answer in re.findall(r'(?m)^"?(\w+): (.+)$', text):
        named = {day for day in days if day in answer.lower()}
        if "Any of the three" in answer:
            named = set(days)
        elif answer.startswith("Not"):
            named = set(days) - named
        elif "has gone" in answer:
            named -= {"wednesday"}
        votes_by_name[name] = named
    counts = {day: sum(day in votes for votes in votes_by_name.values()) for day in days}
    day = max(days, key=counts.__getitem__)
    absent = sorted(name for name, votes in votes_by_name.items() if day not in votes)
    return {"votes": counts, "day": day, "absent": absent}


@solves("expenses_as_json")
def _expenses(text: str) -> Answer:
    there, dinner, inn, lunch, back = map(cents_of, re.findall(r"(\d+\.\d\d) EUR", text))
    costs = [
        ("travel", there, None),
        ("meal", dinner, 4000),
        ("room", inn, 2 * 11000),
        ("meal", lunch, 4000),
        ("travel", back, None),
    ]
    items = []
    to_pay_cents = 0
    for kind, cents, limit in costs:
        is_over = limit is not None and cents > limit
        items.append({"kind": kind, "cents": cents, "over_limit": is_over})
        to_pay_cents += limit if limit is not None and is_over else cents
    return {"items": items, "to_pay_cents": to_pay_cents - back // 2}


@solves("gate_rules_as_json")
def _gate(text: str) -> Answer:
    allowed, first, last = read(r"Let (\S+) reach ports (\d+) to (\d+)\.", text)
    denied, first_denied, last_denied = read(
        r"Nobody from (\S+) gets to ports (\d+) to (\d+)\.", text
    )
    added, begin = read(r"Instead (\S+) may reach ten ports, beginning with (\d+)\.", text)

    def rule(
        action: str, source: str, first_port: str | int, last_port: str | int
    ) -> dict[str, Any]:
        ports = {"first_port": int(first_port), "last_port": int(last_port)}
        return {"action": action, "source": source, **ports}

    return {
        "rules": [
            rule("deny", denied, first_denied, last_denied),
            rule("allow", allowed, first, last),
            rule("allow", added, begin, int(begin) + 9),
        ]
    }


@solves("journey_as_json")
def _journey(text: str) -> Answer:
    legs = []
    hours_ahead: dict[str, int] = {}
    second, first = read(r"(\w+) is one hour behind (\w+),", text)
    third, other = read(r"and (\w+) is two hours ahead of (\w+)\.", text)
    assert other == second
    hours_ahead = {first: 0, second: -1, third: 1}
    moments = []
    stops = re.findall(r"(?:Dep\.|arr\.) (\w+) (\d\d:\d\d)", text)
    for place, clock in stops:
        moments.append(minutes_of(clock) - 60 * hours_ahead[place])
    for index in (0, 2):
        minutes = moments[index + 1] - moments[index]
        legs.append({"from": stops[index][0], "to": stops[index + 1][0], "minutes": minutes})
    return {"legs": legs, "changes": 1, "minutes": moments[-1] - moments[0]}


@solves("samples_as_json")
def _samples(text: str) -> Answer:
    samples: list[dict[str, Any]] = []
    for sample_id, note, degrees in re.findall(r"([A-Z]-\d\d): (.*?), kept at (\d+) °C", text):
        value = None
        if amount := re.match(r"([\d.]+) (ug/l|mg/l|mg in half a litre)", note):
            factor = {"ug/l": 0.001, "mg/l": 1.0, "mg in half a litre": 2.0}[amount[2]]
            value = round(float(amount[1]) * factor, 3)
        samples.append({"id": sample_id, "mg_per_l": value, "valid": int(degrees) <= 8})
    candidates = [sample for sample in samples if sample["valid"] and sample["mg_per_l"]]
    highest = max(candidates, key=lambda sample: float(sample["mg_per_l"]))
    return {"samples": samples, "highest": highest["id"]}
