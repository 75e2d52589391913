"""Ascend C on the host: compiled with its C++ compiler, every access checked, every instruction costed."""
