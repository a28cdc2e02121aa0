"""The tab "Payoff": what drafting gains for given acceptance and costs."""
