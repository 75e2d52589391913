"""Events between the pipes of a core: who hands a buffer to whom.

A stage's copies in are handed to the vector unit by MTE2_V and given back by V_MTE2, its results to the
copies out by V_MTE3 and back by MTE3_V; each pair of pipes has an event for each of the stage's buffers.
"""

from __future__ import annotations

from .stage import Stage, Stages
from .text import Writer

BARRIER = "PipeBarrier<PIPE_ALL>();"
# Of the events between two pipes, numbers up to here are the stages'; the last serves single waits.
STAGE_EVENTS = 6
SINGLE_EVENT = 7


class Events:
    """The events of a kernel's stages.

    Parameters
    ----------
    stages : Stages
    copies : int
        Buffers of each operand.
    wanted : bool
        Otherwise every pipe waits for every other.
    """

    def __init__(self, stages: Stages, copies: int, wanted: bool) -> None:
        self.stages = stages
        self.copies = copies
        self.wanted = wanted

    def number(self, stage: int) -> str:
        """The number of a stage's events, for the buffers whose turn it is."""
        return f"{stage * self.copies} + turn{stage}" if self.copies > 1 else str(stage)

    def set(self, pair: str, stage: int) -> str:
        """The pipe that is done with a stage's buffers says so."""
        return f"SetFlag<HardEvent::{pair}>({self.number(stage)});"

    def wait(self, pair: str, stage: int) -> str:
        """The pipe that needs a stage's buffers waits for the other."""
        return f"WaitFlag<HardEvent::{pair}>({self.number(stage)});"

    def _reverse(self, stage: Stage) -> list[str]:
        """The reverse events of a stage: who gives buffers back to whom."""
        loads = stage.loads and not stage.once
        return (["V_MTE2"] if loads else []) + (["MTE3_V"] if stage.stores else [])

    @property
    def fit(self) -> bool:
        """Whether there are events enough; otherwise every pipe waits for every other."""
        return self.wanted and len(self.stages.stages) * self.copies <= STAGE_EVENTS

    def all(self, write: Writer, call: str) -> None:
        """Set, or wait for, the reverse events of all buffers."""
        for number, stage in enumerate(self.stages.stages):
            for pair in self._reverse(stage):
                for copy in range(self.copies):
                    write(f"{call}<HardEvent::{pair}>({number * self.copies + copy});")
