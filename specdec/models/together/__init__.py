"""Forwards of many runs in one.

forwards    what decoding asks for, and answers one by one
answers     answers to many at once
attention   attention in a forward of several texts, of each over its own cache
"""
