"""Hooks that come with the proxy: examples of what can be done, and of use as they are.

reflection  notes of what the user said for good, for later conversations
"""
