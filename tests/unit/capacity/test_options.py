"""What `capacity` is asked for: read as it is meant, or refused in a sentence."""

from __future__ import annotations

import argparse

import pytest

from clawgauge.cli.capacity import add_arguments, read_options, word_load
from clawgauge.errors import ConfigError
from clawgauge.records import CapacityOptions
from support.rows import every_row


def read(*words: str) -> CapacityOptions:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return read_options(parser.parse_args(words))


@every_row(
    "words, says",
    [
        ("--slo ttft=0s", "--slo has '0s'"),
        ("--slo ttft=-1s", "--slo has '-1s'"),
        ("--slo ttft=2", "tpot=80ms"),
        ("--slo speed=2s", "ttft, tpot and e2e"),
        ("--slo ttft=2s,ttft=3s", "each once"),
        ("--slo ttft=2s,e2e=1s", "makes no sense"),
        ("--slo ttft", "tpot=80ms"),
        ("--slo ,", "ttft, tpot and e2e"),
        ("--slo=", "ttft, tpot and e2e"),
        ("--rate 0", "--rate has '0'"),
        (
            "--rate 2 --duration 60 --max-time 10s",
            "leaves 10 s to each load, and a rate takes 75 s",
        ),
        ("--rate 2 --context 2k,4k -t box:a -t box:b --max-time 4m", "leaves 60 s to each load"),
        ("--rate 8..2", "rising"),
        ("--rate 2..", "--rate has ''"),
        ("--rate nan", "--rate has 'nan'"),
        ("--rate 1e9", "can be made"),
        ("--rate 0.01", "raise --duration"),
        ("--rate 2 --shape agent", "give one of them"),
        ("--context 2kk", "16k"),
        ("--context 2k,", "16k"),
        ("--context 1", "from 100"),
        ("--output 1", "--output"),
        ("--max-concurrency 0", "4096"),
        ("--max-concurrency many", "4096"),
        ("--shared-prefix 2k", "less than a prompt"),
        ("--max-time soon", "15m"),
        ("--duration 0s", "60s"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(words: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(*words.split())
    assert says in str(refused.value)


def test_what_is_asked_for_is_read_as_it_is_meant() -> None:
    found = read(
        "--context",
        "16k, 2k,800",
        "--slo",
        "TTFT=2s, tpot=80ms,e2e=1m",
        "--max-time",
        "90s",
        "--output",
        "1k",
    )
    assert found.contexts == [800, 2_000, 16_000] and found.output_tokens == 1_000
    assert found.slo.limits == {"ttft_ms": 2_000, "tpot_ms": 80, "e2e_ms": 60_000}
    assert (found.max_concurrency, found.max_time_s, found.rates) == (64, 90, [])
    assert read("--rate", "0.5..8").rates == [0.5, 1, 2, 4, 8]
    assert read("--rate", "0.5..7").rates == [0.5, 1, 2, 4, 7]
    assert read("--rate", "9.14,13.7").rates == [9.14, 13.7]
    assert read("--rate", "2").max_concurrency == 1024
    plain = read("--rate", "2", "--duration", "90", "--max-time", "600")
    assert (plain.duration_s, plain.max_time_s) == (90, 600), (
        "a bare number is seconds, as the examples have it"
    )


@every_row(
    "words, said",
    [
        (
            "",
            "1, 2, 4 … up to 64 at once, until more bring no more; prompts of 2k tokens, answers of up to 128;",
        ),
        (
            "--slo ttft=2s,tpot=80ms",
            "until fewer than 95% have the first token within 2.00 s and a token every 80 ms;",
        ),
        (
            "--rate 2,4 --duration 30s",
            "2 and 4 requests a second, each for 30 s, at most 1024 at once; prompts of 2k",
        ),
        (
            "--context 2k,16k --shared-prefix 1k",
            "prompts of 2k and 16k tokens, the first 1k of them the same, answers of",
        ),
        (
            "--shape agent",
            "prompts of 2k tokens, which grow, with pauses, as an agent's do, answers of up to 128; 15 min",
        ),
    ],
)
def test_what_is_about_to_be_tried_is_said_in_words(words: str, said: str) -> None:
    told = word_load(read(*words.split()))
    assert said in told and "_" not in told and "[" not in told, told
