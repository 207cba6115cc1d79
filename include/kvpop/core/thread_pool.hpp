#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "kvpop/core/context.hpp"  // host_context

KVPOP_NAMESPACE_BEGIN

/// A minimal pool for programs that have none: owned explicitly, its threads live as long as it does. An engine with
/// its own pool passes that to `host_context` and never includes this header.
///
/// One parallel_for runs at a time; a second caller waits. The calling thread works too, so `thread_pool(1)` starts no
/// thread. A task must not call parallel_for of the same pool.
class thread_pool {
 public:
  /// `threads` in all, the caller of parallel_for included. Starts threads - 1. Throws `error` when the system starts no
  /// more of them; those that ran have ended then.
  explicit thread_pool(int threads) {
    expects(threads >= 1, "thread_pool: threads", threads, "at least 1");
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int i = 1; i < threads; ++i) {
      start_worker(threads);
    }
  }

  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  ~thread_pool() { join(); }

  [[nodiscard]] int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// A context that runs on this pool; valid while the pool lives.
  [[nodiscard]] host_context context() {
    return {[](void* pool, index_t tasks, host_context::task_function task, void* argument) {
              static_cast<thread_pool*>(pool)->run(tasks, task, argument);
            },
            this, threads()};
  }

 private:
  struct job {
    host_context::task_function task = nullptr;
    void* argument = nullptr;
    index_t tasks = 0;
  };

  void start_worker(int threads) {
#if defined(__cpp_exceptions)
    try {
      workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      join();  // the destructor does not run
      fail("thread_pool: threads is " + std::to_string(threads) + "; the system started " +
           std::to_string(workers_.size()) + ": " + error.what());
    }
#else
    static_cast<void>(threads);
    workers_.emplace_back([this] { work(); });
#endif
  }

  void join() {
    {
      const std::lock_guard lock(mutex_);
      stop_.store(true, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) {
      worker.join();
    }
  }

  void run(index_t tasks, host_context::task_function task, void* argument) {
    const std::lock_guard one_at_a_time(callers_);
    {
      const std::lock_guard lock(mutex_);
      job_ = {task, argument, tasks};
      next_.store(0, std::memory_order_relaxed);
      entered_.store(open, std::memory_order_release);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    drain();
    // A worker that the system has not let run by now finds the job closed: nobody waits for it.
    entered_.fetch_sub(open, std::memory_order_acq_rel);
    const auto finished = [this] { return entered_.load(std::memory_order_acquire) == 0; };
    if (!spin_until(finished)) {
      std::unique_lock lock(mutex_);
      done_.wait(lock, finished);
    }
  }

  void work() {
    std::uint64_t seen = 0;
    const auto called = [&] {
      return stop_.load(std::memory_order_acquire) || generation_.load(std::memory_order_acquire) != seen;
    };
    while (true) {
      if (!spin_until(called)) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, called);
      }
      if (stop_.load(std::memory_order_acquire)) {
        return;
      }
      seen = generation_.load(std::memory_order_acquire);
      if (!enter()) {
        continue;
      }
      drain();
      if (entered_.fetch_sub(one_worker, std::memory_order_acq_rel) == one_worker) {
        const std::lock_guard lock(mutex_);  // the caller either has not begun to wait or will hear this
        done_.notify_one();
      }
    }
  }

  /// Joins the job that is open, if one is.
  bool enter() noexcept {
    std::uint32_t now = entered_.load(std::memory_order_acquire);
    while ((now & open) != 0) {
      if (entered_.compare_exchange_weak(now, now + one_worker, std::memory_order_acq_rel, std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }

  /// job_ changes only while it is closed and no worker is in it, so it is read without the lock.
  void drain() noexcept {
    for (index_t i = next_.fetch_add(1, std::memory_order_relaxed); i < job_.tasks;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      job_.task(job_.argument, i);
    }
  }

  /// Looks at a condition for some ten microseconds: the verbs of one decode step follow each other closely, and a sleep
  /// between them would cost more than they do.
  template <class Condition>
  static bool spin_until(const Condition& condition) noexcept {
    for (int i = 0; i < spins; ++i) {
      if (condition()) {
        return true;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return condition();
  }

  static constexpr int spins = 1000;
  static constexpr std::uint32_t open = 1, one_worker = 2;

  std::mutex callers_;  // held by the one running parallel_for
  std::mutex mutex_;    // for sleeping and waking
  std::condition_variable wake_;
  std::condition_variable done_;
  std::atomic<index_t> next_{0};
  std::atomic<std::uint64_t> generation_{0};  // of job_
  std::atomic<std::uint32_t> entered_{0};     // open, while job_ may be joined, and one_worker for each in it
  std::atomic<bool> stop_{false};
  job job_;
  std::vector<std::thread> workers_;
};

KVPOP_NAMESPACE_END
