"""``python -m pyasc.selftest``: whether each backend of this machine computes what it should."""
