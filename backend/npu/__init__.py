"""Ascend C compiled by CANN and run on an NPU."""
