"""The game "You draft": a visitor types a story's next words, and the target accepts or corrects them."""
