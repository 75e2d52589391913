"""k-means (Lloyd 1982): a loop that reads a value each turn and reuses its kernels."""

from __future__ import annotations

import argparse
import time

import numpy as np

import pyasc as pa


def step(points: pa.Tensor, centres: pa.Tensor) -> tuple[pa.Tensor, pa.Tensor]:
    """One turn: the nearest centre of every point, then the mean of each centre's points."""
    k = centres.shape[0]
    distances = ((points[:, None] - centres) ** 2).sum(2)
    nearest = distances.argmin(1)
    member = (nearest[:, None] == pa.arange(k)).astype(pa.float32)  # points × centres
    return (member.T @ points) / pa.maximum(member.sum(0), 1)[:, None], distances.min(1).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200_000, help="points (%(default)s)")
    parser.add_argument("--clusters", type=int, default=8, help="clusters (%(default)s)")
    options = parser.parse_args()

    rng = np.random.default_rng(1)
    angle = 2 * np.pi * np.arange(options.clusters) / options.clusters
    true = np.stack([10 * np.cos(angle), 10 * np.sin(angle)], 1).astype(np.float32)
    label = rng.integers(0, options.clusters, options.points)
    points = pa.asarray(true[label] + rng.standard_normal((options.points, 2), np.float32))
    centres = pa.asarray(true + 2.5 * rng.standard_normal(true.shape, np.float32))

    start = time.perf_counter()
    moved, turns, kernels = np.inf, 0, []
    while moved > 1e-4 and turns < 100:
        new, spread = step(points, centres)
        moved = float(abs(new - centres).max())  # a sync point
        print(f"turn {turns}: mean squared distance {float(spread):.4f}, largest move {moved:.4f}")
        centres, turns = new, turns + 1
        kernels.append(pa.cache_stats()["misses"])
    took = (time.perf_counter() - start) * 1e3
    print(f"{turns} turns in {took:.0f} ms; kernels made: {kernels[0]} in the first turn")
    print(f"kernels made later: {kernels[-1] - kernels[0]}")
    error = np.linalg.norm(centres.numpy()[:, None] - true, axis=2).min(1).max()
    print(f"largest distance of a centre from the truth: {error:.3f}")


if __name__ == "__main__":
    main()
