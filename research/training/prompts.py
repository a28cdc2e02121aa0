"""Prompts of many kinds for a chat model, whose answers are the text that its draft learns from.

The last fifth of each list is held out and used for measuring only, so new entries go to the front.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

HEROES = """
a girl who built a paper boat; a boy who found an egg; a kitten stuck in a tree; a chef who burned the soup
an ant and a grasshopper; a queen who loved to garden; a camel who missed the rain; a small boat in a big sea
a rooster who overslept; a girl who was new at school; a bear and a jar of honey; a boy who lost his tooth
a rabbit who baked a cake; a parrot who told the truth; a child at the zoo; a witch who lost her broom
a family of mice in an old clock; a scarecrow with no friends; a hedgehog who wanted a hug
an old man and his violin; a girl and a talking river; a fireman and his dog; a lamb who followed a butterfly
a boy who was afraid of water; a magic paintbrush; a ladybug without spots; a mountain that sneezed
two brothers and a treasure map; a moose in a small car; a little star on a Christmas tree
a girl who collected stones; a lonely lamp; a monkey who stole bananas; a seal and a beach ball
a boy and his grandfather; a doctor for teddy bears; a bus that wanted to fly; a kind shark
a goose who could not swim; a garden full of secrets; a girl who never said please; a brave caterpillar
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
friction; sound; light; a microscope; oxygen; carbon; the periodic table; acids and bases; a lever; rust
clouds; thunder and lightning; snow; wind power; nuclear energy; oil; plastic; steel; glass; paper; cells
bacteria; viruses; the brain; the lungs; blood; muscles; bones; the eye; memory; stress; a fever; sharks
elephants; penguins; butterflies; spiders; dogs; cats; horses; bats; owls; ants; mushrooms; cactus plants
oceans; rivers; mountains; islands; the Sahara; Antarctica; Africa; Japan; Brazil; India; Canada; London
Paris; the Olympic Games; World War II; the Cold War; ancient Egypt; ancient Greece; the Middle Ages
the Vikings; the moon landing; Albert Einstein; Isaac Newton; Marie Curie; Leonardo da Vinci; Mozart
Charles Darwin; Abraham Lincoln; Nelson Mandela; human rights; the United Nations; a constitution
elections; a court; trade; money; a bank; the stock market; insurance; marketing; a startup
a business plan; leadership; teamwork; a resume; time management; a good habit; public speaking
writing a novel; grammar; metaphors; rhetoric; drawing; painting; sculpture; ballet; the piano; the guitar
rock music; opera; film; theater; architecture; tennis; swimming; running; basketball; hiking; camping
fishing; sailing; cycling; skiing; travel; hotels; pizza; coffee; tea; chocolate; cheese; soup; salad
breakfast; vegetables; sugar; salt; baking a cake; a list in Python; recursion; sorting; a hash table
object-oriented programming; HTML; SQL; a function; a bug; testing software; an operating system
a processor; memory in a computer; a smartphone; email; passwords; robots; artificial intelligence
self-driving cars; virtual reality; 3D printing; satellites; GPS; radar; lasers; calculus; algebra
geometry; statistics; the mean and the median; infinity; logic; a proof; graphs; matrices; love; anger
fear; kindness; trust; jealousy; forgiveness; grief; a family; growing up; old age; a good teacher
cleaning the house; washing clothes; fixing a bike; moving to a new city; buying a car; a first date
a wedding; babies; school; homework; university; exams; a library; a museum; a zoo; a garden; a farm
a village; a big city; photosynthesis; gravity; the water cycle; how a computer works; why the sky is blue
the moon; volcanoes; electricity; how vaccines work; the internet; inflation; democracy; black holes
dinosaurs; how bread is made; recycling; the human heart; magnets; how airplanes fly; earthquakes
rainbows; supply and demand; the French Revolution; the Roman Empire; atoms; machine learning
a neural network; a language model; probability; fractions; prime numbers; the Pythagorean theorem
evolution; DNA; antibiotics; sleep; why leaves change color; the seasons; tides; climate change
solar power; how batteries work; the immune system; glaciers; coral reefs; honey bees; whales
the Great Wall of China; the printing press; the steam engine; the Renaissance; the Silk Road; photography
jazz music; chess; football; a balanced diet; vitamins; yoga; meditation; budgeting; compound interest
taxes; a mortgage; how to learn a language; how to write an essay; how to make friends
how to plant a garden; how to cook rice; how to train a dog; how to save money; how to read faster
Python programming; a for loop; a database; an algorithm; encryption; open source software; the cloud
a web browser; Shakespeare; poetry; the solar system; Mars; stars; telescopes; deserts; rain forests
friendship; honesty; courage; time; happiness; history; philosophy; art
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
What is the tallest mountain in the world?; Who wrote Romeo and Juliet?; How far away is the moon?
Give me a workout plan for beginners.; What should I wear in cold weather?; How do I write a cover letter?
I am bored. What can I do?; What is your favorite color?; Can you help me with my homework?
Write a short speech for a wedding.; How do I make a good cup of coffee?; What are good gifts for a friend?
How can I learn to swim?; What is the population of China?; Who was the first man on the moon?
Write a poem about my cat.; How do I change a flat tire?; What time zones does Europe have?
Can you tell me a riddle?; I had a fight with my friend. What should I do?; How do I grow tomatoes?
What is 12 times 12?; Convert 10 miles to kilometers.; What is a synonym of "happy"?
Correct this sentence: "He go to school yesterday."; Write a text message to my boss that I am ill.
How long does it take to boil potatoes?; What are the planets of the solar system?; Is it going to rain today?
Which language should I learn first?; Write a Python program that counts words.; Write a slogan for a bakery.
What is the best way to lose weight?; How do I tie a tie?; Name five animals that live in the sea.
Give me a quote about courage.; What is the meaning of life?; How do I start a blog?; Who are you?
What can you do?; I want to become a writer. How do I start?; Plan a birthday party for a child of six.
How do I save water at home?; What is a good name for a coffee shop?; Why is the sea salty?
Why do cats purr?; How do birds fly?; Why do we have to sleep?; What happens when water freezes?
Write a short horror story.; Write a letter to my future self.; Describe a sunset at the sea.
What are three good board games?; How can I stop being nervous?; Make a shopping list for a week.
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
