#include "threads.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <new>
#include <system_error>
#include <thread>

#include "pool.hpp"

namespace pyasc {

namespace {

constexpr uint32_t closed = 1u << 31;
// Microseconds of spinning before a worker sleeps: it doubles when a job came in time and halves when none
// did.
constexpr int longest_spin = 50;
constexpr int shortest_spin = 5;
constexpr int caller_spin = 100;

using Clock = std::chrono::steady_clock;

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is a plain word");

void futex_wait(std::atomic<uint32_t>* word, uint32_t value) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word, int count) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// True as soon as ready() is, false after so many microseconds.
template <class F>
bool spin_until(F ready, int microseconds) {
    const Clock::time_point end = Clock::now() + std::chrono::microseconds(microseconds);
    do {
        for (int k = 0; k < 16; ++k) {
            if (ready()) return true;
            pause();
        }
    } while (Clock::now() < end);
    return false;
}

int available_processors() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
    return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

alignas(Threads) unsigned char storage[sizeof(Threads)];

}  // namespace

Threads& Threads::instance() {
    // Never destroyed: workers wait in it until the process ends.
    static Threads* const threads = [] {
        Threads* made = new (storage) Threads;
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        return made;
    }();
    return *threads;
}

Threads::Threads() : count_(available_processors()), gate_(closed) {}

// A job of another thread is waited for, so that parent and child find pool and threads in order.
void Threads::before_fork() {
    instance().submit_.lock();
    Pool::instance().mutex().lock();
}

void Threads::after_fork_in_parent() {
    Pool::instance().mutex().unlock();
    instance().submit_.unlock();
}

// The child has no workers; it starts its own when it needs them.
void Threads::after_fork_in_child() {
    Pool::instance().mutex().unlock();
    const int count = instance().count();
    Threads* fresh = new (storage) Threads;
    fresh->count_ = count;
}

void Threads::set_count(int count) {
    const std::lock_guard<std::mutex> lock(submit_);
    if (count == count_) return;
    stop_workers();
    count_ = count;
}

void Threads::start_workers() {
    if (started_ == count_ - 1) return;
    // Signals are for the interpreter's threads.
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    try {
        for (; started_ < count_ - 1; ++started_) {
            ++running_;
            std::thread([this, thread = started_ + 1] { worker(thread); }).detach();
        }
    } catch (const std::system_error&) {
        // The machine gives no more threads: go on with those there are.
        --running_;
        count_ = started_ + 1;
    }
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

void Threads::stop_workers() {
    stop_ = true;
    ++epoch_;
    futex_wake(&epoch_, INT_MAX);
    while (running_ > 0) std::this_thread::yield();
    stop_ = false;
    started_ = 0;
}

bool Threads::enter() {
    uint32_t state = gate_.load(std::memory_order_relaxed);
    do {
        if (state & closed) return false;
    } while (
        !gate_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
}

void Threads::leave() {
    const uint32_t before = gate_.fetch_sub(1);
    if (before == (closed | 1) && caller_asleep_) futex_wake(&gate_, 1);
}

void Threads::work_on_job(int thread) {
    const Job job = job_;
    for (;;) {
        const int64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= job.chunks) return;
        const int64_t begin = chunk * job.grain;
        job.work(job.context, begin, begin + std::min(job.grain, job.units - begin), thread);
    }
}

bool Threads::wait_for_job(uint32_t seen, int* spin) {
    if (spin_until([&] { return epoch_.load(std::memory_order_acquire) != seen; }, *spin)) {
        *spin = std::min(*spin * 2, longest_spin);
    } else {
        *spin = std::max(*spin / 2, shortest_spin);
        ++asleep_;
        while (epoch_ == seen) futex_wait(&epoch_, seen);
        --asleep_;
    }
    return !stop_;
}

void Threads::worker(int thread) {
    int spin = longest_spin;
    uint32_t seen = epoch_;
    for (;;) {
        if (enter()) {
            work_on_job(thread);
            leave();
        }
        if (stop_ || !wait_for_job(seen, &spin)) break;
        seen = epoch_;
    }
    --running_;
}

void Threads::run(int64_t units, int64_t grain, Work work, void* context) {
    if (units <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    const int64_t chunks = (units - 1) / grain + 1;
    std::unique_lock<std::mutex> lock(submit_, std::defer_lock);
    if (chunks == 1 || count() == 1 || !lock.try_lock()) {
        for (int64_t begin = 0; begin < units; begin += std::min(grain, units - begin))
            work(context, begin, begin + std::min(grain, units - begin), 0);
        return;
    }
    start_workers();
    job_ = {work, context, units, grain, chunks};
    next_.store(0, std::memory_order_relaxed);
    caller_asleep_.store(0, std::memory_order_relaxed);
    gate_.store(0, std::memory_order_release);
    ++epoch_;
    if (asleep_ > 0) futex_wake(&epoch_, static_cast<int>(std::min<int64_t>(started_, chunks - 1)));
    work_on_job(0);
    gate_.fetch_or(closed);
    if (spin_until([&] { return gate_.load(std::memory_order_acquire) == closed; }, caller_spin)) return;
    caller_asleep_ = 1;
    for (uint32_t state = gate_; state != closed; state = gate_) futex_wait(&gate_, state);
}

}  // namespace pyasc
