"""A pair of models in memory: a target and its draft. The module `loading` loads pairs by name or path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from specdec.chat import chat_ids, chat_text
from specdec.checks import cause_of, integer
from specdec.devices import processor
from specdec.text import TokenTexts, check_own

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from specdec.models import Model

_MOST_PADDING = 1024
"""Two models may share a vocabulary although their numbers of logits differ by up to this many, because
models of one family pad their logits to different multiples."""

_TOKENIZER_METHODS = ("__call__", "get_vocab", "get_added_vocab", "decode", "convert_ids_to_tokens")


@runtime_checkable
class Pair(Protocol):
    """What a `ModelPair` has in common with pairs whose models load later or run on another machine."""

    target: Model
    draft: Model | None
    tokenizer: Any | None
    measurements: dict[Any, Any]
    learned: dict[str, Any]

    @property
    def arithmetic(self) -> str:
        """A description of how logits are computed on this machine; see `ModelPair.arithmetic`."""

    @property
    def chats(self) -> bool:
        """Whether the tokenizer has a chat template."""

    def encode(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt."""

    def chat_prompt(self, message: str, history: Sequence[str] = ()) -> list[int]:
        """Token ids of a user's message after an earlier conversation, as the chat template writes them."""


class ModelPair:
    """A target and its draft, ready to decode.

    target, draft: models of `models`, or Hugging Face causal models, which are wrapped. A pair without a
    draft decodes autoregressively only. tokenizer: a Hugging Face tokenizer; without one, prompts are token
    ids and texts are empty. draft_tokenizer: the draft's own. If its vocabulary differs from the target's,
    `draft` becomes an `OtherTokenizerModel`, which proposes the tokens whose strings both tokenizers have.

    eos_ids: the tokens that end a text, from tokenizer and generation settings when the pair is made.
    vocab_size: 1 + the tokenizer's largest id, but at most the number of ids that the target scores; padded
    logits do not count. ValueError if draft and target score different tokens. After a model in memory has
    changed, for example by training, call `refresh`. A pair can be pickled if its models can; unpickling
    checks the models again.
    """

    def __init__(
        self,
        target: Model | PreTrainedModel,
        draft: Model | PreTrainedModel | None = None,
        tokenizer: Any | None = None,
        draft_tokenizer: Any | None = None,
    ):
        self.target = _wrapped(target)
        self.draft = None if draft is None else _wrapped(draft)
        _check_tokenizer(tokenizer)
        self.tokenizer: Any = tokenizer  # None or a tokenizer of transformers, which is not typed
        if self.draft is not None:
            self.draft = over_ids_of(self.target, self.draft, tokenizer, draft_tokenizer)
        self.eos_ids = _eos_ids(self.target, tokenizer)
        self.vocab_size = self._shared_vocab_size()
        self.token_texts = TokenTexts(tokenizer)
        self.measurements: dict[Any, Any] = {}  # measured acceptance, by method and sampling
        self.learned: dict[str, Any] = {}  # what method "auto" measured in earlier runs

    @property
    def drafting(self) -> Model:
        """The draft; ValueError if there is none."""
        if self.draft is None:
            raise ValueError("this pair has no draft model")
        return self.draft

    def refresh(self) -> None:
        """Prepare and check both models as when they were loaded, and forget what earlier runs measured.

        Call it after a change of weights, dtype, device, modules or hooks of a model in memory. Raises the
        errors of `HFModel.refresh`.
        """
        for model in (self.target, self.draft):
            getattr(model, "refresh", lambda: None)()
        self.measurements.clear()
        self.learned.clear()

    def encode(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt. An empty text becomes the token that texts begin with.

        A special token's string, such as `<|im_end|>`, becomes that token, as in transformers, so that a
        caller can write a chat template by hand. `chat_prompt` keeps such strings in other people's messages
        as text. ValueError if there is no tokenizer for a text, if an id is not in the vocabulary, or if an
        empty prompt gives no token to begin with.
        """
        ids = self._encode_text(prompt) if isinstance(prompt, str) else _token_ids(prompt)
        ids = [_checked_id(token_id, self.vocab_size) for token_id in ids]
        if not ids:
            texts_begin = "the tokenizer has no token to begin with"
            cause = texts_begin if isinstance(prompt, str) else "no id is given"
            raise ValueError(f"the prompt is empty and {cause}; give a prompt with some text or an id")
        return ids

    @property
    def arithmetic(self) -> str:
        """How logits are computed on this machine, for records; "" for tables, which are exact.

        If this description is equal on two machines, a seed gives the same text on both.
        """
        models: tuple[tuple[str, Any], ...] = (("target", self.target), ("draft", self.draft))
        parts = [f"{role}: {model.arithmetic}" for role, model in models if hasattr(model, "arithmetic")]
        return "; ".join([*parts, processor()]) if parts else ""

    @property
    def chats(self) -> bool:
        """Whether the tokenizer has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def chat_text(self, message: str, history: Sequence[str] = ()) -> str:
        """A user's message as the chat template writes it, followed by the template's beginning of an answer.

        history: the earlier conversation, a text for each message, by the user and the model in turn.
        ValueError if the pair's tokenizer has no template.
        """
        _check_messages(message, history)
        return chat_text(self.tokenizer, message, history)

    def chat_prompt(
        self, message: str, history: Sequence[str] = (), *, control_tokens: bool = False
    ) -> list[int]:
        """Token ids of `chat_text`: the prompt with which a chat model answers this message.

        control_tokens: whether the string of a control token in a message, such as `<|im_end|>`, becomes this
        token, as in transformers. By default it stays text, so that a message can't end its own turn.
        ValueError if the pair's tokenizer has no template.
        """
        # the template itself writes the token that texts begin with
        split = partial(self._split, add_special_tokens=False)
        if control_tokens:
            return self.encode(split(self.chat_text(message, history)))
        _check_messages(message, history)
        return self.encode(chat_ids(self.tokenizer, split, message, history))

    def _encode_text(self, prompt: str) -> list[int]:
        if self.tokenizer is None:
            raise ValueError("the prompt is text, but this pair has no tokenizer; give a list of token ids")
        _check_whole(prompt)
        ids = self._split(prompt)
        if not ids:
            start = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
            ids = [token_id for token_id in start if token_id is not None][:1]
        return ids

    def _split(self, text: str, **options: Any) -> list[int]:
        try:
            return list(self.tokenizer(text, **options)["input_ids"])
        except BaseException as error:  # tokenizers written in Rust raise a plain Exception, or panic
            check_own(error)
            cause = cause_of(error)
            raise ValueError(f"this pair's tokenizer can't split the prompt: {cause[:200]}") from error

    def _shared_vocab_size(self) -> int:
        sizes = [model.vocab_size for model in (self.target, self.draft) if model is not None]
        tokens = min(sizes) if self.tokenizer is None else self._tokens(sizes[0])
        if (
            max(sizes) - min(sizes) > (_MOST_PADDING if self.tokenizer is not None else 0)
            or min(sizes) < tokens
        ):
            more = "" if self.tokenizer is None else f", the tokenizer has {tokens:,}"
            draft = "" if self.draft is None else f", the draft {sizes[-1]:,}"
            raise ValueError(
                f"the target scores {sizes[0]:,} tokens{draft}{more}; all must share one vocabulary "
                "(padding of the logits aside)"
            )
        return tokens

    def _tokens(self, scored: int) -> int:
        """The number of token ids: 1 + the largest id of the tokenizer or of an end-of-text token.

        scored: the number of ids that the target scores. Added tokens that it does not score are left out.
        If it does not score an ordinary token, the result exceeds `scored`, and the caller refuses the pair.
        """
        ids = self.tokenizer.get_vocab()
        added = self.tokenizer.get_added_vocab()
        if all(ids[token] < scored for token in ids.keys() - added.keys()):
            ending = [token_id for token_id in self.eos_ids if token_id < scored]
            if self.tokenizer.eos_token_id is not None and not ending:
                raise ValueError(
                    f"no text would end: the tokenizer ends texts with {self.tokenizer.eos_token!r}, id "
                    f"{self.tokenizer.eos_token_id:,}, but the target scores {scored:,} tokens"
                )
            return min(scored, 1 + max((*ids.values(), *ending)))
        return 1 + max(ids.values())

    def __repr__(self) -> str:
        draft = "none" if self.draft is None else self.draft.name
        return f"ModelPair(target={self.target.name}, draft={draft}, vocab_size={self.vocab_size})"


def _wrapped(model: Any) -> Model:
    if hasattr(model, "session"):
        return model
    # imported only here, so that pairs of tables do not wait for transformers
    from transformers import PreTrainedModel

    from specdec.models import HFModel

    if not isinstance(model, PreTrainedModel):
        raise ValueError(
            f"{_short_text(model)} can't be used as a model: give a Hugging Face causal language model in "
            "memory, or load one with load_pair"
        )
    return HFModel(model)


def _check_tokenizer(tokenizer: Any | None) -> None:
    """ValueError if a tokenizer lacks a method that a pair needs, as some classes of transformers do."""
    if tokenizer is None:
        return
    lacking = [name for name in _TOKENIZER_METHODS if not callable(getattr(tokenizer, name, None))]
    if lacking or isinstance(tokenizer, type):
        raise ValueError(
            f"{_short_text(tokenizer)} is not a tokenizer of a language model"
            + (f", it has no {lacking[0]}" if lacking else "")
            + ": give one of Hugging Face in memory"
        )


def _short_text(value: Any) -> str:
    """A value in one short line, for error messages."""
    return " ".join(repr(value).split())[:80]


def over_ids_of(target: Model, draft: Model, tokenizer: Any | None, draft_tokenizer: Any | None) -> Model:
    """A draft that scores the target's ids: `draft`, or an `OtherTokenizerModel` if vocabularies differ.

    tokenizer: the target's. ValueError if a tokenizer is missing or unsuitable, or if the vocabularies share
    no token.
    """
    if draft_tokenizer is None:
        return draft
    for each in (tokenizer, draft_tokenizer):
        _check_tokenizer(each)
    if tokenizer is None:
        raise ValueError("draft_tokenizer is given, but not tokenizer, the target's own: give both")
    if len(tokenizer) == len(draft_tokenizer) and tokenizer.get_vocab() == draft_tokenizer.get_vocab():
        return draft
    from specdec.models.other_tokenizer import OtherTokenizerModel

    return OtherTokenizerModel(draft, tokenizer, draft_tokenizer, target.vocab_size)


def _eos_ids(target: Model, tokenizer: Any | None) -> frozenset[int]:
    """The tokens that end a text: the tokenizer's, and those in the target's generation settings."""
    generation = getattr(target, "generation_config", None)
    places = {"the model's generation settings": generation, "the tokenizer": tokenizer}
    ids = (_ids(where, getattr(holder, "eos_token_id", None)) for where, holder in places.items())
    return frozenset(chain.from_iterable(ids))


def _ids(where: str, ids: Any) -> list[int]:
    """`ids` (None, one id or several) as a list; negative ids mean "no token" and are left out."""
    several = [] if ids is None else list(ids) if isinstance(ids, list | tuple) else [ids]
    numbers = [integer(each) for each in several]
    if None in numbers:
        raise ValueError(f"{where}: eos_token_id = {ids!r} is neither a token id nor a list of them")
    return [number for number in numbers if number is not None and number >= 0]


def _check_messages(message: str, history: Sequence[str]) -> None:
    """ValueError if a message is not text, or if the history does not end with a message by the model."""
    texts = isinstance(history, Sequence) and all(isinstance(each, str) for each in history)
    if isinstance(history, str) or not texts or len(history) % 2:
        raise ValueError(
            f"history = {history!r:.60} is not a list of texts by the user and the model in turn, of which "
            "the model's is the last"
        )
    if not isinstance(message, str):
        raise ValueError(f"message = {message!r:.60} is not text")
    for each in (*history, message):
        _check_whole(each)


def _check_whole(prompt: str) -> None:
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the prompt holds half a character, {prompt[error.start]!r}, at character {error.start}; remove "
            f"it"
        ) from error


def _checked_id(token_id: int, vocab_size: int) -> int:
    number = integer(token_id)
    if number is None or not 0 <= number < vocab_size:
        raise ValueError(f"prompt token id {token_id!r} is not in the vocabulary, 0 to {vocab_size - 1:,}")
    return number


def _token_ids(prompt: Any) -> list[Any]:
    """The token ids of a prompt as a list. prompt: a sequence, or an array or a tensor [n] or [1, n]."""
    if hasattr(prompt, "tolist"):
        shape = tuple(prompt.shape)
        if len(shape) != 1 and not (len(shape) == 2 and shape[0] == 1):
            raise ValueError(f"prompt has shape {shape}; one prompt is needed, [n] or [1, n]")
        prompt = prompt.reshape(-1).tolist()
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)):
        raise ValueError(f"prompt = {prompt!r} is neither text nor a list of token ids")
    return list(prompt)
