#pragma once

#include <memory>
#include <type_traits>

#include "kvpop/core/error.hpp"  // expects

KVPOP_NAMESPACE_BEGIN

/// Where host verbs run: on the calling thread, on the engine's own parallel_for, or on a `thread_pool` that somebody
/// owns explicitly. A trivially copyable value; it never starts a thread and never allocates.
///
/// The number of threads changes how work is spread, never what is computed: every result is the same for any of them.
class host_context {
 public:
  /// A task as the engine's parallel_for sees it: call `task(argument, i)` once for every i in [0, tasks), in any
  /// order, on any threads, and return when all are done. Tasks do not throw.
  using task_function = void (*)(void* argument, index_t i) noexcept;
  using parallel_function = void (*)(void* engine, index_t tasks, task_function task, void* argument);

  /// The calling thread.
  constexpr host_context() noexcept = default;

  /// The engine's parallel_for behind a plain function pointer; `threads` is how many may run at once.
  host_context(parallel_function parallel, void* engine, int threads)
      : parallel_(parallel), engine_(engine), threads_(threads) {
    expects(threads >= 1, "host_context: threads", threads, "at least 1");
  }

  /// One task as `pool` below is handed it: a callable `f(i)`, copyable, noexcept.
  struct indexed_task {
    task_function task;
    void* argument;
    void operator()(index_t i) const noexcept { task(argument, i); }
  };

  /// The engine's parallel_for as an object, called as `pool(tasks, f)` with `f(i)`; `pool` must outlive the context.
  template <class Pool>
  requires requires(Pool& pool, index_t n, indexed_task f) { pool(n, f); }
  host_context(Pool& pool, int threads)
      : host_context(
            [](void* engine, index_t tasks, task_function task, void* argument) {
              (*static_cast<Pool*>(engine))(tasks, indexed_task{task, argument});
            },
            const_cast<void*>(static_cast<const void*>(std::addressof(pool))), threads) {}

  /// How many tasks may run at once; verbs split their work by it.
  [[nodiscard]] constexpr int threads() const noexcept { return threads_; }

  /// Runs f(0) .. f(tasks - 1), each once, and returns when all are done. f must not throw.
  template <class F>
  void parallel_for(index_t tasks, F&& f) const {
    static_assert(std::is_nothrow_invocable_v<F&, index_t>, "tasks of a verb must be noexcept");
    if (parallel_ == nullptr || tasks <= 1) {
      for (index_t i = 0; i < tasks; ++i) {
        f(i);
      }
      return;
    }
    using function = std::remove_reference_t<F>;
    parallel_(
        engine_, tasks, [](void* argument, index_t i) noexcept { (*static_cast<function*>(argument))(i); },
        const_cast<void*>(static_cast<const void*>(std::addressof(f))));
  }

 private:
  parallel_function parallel_ = nullptr;
  void* engine_ = nullptr;
  int threads_ = 1;
};

KVPOP_NAMESPACE_END
