"""Tensors, pipe objects, queues, event ids, allocators, registers and the scalar unit's functions."""

from __future__ import annotations

import numpy as np
import pytest

from pyasc.backend.ascend import chip
from pyasc.backend.sim.log import EVENTS, PIPES
from pyasc.backend.sim.simulator import Module, Simulator

BEGIN = """#include "kernel_operator.h"
using namespace AscendC;
struct Out {
    GlobalTensor<int64_t> tensor;
    int n = 0;
    explicit Out(GM_ADDR y) { tensor.SetGlobalBuffer(reinterpret_cast<int64_t*>(y)); }
    void operator()(int64_t value) { tensor.SetValue(n++, value); }
};
"""

# Each kernel calls `out` with numbers; the expected ones beside it.
KERNELS: dict[str, tuple[str, list[int]]] = {
    "tensors": (
        """
        LocalTensor<float> t(TPosition::VECCALC, 64, 100);
        out(t.GetSize());
        out(t.GetLength());
        out(t[90].GetSize());
        out(t[24].ref().offset);
        out(t.GetPosition() == static_cast<int32_t>(TPosition::VECCALC));
        LocalTensor<half> h = t.ReinterpretCast<half>();
        out(h.GetSize());
        out(h[4].ref().offset);
        t.SetValue(3, 1.0f);
        out(h.GetValue(7) == half(1.875f));  // the upper half of the bits of 1.0f
        t.SetValue(4, 7);
        out(static_cast<int64_t>(t.GetValue(4)));
        t(5) = 9.0f;
        out(static_cast<int64_t>(t(5)));
        t.SetSize(20);
        out(t.GetSize());
        LocalTensor<int4b_t> four(TPosition::VECCALC, 0, 64);
        out(four.GetSize());
        out(four[32].ref().offset);
        """,
        [100, 400, 10, 160, 1, 200, 72, 1, 7, 9, 20, 64, 16],
    ),
    "global_tensors": (
        """
        GlobalTensor<int32_t> g;
        g.SetGlobalBuffer(reinterpret_cast<int32_t*>(x), 16);
        out(g.GetSize());
        g.SetValue(2, 41);
        out(g[2].GetValue(0));
        out(g[10].GetSize());
        g(3) = 5;
        out(g.GetValue(3));
        out(g.GetPhyAddr(4) - g.GetPhyAddr());
        out(g.ref().l2);
        g.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
        out(g[1].ref().l2);
        """,
        [16, 41, 6, 5, 4, 1, 0],
    ),
    "buffers_one_after_another": (
        """
        TPipe pipe;
        TBuf<TPosition::VECCALC> first, second;
        TQue<TPosition::VECIN, 2> queue;
        pipe.InitBuffer(first, 100);
        pipe.InitBuffer(queue, 2, 256);
        pipe.InitBuffer(second, 64);
        out(first.Get<float>().GetSize());
        LocalTensor<float> a = queue.AllocTensor<float>();
        LocalTensor<float> b = queue.AllocTensor<float>();
        out(a.ref().offset);
        out(b.ref().offset);
        out(second.Get<half>(16).ref().offset);
        out(second.Get<half>(16).GetSize());
        out(second.GetWithOffset<half>(8, 32).ref().offset);
        out(queue.HasIdleBuffer());
        queue.FreeTensor(a);
        out(queue.HasIdleBuffer());
        queue.FreeTensor(b);
        pipe.Reset();
        pipe.InitBuffer(second, 32);
        out(second.Get<half>().ref().offset);
        out(GetTPipePtr() == &pipe);
        """,
        [32, 128, 384, 640, 16, 672, 0, 1, 0, 1],
    ),
    "queues": (
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 3> queue;
        pipe.InitBuffer(queue, 3, 64);
        LocalTensor<int32_t> a = queue.AllocTensor<int32_t>(), b = queue.AllocTensor<int32_t>();
        a.SetValue(0, 1);
        b.SetValue(0, 2);
        out(queue.HasTensorInQue());
        queue.EnQue(a);
        queue.EnQue(b);
        out(queue.GetTensorCountInQue());
        out(queue.VacantInQue());
        a = queue.DeQue<int32_t>();
        queue.DeQue(b);
        out(a.GetValue(0));
        out(b.GetValue(0));
        queue.FreeTensor(a);
        queue.FreeTensor(b);
        LocalTensor<int32_t> c;
        queue.AllocTensor(c);
        out(c.ref().offset);  // in turn: the third
        LocalTensor<int32_t> d = queue.AllocTensor<int32_t>();
        out(d.ref().offset);
        queue.FreeTensor(c);
        queue.FreeTensor(d);
        """,
        [0, 2, 1, 1, 2, 128, 0],
    ),
    "pools": (
        """
        TPipe pipe;
        TBufPool<TPosition::VECCALC> pool, inner, shared;
        TBuf<TPosition::VECCALC> before, a, b, c;
        TQue<TPosition::VECIN, 1> queue;
        pipe.InitBuffer(before, 32);
        pipe.InitBufPool(pool, 1024);
        pipe.InitBufPool(shared, 512, pool);
        pool.InitBuffer(a, 256);
        pool.InitBufPool(inner, 512);
        inner.InitBuffer(b, 100);
        inner.InitBuffer(queue, 2, 64);
        shared.InitBuffer(c, 64);
        out(a.Get<float>().ref().offset);
        out(b.Get<float>().ref().offset);
        LocalTensor<float> t = queue.AllocTensor<float>();
        out(t.ref().offset);
        queue.FreeTensor(t);
        out(c.Get<float>().ref().offset);
        inner.Reset();
        inner.InitBuffer(b, 64);
        out(b.Get<float>().ref().offset);
        """,
        [32, 288, 416, 32, 288],
    ),
    "event_ids": (
        """
        TPipe pipe;
        out(pipe.AllocEventID<HardEvent::MTE2_V>());
        out(pipe.AllocEventID<HardEvent::MTE2_V>());
        out(pipe.AllocEventID<HardEvent::V_MTE3>());
        out(pipe.FetchEventID(HardEvent::MTE2_V));
        out(pipe.FetchEventID<HardEvent::MTE2_V>());
        pipe.ReleaseEventID<HardEvent::MTE2_V>(0);
        out(pipe.AllocEventID<HardEvent::MTE2_V>());
        """,
        [0, 1, 0, 2, 2, 0],
    ),
    "static_allocation": (
        """
        LocalMemAllocator<Hardware::UB> allocator;
        LocalTensor<float> a = allocator.Alloc<float, 10>();
        LocalTensor<half> b = allocator.Alloc<TPosition::VECIN, half>(16);
        LocalTensor<half> c = allocator.Alloc<TPosition::VECOUT, half, 16>();
        LocalTensor<float> d = allocator.Alloc<float>(8);
        out(a.ref().offset);
        out(b.ref().offset);
        out(c.ref().offset);
        out(d.ref().offset);
        out(a.GetSize());
        out(b.GetPosition() == static_cast<int32_t>(TPosition::VECIN));
        out(allocator.GetCurAddr());
        """,
        [0, 64, 96, 128, 10, 1, 160],
    ),
    "registers": (
        """
        out(sim::registers().counter);
        SetMaskCount();
        out(sim::registers().counter);
        SetVectorMask<float>(5, 3);
        out(sim::registers().mask[0]);
        out(sim::registers().mask[1]);
        SetVectorMask<half, MaskMode::NORMAL>(70);
        out(sim::registers().mask[0] == ~0ull);
        out(sim::registers().mask[1]);
        SetVectorMask<half, MaskMode::COUNTER>(300);
        out(sim::registers().mask[0]);
        SetMaskNorm();
        out(sim::registers().counter);
        SetMaskCount();
        SetAtomicMax<int32_t>();
        out(sim::registers().atomic == sim::Registers::Atomic::Max);
        out(sim::registers().atomic_dtype == sim::Dtype::I32);
        uint16_t type, op;
        SetAtomicAdd<half>();
        GetStoreAtomicConfig(type, op);
        out(type);
        SetCtrlSpr<4, 7>(9);
        out(GetCtrlSpr<4, 7>());
        out(GetCtrlSpr<5, 6>());
        ResetCtrlSpr<4, 4>();
        out(GetCtrlSpr<4, 7>());
        InitSocState();
        out(sim::registers().atomic == sim::Registers::Atomic::None);
        out(sim::registers().counter);
        out(sim::registers().mask[1] == ~0ull);
        """,
        [0, 1, 3, 5, 1, 63, 300, 0, 1, 1, 2, 9, 0, 8, 1, 0, 1],
    ),
    "scalar_functions": (
        """
        out(ScalarGetCountOfValue<1>(0xff0));
        out(ScalarGetCountOfValue<0>(0xff0));
        out(ScalarGetSFFValue<1>(0xff0));
        out(ScalarGetSFFValue<0>(0xf));
        out(ScalarGetSFFValue<1>(0));
        out(ScalarCountLeadingZero(1));
        out(CountBitsCntSameAsSignBit(-1));
        out(ScalarCast<float, int32_t, RoundMode::CAST_RINT>(2.5f));
        out(ScalarCast<float, int32_t, RoundMode::CAST_ROUND>(2.5f));
        out(ScalarCast<float, int32_t, RoundMode::CAST_FLOOR>(-2.5f));
        out(ScalarCast<float, int32_t, RoundMode::CAST_CEIL>(-2.5f));
        out(static_cast<int64_t>(ToFloat(ToBfloat16(257.0f))));
        out(DivCeil(33, 32));
        out(GetUBSizeInBytes());
        out(GetDataBlockSizeInBytes());
        """,
        [8, 56, 4, 4, -1, 63, 63, 2, 3, -3, -2, 256, 2, 196608, 32],
    ),
}

# What a queue writes into the log: the pipes it orders, for each position.
ORDERS = {
    "TQue<TPosition::VECIN, 1>": ("vector", "MTE2", "V"),
    "TQue<TPosition::VECOUT, 1>": ("vector", "V", "MTE3"),
    "TQueBind<TPosition::VECIN, TPosition::VECOUT, 1>": ("vector", "MTE2", "MTE3"),
    "TQue<TPosition::A1, 1>": ("cube", "MTE2", "MTE1"),
    "TQue<TPosition::B1, 1>": ("cube", "MTE2", "MTE1"),
    "TQue<TPosition::C1, 1>": ("cube", "MTE2", "MTE1"),
    "TQue<TPosition::A2, 1>": ("cube", "MTE1", "M"),
    "TQue<TPosition::B2, 1>": ("cube", "MTE1", "M"),
    "TQue<TPosition::C2, 1>": ("cube", "MTE1", "M"),
    "TQue<TPosition::C2PIPE2GM, 1>": ("cube", "MTE1", "FIX"),
    "TQue<TPosition::CO1, 1>": ("cube", "M", "FIX"),
}


@pytest.fixture(scope="module")
def module() -> Module:
    source = BEGIN
    head = 'extern "C" __global__ __aicore__ void {}(GM_ADDR x, GM_ADDR y) {{\n'
    for name, (body, _) in KERNELS.items():
        source += head.format(name) + f"    Out out(y);\n{body}}}\n"
    for n, queue in enumerate(ORDERS):
        source += head.format(f"order_{n}") + (
            f"    TPipe pipe;\n    {queue} queue;\n    pipe.InitBuffer(queue, 1, 512);\n"
            "    for (int i = 0; i < 2; ++i) {\n"
            "        LocalTensor<half> t = queue.AllocTensor<half>();\n        queue.EnQue(t);\n"
            "        t = queue.DeQue<half>();\n        queue.FreeTensor(t);\n    }\n}\n"
        )
    return Simulator(chip.load("910B1"), None).compile(source, "framework")


@pytest.mark.parametrize("name", KERNELS)
def test_numbers(module: Module, name: str) -> None:
    expected = KERNELS[name][1]
    x, y = np.zeros(64, np.int64), np.full(64, -99, np.int64)
    module.run(1, [x, y], kernel=name)
    assert y.tolist() == expected + [-99] * (64 - len(expected))


@pytest.mark.parametrize("queue", ORDERS)
def test_what_a_queue_orders(module: Module, queue: str) -> None:
    cores, source, target = ORDERS[queue]
    log = module.run(
        1,
        [np.zeros(8, np.int64)] * 2,
        kernel=f"order_{list(ORDERS).index(queue)}",
        cores=cores,
        cost=True,
    )
    assert log is not None
    seen = [(EVENTS[r["event"]], PIPES[r["pipe"]], PIPES[r["to"]]) for r in log.cores[0].records]
    turn = [("SetFlag", source, target), ("WaitFlag", source, target), ("SetFlag", target, source)]
    freed = ("WaitFlag", target, source)
    assert seen == [*turn, freed, *turn, freed, ("PipeBarrier", "ALL", "ALL")]
