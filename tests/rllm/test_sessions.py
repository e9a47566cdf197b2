"""Agents' sessions through rLLM's real ``GatewayManager`` and engines of a patched copy; see tests/support/rllm_sessions.py.

For each kind of engine, JSON and streams: eight turns are one segment, each traced, with calls and reasoning in their places;
an answer that the client edited, dropped or added to is a new segment with the client's text. One model by default; all with
``--whole``.
"""

from __future__ import annotations

import pytest
import real_tokenizers
import rllm_source
import scripted_rollout as script
from sampling import WHOLE


@pytest.mark.parametrize("engine", ["tinker", "fireworks", "verl"])
@pytest.mark.parametrize("model", script.MODELS if WHOLE else script.MODELS[:1], ids=lambda model: model.split("/")[1])
def test_a_client_gets_what_was_said_and_what_it_changes_is_what_is_sampled_from(process, engine, model):
    rllm_source.need("no session went through rLLM's engines", "tinker", "tinker_cookbook", "omegaconf")
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    result = process("-W", "ignore", "-m", "rllm_sessions", engine, model)
    assert result.stdout.split()[-1:] == ["done"], result.stdout[-500:] + result.stderr[-4000:]
