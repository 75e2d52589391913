// The threads that run kernels.
//
// Workers start at the first parallel job and stay. They wait for the next one by spinning shortly, then
// asleep. A job is cut into chunks of a fixed number of units, which the caller and whatever workers come in
// time take one by one: the chunks, and with them the results, do not depend on the number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace pyasc {

// Runs units begin … end-1. thread is below the number of threads, and of those at work no two have the same.
using Work = void (*)(void* context, int64_t begin, int64_t end, int thread);

class Threads {
  public:
    static Threads& instance();

    int count() const { return count_.load(std::memory_order_relaxed); }
    void set_count(int count);

    // Calls work for every chunk of `grain` units, on the calling thread alone where there is one chunk or
    // the workers are busy with another job.
    void run(int64_t units, int64_t grain, Work work, void* context);

  private:
    Threads();
    static void before_fork();
    static void after_fork_in_parent();
    static void after_fork_in_child();

    void start_workers();
    void stop_workers();
    void work_on_job(int thread);
    void worker(int thread);
    bool wait_for_job(uint32_t seen, int* spin);
    bool enter();
    void leave();

    struct Job {
        Work work = nullptr;
        void* context = nullptr;
        int64_t units = 0;
        int64_t grain = 1;
        int64_t chunks = 0;
    };

    std::mutex submit_;  // held by the thread whose job it is
    std::atomic<int> count_;
    int started_ = 0;
    Job job_;
    alignas(128) std::atomic<int64_t> next_{0};  // the next chunk
    alignas(128) std::atomic<uint32_t> gate_;    // workers inside, and whether the job is closed
    std::atomic<uint32_t> caller_asleep_{0};
    alignas(128) std::atomic<uint32_t> epoch_{0};  // counts jobs; workers sleep on it
    std::atomic<int> asleep_{0};
    std::atomic<int> running_{0};
    std::atomic<bool> stop_{false};
};

}  // namespace pyasc
