"""Prompts of many kinds for a chat model, whose answers are the text that its draft learns from.

The last fifth of each list is held out and used for measuring only.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

HEROES = """
a dog who lost his ball; a small rabbit who was afraid of the dark; a girl who found a magic key
a boy and his kite; a bear who could not sleep; a mouse who wanted to fly; two friends who built a boat
a fox who told a lie; a duck who learned to sing; an old lighthouse keeper
a princess who did not like shoes; a robot who wanted a friend; a cat who lived in a bakery
a turtle who won a race; a little train that got lost; a dragon who could not breathe fire
a farmer and his clever horse; a snowman who wanted to see summer; a bird with a broken wing
a frog in a big city; a child who planted a strange seed; a king who forgot his name
a whale who was lonely; a squirrel who shared his nuts; a girl who talked to the moon
a boy who broke a window; a lost puppy in the rain; an elephant who was afraid of mice
a baker who made the best bread; a shy monster under the bed; a spider who wove a scarf
a pirate who was kind; a bee who got lost in a garden; a sheep that did not want to be counted
a wizard without a hat; a toy that came to life; a lion who wanted to be a painter
a penguin who moved to the desert; a grandmother and her secret recipe; a cloud that would not rain
a boy who could talk to animals; a family on a picnic; a wolf who wanted to be good
a star that fell from the sky; a hen who found a golden egg; a girl and her new bike
a knight who was afraid of heights; a snail on a long journey; a goat who ate a letter
a tree that could walk; twins on their first day of school; a crow who collected shiny things
a detective who was five years old; a fish who wanted to see the land; a clumsy giant
a donkey with a beautiful voice; a sailor and a storm; a boy who did not want to share
an owl who was afraid of the night; a ghost who liked to dance
"""

TOPICS = """
photosynthesis; gravity; the water cycle; how a computer works; why the sky is blue; the moon; volcanoes
electricity; how vaccines work; the internet; inflation; democracy; black holes; dinosaurs
how bread is made; recycling; the human heart; magnets; how airplanes fly; earthquakes; rainbows
supply and demand; the French Revolution; the Roman Empire; atoms; machine learning; a neural network
a language model; probability; fractions; prime numbers; the Pythagorean theorem; evolution; DNA
antibiotics; sleep; why leaves change color; the seasons; tides; climate change; solar power
how batteries work; the immune system; glaciers; coral reefs; honey bees; whales
the Great Wall of China; the printing press; the steam engine; the Renaissance; the Silk Road
photography; jazz music; chess; football; a balanced diet; vitamins; yoga; meditation; budgeting
compound interest; taxes; a mortgage; how to learn a language; how to write an essay
how to make friends; how to plant a garden; how to cook rice; how to train a dog; how to save money
how to read faster; Python programming; a for loop; a database; an algorithm; encryption
open source software; the cloud; a web browser; Shakespeare; poetry; the solar system; Mars; stars
telescopes; deserts; rain forests; friendship; honesty; courage; time; happiness; history; philosophy
art
"""

TASKS = """
Write a short poem about {topic}.; List five facts about {topic}.; Give me three tips about {topic}.
What is the most important thing about {topic}?; Write an email to a friend about {topic}.
What are the pros and cons of {topic}?; Summarize {topic} in one sentence.
Write a short dialogue between two people about {topic}.
What questions would a child ask about {topic}?; Plan a lesson about {topic}.
Give an example of {topic}.; Why is {topic} important?; What should a beginner know about {topic}?
Who should learn about {topic}?; Describe {topic} to an alien.; What is the history of {topic}?
"""

EXPLAIN = """
Explain {topic} in simple words.; What is {topic}?; Explain {topic} to a five year old.
Can you explain {topic}?; Tell me about {topic}.; How would you explain {topic} to a friend?
Give a short explanation of {topic}.; I do not understand {topic}. Can you help me?
"""

TELL = """
Write a short story for a small child about {hero}.; Tell me a story about {hero}.
Write a story about {hero}.; Tell a short bedtime story about {hero}.
Once upon a time there was {hero}. What happened next?; Please write a funny story about {hero}.
Write a children's story about {hero}, with a happy ending.; I would like to hear a story about {hero}.
"""

CHATS = """
Hello! How are you?; What is the capital of France?; What should I cook for dinner tonight?
Can you recommend a good book?; I feel sad today. What can I do?; Plan a weekend trip to the sea.
How do I prepare for a job interview?; Write a birthday message for my mother.
What is the difference between a cat and a dog?; Help me name my new puppy.; What is 17 plus 25?
Give me ideas for a school project.; How can I sleep better?; Write a haiku about autumn.
Suggest three healthy breakfasts.; What is your name?; How do I remove a coffee stain?
Which planet is the largest?; Tell me a joke.; How do I boil an egg?; What does a software engineer do?
Write a thank you note to a teacher.; How many days are in a leap year?; What can I do on a rainy day?
Write a Python function that adds two numbers.; Translate "good morning" into Spanish.
How do plants drink water?; What makes a good leader?; What are the colors of the rainbow?
Give me a recipe for pancakes.; Why do we dream?; How can I be more confident?
"""

FOLLOW_UPS = (
    "Tell me more.",
    "Thank you! Can you give me an example?",
    "Can you say that in simpler words?",
    "What happened next?",
    "Please make it shorter.",
    "Why?",
    "Can you write another one?",
    "That is interesting. What else should I know?",
)

KINDS = (
    *("story", "free", "explanation", "continuation", "story", "free", "task", "story"),
    *("story", "free", "explanation", "continuation", "chat", "free", "task", "story"),
)
"""What the rows of a batch are, in turn. free: the model writes the user's turns too."""
SYSTEM = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
)
ASK, ANSWER = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"


def listed(text: str) -> list[str]:
    """The entries of one of the lists above."""
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split(";")]


def part(entries: Sequence[str], held_out: bool) -> Sequence[str]:
    """The entries to train on, or the last fifth, which is held out."""
    cut = len(entries) * 4 // 5
    return entries[cut:] if held_out else entries[:cut]


class Prompts:
    """Draws prompts of each kind.

    stories: texts whose beginnings are to be continued. held_out: use the last fifth of each list.
    """

    def __init__(self, stories: Sequence[str], seed: int, held_out: bool = False):
        self.random = random.Random(seed)
        self.heroes, self.topics, self.chats = (
            part(listed(text), held_out) for text in (HEROES, TOPICS, CHATS)
        )
        self.stories = part(stories, held_out)

    def first(self, kind: str) -> str:
        """The text with which a row of this kind begins."""
        if kind == "continuation":
            return self._beginning()
        return SYSTEM + ASK + ("" if kind == "free" else self._question(kind) + ANSWER)

    def next(self, kind: str) -> str:
        """The text that follows the end of an answer of this kind."""
        if kind == "continuation":
            return self._beginning()
        if kind == "free":
            return "\n" + ASK
        again = self.random.random() < 0.5
        question = self._question(kind) if again else self.random.choice(FOLLOW_UPS)
        return "\n" + ASK + question + ANSWER

    def _question(self, kind: str) -> str:
        choose = self.random.choice
        if kind == "story":
            return choose(listed(TELL)).format(hero=choose(self.heroes))
        if kind == "chat":
            return choose(self.chats)
        return choose(listed(EXPLAIN if kind == "explanation" else TASKS)).format(topic=choose(self.topics))

    def _beginning(self) -> str:
        words = self.random.choice(self.stories).split(" ")
        return " ".join(words[: self.random.randint(1, 30)])
