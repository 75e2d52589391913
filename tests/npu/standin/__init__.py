"""A pretended machine with CANN and NPUs, to prove the path to one without one.

`toolkit.build` lays out a toolkit's folder with ``libascendcl.so`` (acl/: the public C interface; the devices
are the simulator's engine) and the compilers (`compiler`). `machine.Machine` injects faults, counts what is
alive, and has the timeline and the complaints: misuse, work of two streams on the same bytes that nothing
orders, and what the simulator's checks found. `acl.Acl` calls the interface directly.

Environment, read by ``aclInit`` and `Machine.reset`:

====================== ===============================================================================
STANDIN_DELAY_US       before each task a stream sleeps, at most so long (0); STANDIN_SEED: the seed
STANDIN_DEVICES        how many there are (2); ASCEND_RT_VISIBLE_DEVICES: which of them are seen
STANDIN_MEMORY         bytes of each (64 GiB); STANDIN_EVENTS, STANDIN_STREAMS: how many at once
STANDIN_MODEL_TIME     1: tasks take modelled times on a clock of their own, which events tell
STANDIN_KERNEL_US      what a kernel then takes (0); STANDIN_GB_PER_S: of a copy from or to the host (25)
STANDIN_NULL_KERNELS   1: kernels do nothing, and streams wake as seldom as they can
STANDIN_UNCHECKED      1: kernels run without the simulator's checks, and without looking for races
STANDIN_SOC            the name of the chip (Ascend910B1); PYASC_SIM_CHIP: its numbers
STANDIN_COMPILER       dies, hangs, silent (fails without a word), old (without the second form)
STANDIN_CACHE          where compiled kernels are kept; unset, with the library
====================== ===============================================================================
"""
