#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
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
  /// `threads` in all, the caller of parallel_for included. Starts threads - 1.
  explicit thread_pool(int threads) {
    expects(threads >= 1, "thread_pool: threads", threads, "at least 1");
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  }

  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  ~thread_pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) {
      worker.join();
    }
  }

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

  void run(index_t tasks, host_context::task_function task, void* argument) {
    const std::lock_guard one_at_a_time(callers_);
    {
      const std::lock_guard lock(mutex_);
      job_ = {task, argument, tasks};
      next_.store(0, std::memory_order_relaxed);
      busy_ = static_cast<int>(workers_.size());
      ++generation_;
    }
    wake_.notify_all();
    drain(job_);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

  void work() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) {
        return;
      }
      seen = generation_;
      const job current = job_;
      lock.unlock();
      drain(current);
      lock.lock();
      if (--busy_ == 0) {
        done_.notify_one();
      }
    }
  }

  void drain(const job& current) noexcept {
    for (index_t i = next_.fetch_add(1, std::memory_order_relaxed); i < current.tasks;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      current.task(current.argument, i);
    }
  }

  std::mutex callers_;  // held by the one running parallel_for
  std::mutex mutex_;    // guards job_, busy_, generation_, stop_
  std::condition_variable wake_;
  std::condition_variable done_;
  std::atomic<index_t> next_{0};
  job job_;
  int busy_ = 0;
  std::uint64_t generation_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

KVPOP_NAMESPACE_END
