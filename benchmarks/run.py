"""Every workload, every library, one process, one table: ``python benchmarks/run.py``.

Each library does the same job on the same inputs; its result is compared with NumPy's before it is
timed. Rounds are interleaved (A B C … A B C …): in each, a library's function is called once to warm up,
then a few times, of which the fastest counts. The table shows medians over the rounds, and medians of the
ratios of times taken in the same round. All libraries use the same number of threads. NumPy, PyTorch,
OpenCV and SciPy run as they are usually written; numexpr, numba and C++ write to outputs made before.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="workloads or sections to run (see --list)")
    parser.add_argument("--peers", nargs="+", metavar="NAME", help="libraries to run (see --list)")
    parser.add_argument("--rounds", type=int, default=11, help="interleaved rounds (default 11)")
    parser.add_argument("--threads", type=int, default=2, help="threads for every library (default 2)")
    parser.add_argument(
        "--quick", action="store_true", help="small inputs and 3 rounds: a check, not a measurement"
    )
    parser.add_argument("--list", action="store_true", help="list workloads, sections and libraries")
    parser.add_argument(
        "--output", type=Path, default=HERE / "results", help="folder for the JSON and the plot"
    )
    return parser.parse_args()


def limit_threads(count: int) -> None:
    """Give this process `count` processors and say so to every library, before any is imported."""
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR"):
        os.environ[f"{library}_NUM_THREADS"] = str(count)
    os.environ["NUMEXPR_MAX_THREADS"] = os.environ["PYASC_THREADS"] = str(count)
    multithreaded = "--xla_cpu_multi_thread_eigen=true --xla_force_host_platform_device_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {multithreaded}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    if hasattr(os, "sched_setaffinity"):  # XLA's thread pool is as large as the set of processors
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main() -> int:
    options = arguments()
    limit_threads(options.threads)
    sys.path.insert(0, str(HERE))
    import latency
    import memory
    import report
    import shapes
    import timing
    from peers import ORDER, load_peers
    from workloads import WORKLOADS

    sections = {"latency": latency.measure, "memory": memory.measure, "shapes": shapes.measure}
    if options.list:
        for title, names in (("workloads", WORKLOADS), ("sections", sections), ("libraries", ORDER)):
            print(f"{title}: {' '.join(names)}")
        return 0
    known = {*WORKLOADS, *sections}
    unknown = set(options.only or ()) - known | set(options.peers or ()) - set(ORDER)
    if unknown:
        print(f"unknown name: {', '.join(sorted(unknown))}; --list shows those there are", file=sys.stderr)
        return 2
    chosen = options.only or [*WORKLOADS, *sections]
    rounds = 3 if options.quick else options.rounds

    peers, absent = load_peers(tuple(options.peers) if options.peers else ORDER)
    timing.set_threads(peers, options.threads)
    for name, reason in absent.items():
        print(f"without {name}: {reason}")
    table = report.Table(list(ORDER), options.threads)
    failures = 0
    for name in (n for n in chosen if n in WORKLOADS):
        row = timing.run(WORKLOADS[name], peers, rounds, options.quick)
        failures += len(row.failures)
        table.add(row)
    figures: list[report.Figure] = []
    shown = 0
    for name in (n for n in chosen if n in sections and "pyasc" in peers):
        try:
            figures += sections[name](peers, options.quick)
        except Exception:
            traceback.print_exc()
            print(f"{name}: stopped by an error", file=sys.stderr)
            failures += 1
        report.show(figures[shown:])
        shown = len(figures)
    report.write(table, figures, options.output)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
