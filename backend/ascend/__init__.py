"""KernelIR to Ascend C: tiles in the unified buffer, vector and cube instructions, events."""
