"""What `route --for litellm` writes, loaded by the real LiteLLM and routed by it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from clawgauge.records import Target
from support.command import clawgauge
from support.measured_models import OPENAI, Measured, MeasuredRun
from support.scripted_server import ScriptedServer

LITELLM_PYTHON = Path(__file__).parents[2] / ".cache/litellm/bin/python"
ASK = """
import json, sys, yaml, litellm
config = yaml.safe_load(open("litellm.yaml"))
settings = config.get("router_settings", {})
router = litellm.Router(model_list=config["model_list"], num_retries=0, **settings)
answer = router.completion(model=sys.argv[1], messages=[{"role": "user", "content": "say yes"}])
print(json.dumps({
    "names": router.get_model_names(),
    "timeouts": [entry["litellm_params"].get("timeout") for entry in router.get_model_list()],
    "fallbacks": router.fallbacks,
    "answer": answer.choices[0].message.content,
}))
"""

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not LITELLM_PYTHON.exists(), reason="the real LiteLLM is not installed: scripts/get-litellm"
    ),
]


def test_litellm_loads_the_file_and_falls_back_as_it_says(tmp_path: Path) -> None:
    """The first model's server is gone: LiteLLM goes on to the next of the list and gets its answer."""
    with ScriptedServer(models=["second"]) as server:
        gone = {"type": "openai_chat", "base_url": "http://127.0.0.1:9/v1"}
        there = {"type": "openai_chat", "base_url": server.v1_url}
        first = Measured(Target("one", "first"), gone, e2e_ms=400)
        second = Measured(Target("two", "second"), there, e2e_ms=9_000)
        cloud = replace(
            first,
            target=Target("openai_responses", "gpt-5", "high"),
            settings=OPENAI,
            text_passes=0,
        )
        MeasuredRun([first, second, cloud]).write(tmp_path / "runs")
        assert (
            clawgauge(tmp_path, "route", "measured", "--for", "litellm", "-o", "litellm.yaml").code
            == 0
        )
        done = subprocess.run(
            [LITELLM_PYTHON, "-c", ASK, "one:first"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "OPENAI_API_KEY": "x",
            },
        )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded["names"][:2] == ["one:first", "two:second"]
    assert loaded["timeouts"][:2] == [5, 18]
    assert loaded["fallbacks"][0] == {"one:first": ["two:second", "openai_responses:gpt-5@high"]}
    assert loaded["answer"]


NAMES = """
import json, yaml, litellm
config = yaml.safe_load(open("litellm.yaml"))
router = litellm.Router(model_list=config["model_list"])
print(json.dumps([entry["litellm_params"]["model"] for entry in router.get_model_list()]))
"""


def test_litellm_reads_names_and_not_variables(tmp_path: Path) -> None:
    """Names that are references elsewhere are names to LiteLLM; what it would look up is not written at all."""
    settings = {"type": "openai_chat", "base_url": "http://127.0.0.1:9/v1"}
    names = ["os.environ/OPENAI_API_KEY", "${OPENAI_API_KEY}", "a: b # c"]
    looked_up = Measured(Target("os.environ/OPENAI_API_KEY", "m"), settings)
    MeasuredRun([looked_up, *(Measured(Target("gw", name), settings) for name in names)]).write(
        tmp_path / "runs"
    )
    assert (
        clawgauge(tmp_path, "route", "measured", "--for", "litellm", "-o", "litellm.yaml").code == 0
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    done = subprocess.run(
        [LITELLM_PYTHON, "-c", NAMES],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**environment, "OPENAI_API_KEY": "canary-of-a-key"},
    )
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout.splitlines()[-1])) == sorted(
        f"openai/{name}" for name in names
    )
    assert "canary" not in done.stdout
