"""A draft model with another tokenizer, made to score the target's ids.

Its q is the draft's distribution, restricted to tokens whose strings both tokenizers have, and renormalised.
All other ids have the logit -inf. Any q is allowed, so drafting and verification are the usual ones, and the
text keeps the target's distribution. Under ERSD, it is the same text as with any other draft.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specdec.devices import upload
from specdec.models.base import Capability, Model
from specdec.models.other_tokenizer.contexts import Context, Retokenizer
from specdec.models.other_tokenizer.strings import Strings, shared_ids
from specdec.models.requests import Request, Requesting, answered

WORTHWHILE = 0.2
"""If a draft's `shared_mass` is below this, decoding with the draft is slower than plain decoding."""


class OtherTokenizerModel:
    """A `Model` over the target's ids that runs a draft model with another tokenizer.

    draft: the model over its own ids. vocab_size: the number of ids that the target scores. shared_ids: the
    target's ids that the draft can propose, int64 [n]. shared_mass: the target's mean probability on these
    ids, an upper bound of the acceptance with any method; None until `decoding.shared_mass` measures it.
    Other attributes are the draft's. The draft reads only the end of a text that exceeds its context.
    ValueError if the tokenizers share no token.
    """

    context_length = sys.maxsize
    capability: Capability
    device: torch.device
    shared_mass: float | None = None

    def __init__(self, draft: Model, target_tokenizer: Any, draft_tokenizer: Any, vocab_size: int):
        self.draft, self.tokenizer, self.vocab_size = draft, draft_tokenizer, vocab_size
        self.name = draft.name
        target_strings, draft_strings = Strings.of(target_tokenizer), Strings.of(draft_tokenizer)
        ours, theirs = shared_ids(target_strings, draft_strings, vocab_size, draft.vocab_size)
        if not ours:
            raise ValueError(f"{draft.name} can't draft for this target: their tokenizers share no token")
        self.shared_ids, self._draft_ids = torch.tensor(ours), torch.tensor(theirs)
        self.retokenizer = Retokenizer(
            target_strings, draft_strings, target_tokenizer, draft_tokenizer, draft.vocab_size
        )
        self._backwards = Retokenizer(
            draft_strings, target_strings, draft_tokenizer, target_tokenizer, vocab_size
        )

    def __getattr__(self, name: str) -> Any:
        if name == "draft" or name.startswith("__"):  # not set yet while an object is copied or unpickled
            raise AttributeError(name)
        return getattr(self.draft, name)

    @property
    def note(self) -> str:
        """Sentences for the user: how many tokens the draft can propose, and the draft's own note."""
        words = f"It has another tokenizer, and can propose {len(self.shared_ids):,} of the target's tokens"
        if self.shared_mass is not None:
            words += f", to which the target gives {self.shared_mass:.0%} of its probability"
            if self.shared_mass < WORTHWHILE:
                words += ". That is too little for this draft to pay: plain decoding is faster"
        return f"{words}. {getattr(self.draft, 'note', '')}".strip()

    def to(self, device: str | torch.device) -> OtherTokenizerModel:
        """Moves the draft to another device; see `HFModel.to`."""
        draft: Any = self.draft
        draft.to(device)
        return self

    def session(self) -> OtherTokenizerSession:
        """A new session with an empty cache."""
        return OtherTokenizerSession(self)

    def target_ids(self, draft_ids: Sequence[int]) -> Sequence[int]:
        """The target's tokens for the text of these draft tokens, encoded as the middle of a longer text."""
        context = self._backwards.after(Context(()), draft_ids)
        return self._backwards.ids(context) if any(context) else ()

    def spread(self, logits: Tensor) -> Tensor:
        """Logits over the target's ids [n, vocab_size], made from logits over the draft's ids."""
        if self.shared_ids.device != logits.device:
            self.shared_ids, self._draft_ids = (
                ids.to(logits.device) for ids in (self.shared_ids, self._draft_ids)
            )
        full = logits.new_full((len(logits), self.vocab_size), -torch.inf)
        full[:, self.shared_ids] = logits[:, self._draft_ids]
        return full


class OtherTokenizerSession:
    """A session over target tokens. The draft's own session holds the words that have ended.

    The draft tokens of the last word may still change. They are pending nodes of the draft's session, which
    scores them again each round. If the draft tokens of two nodes begin alike, this beginning is scored once.

    length: number of committed target tokens.
    """

    must_catch_up = False

    def __init__(self, model: OtherTokenizerModel):
        self.model, self.length = model, 0
        self._session = model.draft.session()
        self._final_ids: list[int] = []  # draft ids of the words that have ended
        self._first = 0  # the index in `_final_ids` of the draft session's first token
        self._context = model.retokenizer.start  # the text after `_final_ids`
        self._contexts: list[Context] = []  # the context of each pending node
        self._forget_scored()

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed text, and score its finished words with the draft."""
        self.append(token_ids)
        self._settle(unscored_too=True)

    def append(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed text. The draft scores them in its next forward pass."""
        assert not self._contexts, "tokens are appended while nodes are pending"
        self.length += len(token_ids)
        self._context = self.model.retokenizer.after(self._context, token_ids)
        self._settle()

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes; return the logits [n, vocab_size] of the token after each."""
        return answered(self.scoring(token_ids, parents))

    def scoring(self, token_ids: Tensor, parents: Sequence[int]) -> Requesting[Tensor]:
        """`forward` as a generator of the draft's requests, so that several texts share forward passes."""
        first = len(self._contexts)
        for token_id, parent in zip(token_ids.tolist(), parents, strict=True):
            above = self._context if parent < 0 else self._contexts[parent]
            self._contexts.append(self.model.retokenizer.after(above, [token_id]))
        paths = [self._path(context) for context in self._contexts[first:]]
        together = len(paths) if self.model.draft.capability == "tree" else 1
        rows: list[Tensor] = []
        for start in range(0, len(paths), together):
            rows += yield from self._score(paths[start : start + together])
        return self.model.spread(torch.stack(rows))

    def commit(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, each a child of the one before, and drop all others."""
        if nodes:
            self._context = self._contexts[nodes[-1]]
        self.length += len(nodes)
        self._contexts = []
        self._settle()

    def following(self, draft_ids: Sequence[int]) -> Requesting[Tensor]:
        """The draft's logits over its own ids, [draft vocabulary], after the text and these draft tokens."""
        (logits,) = yield from self._score([self._path(self._context, draft_ids)])
        return logits

    def _path(self, context: Context, draft_ids: Sequence[int] = ()) -> tuple[int, ...]:
        """The draft ids to score after the draft's cache; only the last ones if its context is too short."""
        room = self.model.draft.context_length - self._session.length
        return (*self.model.retokenizer.ids(context), *draft_ids)[-room:]

    def _score(self, paths: Sequence[tuple[int, ...]]) -> Requesting[list[Tensor]]:
        """Logits [draft vocabulary] at the end of each path of draft ids. Unscored nodes are scored first."""
        if self.model.draft.capability != "tree" and not self._goes_on(paths[0]):
            self._session.commit(())  # a changed last word would be a branch, which this draft can't score
            self._forget_scored()
        tokens: list[int] = []
        parents: list[int] = []
        ends = []
        for path in paths:
            node = -1
            for token_id in path:
                key = node, token_id
                if key not in self._nodes:
                    self._nodes[key] = len(self._nodes)
                    tokens.append(token_id)
                    parents.append(node)
                node = self._nodes[key]
            ends.append(node)
        if tokens:
            logits = yield Request(self._session, upload(tokens, self.model.device), parents)
            self._logits += logits.unbind()
        return [self._logits[end] for end in ends]

    def _goes_on(self, path: Sequence[int]) -> bool:
        """Whether all scored nodes form one chain and this path begins with that chain's tokens."""
        return [*self._nodes] == [
            (number - 1, path[number]) for number in range(min(len(self._nodes), len(path)))
        ]

    def _settle(self, unscored_too: bool = False) -> None:
        """Commits tokens of finished words to the draft's cache: the scored ones, or all if `unscored_too`.

        The last token of the whole context stays pending, because its logits are needed.
        """
        draft_ids = self._context.ids
        final_ids = draft_ids[: len(self.model.retokenizer.ids(self._context)) - 1]
        scored, node = [], -1
        for token_id in final_ids:
            if (node, token_id) not in self._nodes:
                break
            node = self._nodes[node, token_id]
            scored.append(node)
        self._forget_scored()
        if not unscored_too:
            final_ids = final_ids[: len(scored)]
        self._context = self._context._replace(ids=draft_ids[len(final_ids) :])
        self._final_ids += final_ids
        third = max(1, self.model.draft.context_length // 3)
        if len(self._final_ids) - self._first >= 2 * third:
            self._first = (len(self._final_ids) // third - 1) * third
            self._session = self.model.draft.session()
            self._session.prefill(self._final_ids[self._first :])
            return
        self._session.commit(scored)
        if len(scored) < len(final_ids):
            self._session.prefill(final_ids[len(scored) :])

    def _forget_scored(self) -> None:
        self._nodes: dict[tuple[int, int], int] = {}  # numbers of scored nodes, by parent and draft id
        self._logits: list[Tensor] = []  # of each scored node, over the draft's ids
