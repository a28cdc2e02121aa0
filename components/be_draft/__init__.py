"""The tab "You draft": a visitor types what comes next, and the target accepts or corrects."""
