"""The tab "Will it pay?": what drafting gains for given acceptance and costs."""
