"""The table of `generate`'s arguments agrees with transformers' arguments and with our code."""

import inspect
import re
from pathlib import Path

from transformers import GenerationConfig
from transformers.generation.utils import GenerationMixin

from specdec.ecosystem import arguments, custom_generate
from tests.ecosystem import test_custom_generate, test_processor_memory, test_random_requests

TABLE = (Path(arguments.__file__).parent / "ARGUMENTS.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| *(\w*) *\|$", TABLE, re.MULTILINE)
FATES = {name: fate for name, fate, _ in ROWS}
WRITTEN_BY_THE_WAY = {"_from_model_config", "transformers_version"}
PASSED_ON = {"model", "generation_mode_kwargs", "model_kwargs"}


def test_every_line_is_a_row_and_every_argument_has_one():
    assert len(re.findall(r"^\| `", TABLE, re.MULTILINE)) == len(ROWS) == len(FATES)


def test_every_argument_of_transformers_has_a_row():
    assert GenerationConfig().to_dict().keys() - WRITTEN_BY_THE_WAY <= FATES.keys()
    assert inspect.signature(GenerationMixin.generate).parameters.keys() - {"self", "kwargs"} <= FATES.keys()


def test_every_argument_of_ours_has_a_row():
    assert inspect.signature(custom_generate.custom_generate).parameters.keys() - PASSED_ON <= FATES.keys()


def test_what_the_code_refuses_is_refused_in_the_table():
    refused = {name for name, fate in FATES.items() if fate.startswith("refused")}
    elsewhere = {"guidance_scale", "synced_gpus", "inputs_embeds", "past_key_values"}
    assert refused == {*arguments.ONLY} | elsewhere


def test_the_test_of_each_argument_is_there():
    tests = vars(test_custom_generate) | vars(test_random_requests) | vars(test_processor_memory)
    for name, fate, test in ROWS:
        assert fate.startswith(("works", "refused", "nothing", "this")), name
        assert not test if fate.startswith("nothing") else test in tests, name
