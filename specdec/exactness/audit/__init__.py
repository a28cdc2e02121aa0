"""The referee: is an engine's sampled text distributed as its model says?

    from specdec.exactness.audit import audit
    report = audit(sample, pair, "Once upon a time", top_k=4)
    print(report.text())
    report.check()                      # in a test: AssertionError where a difference was found

`sample(prompt_ids, seed, max_new_tokens, temperature, top_k, top_p)` is the engine: it returns new token ids,
or their text where it can't do better. `pair.target` is the model whose law is held against it.

run          decodes, and the report they make
law          the exact law, from the target's own logits
evidence     the tests: χ², what each would have found, dependence of tokens and of seeds
report       the verdict, as text and as JSON
engines      ours, transformers', a server of the OpenAI completions protocol, openvino-genai
"""

from specdec.exactness.audit.report import Report
from specdec.exactness.audit.run import audit

__all__ = ["Report", "audit"]
