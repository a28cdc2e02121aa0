"""Prompts of many kinds for a chat model. Its draft learns from the answers.

The prompts are made from the lists in `prompts.txt`. The last fifth of the heroes, topics and chats is used
only for measuring, so new entries must be added at the front of these lists.
"""

import random
from collections.abc import Sequence
from pathlib import Path

END = "<|endoftext|>"  # the separator between the texts in a file of stories
KINDS = (
    *("story", "free", "explanation", "continuation", "story", "free", "task", "story"),
    *("story", "free", "explanation", "continuation", "chat", "free", "task", "story"),
)
"""The kinds of prompts, which the rows of a record get in turn. free: the model writes user turns too."""
SYSTEM = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
)
ASK, ANSWER = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"


def read_stories(path: Path) -> list[str]:
    """The texts of a file of stories. ValueError if there is no such file."""
    if not path.is_file():
        raise ValueError(f"stories = {str(path)!r} is not a file of texts")
    return [text.strip() for text in path.read_text(encoding="utf-8").split(END) if text.strip()]


def _lists() -> dict[str, list[str]]:
    """The lists in `prompts.txt`: {name of the list: its entries}."""
    sections = Path(__file__).with_name("prompts.txt").read_text(encoding="utf-8").split("[")[1:]
    parts = (section.partition("]") for section in sections)
    return {
        name: [entry.strip() for entry in text.replace("\n", ";").split(";") if entry.strip()]
        for name, _, text in parts
    }


LISTS = _lists()


class Prompts:
    """Draws random prompts of each kind.

    stories: texts whose beginnings become prompts. held_out: whether only the last fifth of the stories,
    heroes, topics and chats is used; if not, only the rest is.
    """

    def __init__(self, stories: Sequence[str], seed: int, held_out: bool = False):
        def part(entries: Sequence[str]) -> Sequence[str]:
            cut = len(entries) * 4 // 5
            return entries[cut:] if held_out else entries[:cut]

        self.random, self.stories = random.Random(seed), part(stories)
        self.lists = LISTS | {name: part(LISTS[name]) for name in ("heroes", "topics", "chats")}

    def first(self, kind: str) -> str:
        """The prompt with which a row of this kind begins."""
        if kind == "continuation":
            return self._beginning()
        return SYSTEM + ASK + ("" if kind == "free" else self._question(kind) + ANSWER)

    def next(self, kind: str) -> str:
        """The text that follows the end of an answer in a row of this kind."""
        if kind == "continuation":
            return self._beginning()
        if kind == "free":
            return "\n" + ASK
        is_question = self.random.random() < 0.5
        return "\n" + ASK + (self._question(kind) if is_question else self._one_of("follow-ups")) + ANSWER

    def _one_of(self, name: str) -> str:
        return self.random.choice(self.lists[name])

    def _question(self, kind: str) -> str:
        if kind == "story":
            return self._one_of("tell").format(hero=self._one_of("heroes"))
        if kind == "chat":
            return self._one_of("chats")
        template = self._one_of("explain" if kind == "explanation" else "tasks")
        return template.format(topic=self._one_of("topics"))

    def _beginning(self) -> str:
        words = self.random.choice(self.stories).split(" ")
        return " ".join(words[: self.random.randint(1, 30)])
