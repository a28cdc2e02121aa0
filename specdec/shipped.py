"""Names of this project's pairs, and the paths of the weights and prompts that are shipped with it."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
ASSETS = (_PACKAGE if (_PACKAGE / "assets").is_dir() else _PACKAGE.parent) / "assets"
"""The folder of assets: inside an installed package, or beside the package in a checkout."""
EMBEDDED = ASSETS / "stories"
"""The pair of story models: folders `target` and `draft`."""
SMOLLM2_DRAFT = ASSETS / "smollm2" / "draft"
"""The draft for SmolLM2-135M-Instruct, whose weights are not part of the project."""
PROMPTS = ASSETS / "prompts.txt"
"""Story openings, one per line, written for this project."""
QUESTIONS = ASSETS / "questions.txt"
"""Questions for a chat model, one per line. The page offers them."""
CODE_QUESTIONS = ASSETS / "code_questions.txt"
"""Questions for a model that writes code, one per line. The page offers them."""
STORIES, SMOLLM2, CODER = PAIRS = ("stories", "smollm2", "coder")
"""The names of this project's pairs, as `specdec.load_pair` takes them."""
