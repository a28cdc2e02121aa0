"""The audit tests whether an engine's sampled texts have the distribution of its model.

    from specdec.exactness.audit import audit
    report = audit(sample, pair, "Once upon a time", top_k=4)
    print(report.text())
    report.check()                      # in a test: AssertionError if a difference was found

The engine is `sample(prompt_ids, seed, max_new_tokens, temperature, top_k, top_p)`. It returns new token ids,
or their text. `pair.target` is the model whose distribution is compared.

    run           decodes the texts, tests them and makes the report
    distribution  the exact distribution, from the target's logits
    evidence      the tests: χ², dependence of tokens and of seeds, and the smallest deviations they detect
    report        the verdict, as text and as JSON
    engines       the engines of the command, by name
    transformers  transformers' own decoding as an engine, plain and with the pair's draft
    openai        any server of the OpenAI completions protocol as an engine
    command       `specdec audit`

`research.audit`, which is not part of the package, audits other engines.
"""

from specdec.exactness.audit.report import Report
from specdec.exactness.audit.run import audit

__all__ = ["Report", "audit"]
