"""The page's sentence about a decision, for every rule: runs of the decoder, described by the page's
scripts."""

import json

import pytest

import specdec
from specdec.methods import METHODS
from tests.scripts.test_scripts import ROOT, node, run  # noqa: F401 - a fixture

RACED = "wins the large model's race"
TELL = f"""
import {{ readFileSync }} from "node:fs";
import {{ parse, toRun }} from "{ROOT.as_uri()}/assets/shared/trace.js";
import {{ decisions, isOut }} from "{ROOT.as_uri()}/assets/shared/decisions.js";
import {{ numbers, sentence, tested }} from "{ROOT.as_uri()}/assets/decode/sentences.js";
const told = toRun(parse(readFileSync(process.argv[1], "utf8")));
const method = told.setup.method;
const said = told.rounds.map((round) => ({{
  decisions: decisions(round, method).map((decision) => [decision.kind, sentence(round, decision, method)]),
  numbers: decisions(round, method).map((decision) => numbers(round, decision)),
  tested: round.steps.flatMap((step) => step.trials.map((trial) => tested(round, trial))),
  out: round.nodes.map((node) => isOut(node, round)),
}}));
console.log(JSON.stringify(said));
"""


@pytest.mark.parametrize("method", list(METHODS))
def test_the_page_says_what_the_rule_did(node, pair, method, tmp_path):  # noqa: F811
    """No sentence says that a testing rule races, and each sentence about a test names the tested token."""
    run_of = specdec.generate(
        pair, "One day, Tom", method=method, topology=specdec.topology.specinfer(12), seed=4, detail=True
    )
    trace = tmp_path / "trace.json"
    trace.write_text(run_of.to_json())
    code, output = run(node, "--input-type=module", "--eval", TELL, trace)
    assert code == 0, output
    rounds = json.loads(output)
    assert all(len(round["decisions"]) >= len(own.tokens) for round, own in zip(rounds, run_of.rounds))
    sentences = [sentence for round in rounds for _, sentence in round["decisions"]]
    assert not [sentence for sentence in sentences if "undefined" in sentence or "NaN" in sentence]
    raced = METHODS[method].drafter_invariant
    assert any(RACED in sentence for sentence in sentences) == raced
    assert any("u = " in sentence for sentence in sentences) != raced
    for page, ours in zip(rounds, run_of.rounds, strict=True):
        texts = {node.path: node.text for node in ours.nodes}
        assert page["tested"] == [texts[trial.path] for step in ours.steps for trial in step.trials]
        failed = {trial.path for step in ours.steps for trial in step.trials if not trial.accepted}
        for node_of, out in zip(ours.nodes, page["out"], strict=True):
            assert not out or node_of.status == "rejected"
            assert out or node_of.path not in failed or node_of.status != "rejected"
