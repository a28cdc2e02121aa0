"""Writes the model card, from measured figures only."""

CARD = """# The embedded pair

Two small language models that write simple English stories, for speculative decoding without a download:
`target`, and `draft`, distilled from it. Both are Llama-shaped (`LlamaForCausalLM`, tied embeddings), trained
from nothing by `python -m specdec.training --pair stories`, and share one byte-level BPE tokenizer of
{recipe[vocab_size]:,} tokens. The context is {recipe[context]} tokens, the longest rows they were trained on.
Weights are float16 in safetensors; `specdec.load_pair("stories")` computes in float32. They know children's
stories and nothing else: facts, instructions and other languages are beyond them, though any text can be
encoded.

{models}

## Training

{texts}

- Stories: TinyStories (Eldan and Li, 2023), the first 5,081 stories of the training split; data set licence
  CDLA-Sharing-1.0, which leaves what is computed from the data, such as model weights, unrestricted. The copy
  used was in lower case, with capitals restored by rule: about 4 capitals in 100 are wrong, and the models
  have learnt that too.
- Classics: 67 English children's books of the 19th and early 20th century, in the public domain: Project
  Gutenberg texts, as collected in the ChiLit corpus (birmingham-ccr/corpora).
- The texts are not part of this project. Held out, never trained on: the last {recipe[held_out]:.0%} of the
  stories and the last {recipe[general_held_out]:.0%} of the classics.
- Target: {target[step]:,} steps, {target[tokens]:,} tokens.
  {phases}
  Muon for the matrices, AdamW for embedding and norms; the learning rate is flat, then falls to zero from
  {recipe[decay_from]:.0%} of the time on.
- Draft: {draft[step]:,} steps, {draft[tokens]:,} tokens, out of {sample_tokens:,} tokens of text, most of
  which the target sampled at temperature 1; the rest is of both texts. The loss is the KL divergence from the
  target's probabilities (the {recipe[top]} largest, the rest as one outcome), later 0.2 of it plus both
  rejection probabilities: total variation, and one minus ERSD's exact acceptance.
- Command: `python -m specdec.training --pair stories --corpus CORPUS --work WORK {options}`,
  on a CPU with other work to do. Training by the clock does not repeat to the bit; with `--steps-target` and
  `--steps-draft` it does, on one machine.

## Losses of the target

{losses}

Of the runs of 24 tokens in the target's own samples {copied[own]:.2%} stand word for word in the training
stories; of those in held-out stories {copied[unseen]:.2%} do. In the course of training, in nats per token,
on a part of each text:

{course}

All from the training command above, which computes them as it goes and at its end.

## Cost, and the choice of sizes

{costs}

In float32, one thread, after a prefix of 128 tokens. One token costs the target **{cost[ratio]:.1f}** times
what it costs the draft (`python -m specdec.training --pair stories --measure`). Shapes around
them, untrained, one thread (`python -m specdec.training --pair stories --shapes`):

{shapes}

Losses of other shapes were not measured. The stories, a million tokens, are the limit: a larger target would
see them fewer times in the same hour and learn them by heart sooner, and the gap between trained and held-out
stories above is there at this size already. Ten layers rather than six or eight make room for a draft of two
layers at less than a tenth of the cost; with a second layer a draft can look up what followed a name before,
which one layer of attention can't. A small vocabulary keeps output layers cheap and tokens easy to agree on.

## Acceptance

At temperature 1 in float32, on {acceptance[positions]:,} positions of text that the target sampled:

{first}

Probability that the child with this index is the accepted one, on {acceptance[by_index_positions]:,} of the
positions:

{by_index}

Block efficiency at temperature 1, up to 100 tokens from each opening in
`specdec/training/stories/measure.py` with 12 seeds, ± one standard error:

{blocks}

All from `python -m specdec.training --pair stories --measure`, which also writes `measurements.json` and this
card.

## Five samples

The target at temperature 0.8, up to 100 new tokens, unedited:

```python
import specdec

pair = specdec.load_pair("stories")
specdec.generate(pair, "Once upon a time", method="ar", max_new_tokens=100, temperature=0.8, seed=0).text
```

{samples}
"""


def card(figures: dict) -> str:
    """The card as Markdown; figures: the content of measurements.json."""
    training = figures["training"]
    return CARD.format(
        **{name: figures[name] for name in ("cost", "acceptance")},
        **{name: training[name] for name in ("recipe", "options", "sample_tokens")},
        **{name: training[name][-1] for name in ("target", "draft")},
        copied=figures["losses"]["copied"],
        models=models_table(figures),
        texts=texts_table(training),
        phases=phases_text(training["recipe"]["phases"]),
        losses=losses_table(figures["losses"]),
        course=course_table(training["target"]),
        costs=costs_table(figures["cost"]),
        shapes=shapes_table(figures.get("shapes", [])),
        first=first_table(figures["acceptance"]),
        by_index=by_index_table(figures["acceptance"]["by_index"]),
        blocks=blocks_table(figures["blocks"]),
        samples="\n\n".join(map(quoted, figures["samples"])),
    )


def table(head: str, *rows: tuple) -> str:
    """A Markdown table.

    >>> print(table("a | b", (1, 2)))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    rule = " | ".join("---" for _ in head.split("|"))
    return "\n".join(f"| {line} |" for line in (head, rule, *(" | ".join(map(str, row)) for row in rows)))


def models_table(figures: dict) -> str:
    """Shapes and sizes of both models, as a table."""
    rows = []
    for name in ("target", "draft"):
        shape, files = figures["training"]["recipe"][name], figures["bytes"][name]
        weights = " + ".join(f"{size / 1e6:.1f}" for size in sorted(files, reverse=True))
        rows.append((name, *shape.values(), f"{figures['parameters'][name]:,}", f"{weights} MB"))
    return table(" | layers | width | feed-forward | heads | parameters | weights", *rows)


def texts_table(training: dict) -> str:
    """The amounts of text, as a table."""
    tokens, characters = training["tokens"], training["characters"]
    rows = [
        (title, f"{characters[name]:,}", f"{tokens[name]:,}", f"{tokens[name + '_held_out']:,}")
        for name, title in (("stories", "stories"), ("general", "classics"))
    ]
    return table("text | characters trained on | tokens trained on | tokens held out", *rows)


def phases_text(phases: list[dict]) -> str:
    """The phases of the target's training, in words."""
    return "\n  ".join(
        f"Up to {phase['until']:.0%} of the time: rows of {phase['length']} tokens, "
        f"{phase['general']:.0%} of them classics, dropout {phase['dropout']:g}."
        for phase in phases
    )


def _titled(measured: dict, titles: dict[str, str], *columns: str) -> list[tuple[str, ...]]:
    """A row for each title: the title, and these columns of the measurement of its name."""
    return [
        (title, *(f"{measured[name][column]:.3f}" for column in columns)) for name, title in titles.items()
    ]


def losses_table(losses: dict) -> str:
    """The final losses, as a table."""
    titles = {
        "stories_held_out": "stories, held out",
        "stories": "stories, trained on",
        "general_held_out": "classics, held out",
    }
    rows = _titled(losses, titles, "nats_per_token", "bits_per_character")
    return table("text | nats per token | bits per character", *rows)


def course_table(history: list[dict]) -> str:
    """The losses in the course of training, as a table."""
    parts = ("held_out", "seen", "general")
    rows = [(f"{e['step']:,}", f"{e['tokens']:,}", *(f"{e[part]:.3f}" for part in parts)) for e in history]
    return table("step | tokens | stories, held out | stories, trained on | classics, held out", *rows)


def costs_table(cost: dict) -> str:
    """The milliseconds of a forward pass, as a table."""
    rows = [(n, *(f"{cost[name][n]:.2f} ms" for name in ("target", "draft"))) for n in ("1", "5", "17")]
    return table("tokens in a cached forward | target | draft", *rows)


def shapes_table(shapes: list[dict]) -> str:
    """The costs of models with other shapes, as a table."""
    rows = []
    for e in shapes:
        costs = f"{e['parameters']:,}", f"{e['milliseconds']:.2f} ms", f"{e['training']:,.0f}"
        rows.append((e["layers"], e["width"], e["inner"], *costs))
    return table("layers | width | feed-forward | parameters | one token | tokens/s in training", *rows)


def first_table(acceptance: dict) -> str:
    """The acceptance of the first drafted token, and the divergences that determine it, as a table."""
    titles = {
        "gsd": "GSD accepts the first draft: 1 − D_TV",
        "ersd": "ERSD accepts the first draft, exact",
        "kl_bits": "D_KL(target, draft), bits",
        "target_entropy_bits": "entropy of the target, bits",
    }
    return table(" | mean | standard error", *_titled(acceptance, titles, "mean", "standard_error"))


def by_index_table(by_index: dict) -> str:
    """The acceptance by child index, as a table."""
    rows = [(name.upper(), *(f"{rate:.3f}" for rate in rates)) for name, rates in by_index.items()]
    return table("child index | " + " | ".join(map(str, range(8))), *rows)


def blocks_table(blocks: dict) -> str:
    """The block efficiency of both methods on both topologies, as a table."""
    rows = [
        (
            name,
            *(
                f"{cell['mean']:.2f} ± {cell['standard_error']:.2f}"
                for cell in (blocks["gsd"][name], blocks["ersd"][name])
            ),
        )
        for name in blocks["gsd"]
    ]
    return table("tokens per target call | GSD | ERSD", *rows)


def quoted(sample: dict) -> str:
    """A sample text as a Markdown quotation."""
    lines = (f"> {line}".rstrip() for line in sample["text"].split("\n"))
    return f"Seed {sample['seed']}:\n\n" + "\n".join(lines)
