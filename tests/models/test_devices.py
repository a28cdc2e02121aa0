"""Models on other devices than the CPU, shown without one: tensors of torch's "meta" device have no values.

An operation on a "meta" tensor and a CPU tensor raises, and so does reading a value of a "meta" tensor.
"""

import pytest
import torch

from specdec.decoding.clock import Clock
from specdec.models import HFModel, batching
from specdec.models.kernels import compiled
from specdec.models.lean import LeanDecoder
from specdec.models.requests import Request
from specdec.models.selfcheck import SCRIPTS
from tests.helpers.tiny_checkpoints import tiny_model


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "qwen3", "mpt", "mamba", "lfm2"])
def test_a_session_makes_its_tensors_on_the_model_s_device(family):
    """The self-check's own script, for each kind of session that the self-check chose."""
    model = HFModel(tiny_model(family)).to("meta")
    session = model.session()
    session.prefill([1, 2, 3])
    device = "cpu" if model.capability == "ar" else "meta"  # these sessions keep their text on the host
    for parents, committed in SCRIPTS[model.capability]:
        logits = session.forward(torch.full((len(parents),), 4, device=device), parents)
        assert (logits.device.type, logits.shape) == ("meta", (len(parents), model.vocab_size))
        if committed is not None:
            session.commit(committed)
    assert session.length == 3 + sum(len(committed or ()) for _, committed in SCRIPTS[model.capability])


def test_a_tensor_on_another_device_would_be_noticed():
    """Negative control."""
    session = HFModel(tiny_model("llama")).to("meta").session()
    session.prefill([1, 2, 3])
    session._cache.buffer = session._cache.buffer.new_zeros(session._cache.buffer.shape, device="cpu")
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        session.forward(torch.tensor([4], device="meta"), [-1])


def test_rounds_and_a_piece_of_a_prompt_share_a_forward(monkeypatch):
    """The tokens of a round are on the device; those of a prompt are a list."""
    monkeypatch.setenv(compiled.SWITCH, "0")
    model = HFModel(tiny_model("llama")).to("meta")
    texts, hidden = [], LeanDecoder.hidden

    def counted(self, token_ids, rotation, rows):
        texts.append(len(rows))
        return hidden(self, token_ids, rotation, rows)

    monkeypatch.setattr(LeanDecoder, "hidden", counted)
    rounds = Request(model.session(), torch.tensor([4, 5], device="meta"), [-1, 0])
    prompt = Request(model.session(), [1, 2, 3], None)
    logits, none = batching.answers([rounds, prompt])
    assert (tuple(logits.shape), none, prompt.session.length) == ((2, model.vocab_size), None, 3)
    assert texts == [2]


class Event:
    """A CUDA event that the device reaches at a given time, in milliseconds."""

    def __init__(self, at):
        self.at, self.waited = at, False

    def synchronize(self):
        self.waited = True

    def elapsed_time(self, end):
        assert end.waited
        return end.at - self.at


def test_a_lap_ends_when_the_device_has_done_the_launched_work(monkeypatch):
    events = iter([Event(70.0), Event(75.0), Event(95.0)])
    now = iter([2.0, 2.1, 2.2])
    monkeypatch.setattr(Clock, "_event", lambda self: next(events))
    monkeypatch.setattr("specdec.decoding.clock.time.perf_counter", lambda: next(now))
    clock = Clock(torch.device("cuda"))
    clock.launched()
    clock.launched()
    clock.lap()
    clock.lap()
    assert clock.seconds() == pytest.approx([0.005, 0.02, 0.075, 0.1])
