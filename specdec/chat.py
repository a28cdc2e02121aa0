"""Prompts of chat models. Only the chat template writes control tokens; messages stay plain text.

A tokenizer turns the string of a special token, such as `<|im_end|>`, into that token wherever the string
occurs. Inside a message this token would end the user's turn and begin another turn. `chat_ids` therefore
cuts such a string inside a message in two, and tokenizes the two parts separately. Everything else is
tokenized as one text, because one token may join the end of the template with the beginning of a message.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import chain, cycle
from typing import Any

from specdec.checks import cause_of
from specdec.text import SPACE

Split = Callable[[str], list[int]]
"""A function from a text to its token ids, without a beginning-of-text token."""

Turn = dict[str, Any]
"""A message in the form that templates read: its role and its content."""


def chat_text(tokenizer: Any, message: str, history: Sequence[str] = ()) -> str:
    """The text that a chat model reads for the user's `message`, up to the place where its answer begins.

    history: earlier messages, by the user and the model in turn.

    ValueError if the tokenizer has no chat template, or if the template fails or gives no valid text. (A
    template is a program that comes with the model.)
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("this pair's tokenizer has no chat template; use the prompt as it is")
    turns = _turns((*history, message))
    words = message.strip()
    text, error = _rendered(tokenizer, turns)
    # some templates read each message as a list of parts, each with a type and a text
    if text is None or words not in text:
        parts = [turn | {"content": [{"type": "text", "text": turn["content"]}]} for turn in turns]
        of_parts, _ = _rendered(tokenizer, parts)
        if of_parts is not None and words in of_parts:
            return of_parts
    if text is None:
        assert error is not None, "a template without a text has an error"
        raise ValueError(
            f"the chat template of this pair's tokenizer fails: {cause_of(error)[:200]}"
        ) from error
    return text


def chat_ids(tokenizer: Any, split: Split, message: str, history: Sequence[str] = ()) -> list[int]:
    """Token ids of the text of `chat_text`, in which no part of a message becomes a control token.

    split: tokenizes a text; the string of a special token becomes this token. If no message contains such a
    string, the result is `split(chat_text(...))`. ValueError as for `chat_text`.
    """
    messages = (*history, message)
    mark = _unused_character("".join(messages))
    controls = _Controls(tokenizer, split, user=True), _Controls(tokenizer, split, user=False)
    cut = [mark.join(own.parts(message)) for own, message in zip(cycle(controls), messages, strict=False)]
    first, *following = chat_text(tokenizer, cut[-1], cut[:-1]).split(mark)
    return list(chain(split(first), *map(controls[0].inside, following)))


def _turns(messages: Sequence[str]) -> list[Turn]:
    roles = cycle(("user", "assistant"))
    return [{"role": role, "content": message} for role, message in zip(roles, messages, strict=False)]


def _rendered(tokenizer: Any, turns: list[Turn]) -> tuple[str | None, Exception | None]:
    """The text that the template makes; None and the error if the template fails."""
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        text.encode()  # raises if the text has half of a surrogate pair
    except Exception as error:
        return None, error
    return text, None


def _unused_character(text: str) -> str:
    """A private-use character that does not occur in the text."""
    return next(char for char in map(chr, range(0xE000, 0xF8FF)) if char not in text)


class _Controls:
    """The control tokens of a tokenizer, as strings and as ids.

    They are its special tokens. In a user's message, added tokens that the chat template names count too,
    because some models mark turns with them. In a model's own answer they do not count: they may surround the
    model's thoughts, and the template looks for them.
    """

    def __init__(self, tokenizer: Any, split: Split, user: bool):
        self._tokenizer, self._split = tokenizer, split
        template = str(tokenizer.chat_template)
        tokens = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
        for number, token in getattr(tokenizer, "added_tokens_decoder", {}).items():
            if token.special or (user and token.content in template):
                tokens[number] = token.content
        # a single character can't be cut, and it is always tokenized as the same token
        self._tokens = {number: token for number, token in tokens.items() if len(token) > 1}
        longest_first = sorted(self._tokens.values(), key=len, reverse=True)
        self._strings = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        # the id of the unknown token says nothing: any unknown word has this id
        self._ids = self._tokens.keys() - {getattr(tokenizer, "unk_token_id", None)}

    def parts(self, message: str) -> list[str]:
        """The message in parts. The tokenizer finds no control token in any of them."""
        cuts = [match.start() + 1 for match in self._strings.finditer(message)]
        ends = zip([0, *cuts], [*cuts, len(message)], strict=True)
        return list(chain.from_iterable(self._split_controls(message[begin:end]) for begin, end in ends))

    def inside(self, part: str) -> list[int]:
        """The ids of a part inside a text, without the space that tokenizers may put before a text."""
        for number, token in self._tokens.items():
            ids = self._split(token + part)
            if ids[:1] == [number]:
                return self._without_space(part, ids[1:])
        return self._split(part)

    def _split_controls(self, part: str) -> list[str]:
        """Cuts a part within each control token that the tokenizer still finds in it. The search for strings
        misses control tokens if the tokenizer normalizes a text before it looks for them."""
        parts = []
        while self._holds(part):
            end = bisect_left(range(len(part)), True, key=lambda length: self._holds(part[:length]))
            begin = bisect_left(range(end), True, key=lambda start: not self._holds(part[start:end])) - 1
            parts.append(part[: begin + 1])
            part = part[begin + 1 :]
        return [*parts, part]

    def _holds(self, text: str) -> bool:
        return bool(text) and not self._ids.isdisjoint(self._split(text))

    def _without_space(self, part: str, ids: list[int]) -> list[int]:
        """The ids without the space that some tokenizers write after every special token."""
        token = self._tokenizer.convert_ids_to_tokens(ids[0]) if ids else ""
        if not token.startswith(SPACE) or part.startswith((" ", SPACE)):
            return ids
        letters = self._tokenizer.convert_tokens_to_ids(list(token[1:]))
        unknown = {None, getattr(self._tokenizer, "unk_token_id", None)}
        return ids if unknown.intersection(letters) else [*letters, *ids[1:]]
