#include "kvpop/core/context.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "support/message_of.hpp"

namespace {

using kvpop::host_context;
using kvpop::index_t;
using kvpop_test::message_of;

static_assert(std::is_trivially_copyable_v<host_context>);

// How often each task was run.
std::vector<int> runs(const host_context& ctx, index_t tasks) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(tasks));
  ctx.parallel_for(tasks, [&](index_t i) noexcept { counts[static_cast<std::size_t>(i)].fetch_add(1); });
  return {counts.begin(), counts.end()};
}

bool each_once(const host_context& ctx) {
  for (const index_t tasks : {index_t{0}, index_t{1}, index_t{2}, index_t{7}, index_t{1000}}) {
    if (runs(ctx, tasks) != std::vector<int>(static_cast<std::size_t>(tasks), 1)) {
      return false;
    }
  }
  return true;
}

// An engine's parallel_for behind a function pointer: its own threads, its own order.
struct engine {
  int calls = 0;
  index_t last_tasks = 0;
};

void run_on_engine(void* object, index_t tasks, host_context::task_function task, void* argument) {
  auto& e = *static_cast<engine*>(object);
  ++e.calls;
  e.last_tasks = tasks;
  std::thread odd([=] {
    for (index_t i = 1; i < tasks; i += 2) {
      task(argument, i);
    }
  });
  for (index_t i = 0; i < tasks; i += 2) {
    task(argument, i);
  }
  odd.join();
}

// An engine's parallel_for as an object with state.
struct backwards {
  int calls = 0;
  template <class F>
  void operator()(index_t tasks, F&& f) {
    ++calls;
    for (index_t i = tasks; i-- > 0;) {
      f(i);
    }
  }
};

}  // namespace

TEST_CASE("the calling thread, in order") {
  constexpr host_context ctx;
  static_assert(ctx.threads() == 1);
  CHECK(each_once(ctx));
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<index_t> order;
  bool here = true;
  ctx.parallel_for(5, [&](index_t i) noexcept {
    order.push_back(i);
    here = here && std::this_thread::get_id() == caller;
  });
  CHECK(order == std::vector<index_t>{0, 1, 2, 3, 4});
  CHECK(here);
}

TEST_CASE("an engine behind a function pointer") {
  engine e;
  const host_context ctx(run_on_engine, &e, 2);
  CHECK(ctx.threads() == 2);
  CHECK(each_once(ctx));
  CHECK(e.calls > 0);
  CHECK(e.last_tasks == 1000);
  const int before = e.calls;
  ctx.parallel_for(1, [](index_t) noexcept {});  // one task stays on the calling thread
  ctx.parallel_for(0, [](index_t) noexcept {});
  CHECK(e.calls == before);
}

TEST_CASE("an engine as an object: with state, const, a lambda, a std::function signature") {
  backwards stateful;
  CHECK(each_once(host_context(stateful, 3)));
  CHECK(stateful.calls > 0);

  const auto constant = [](index_t tasks, const auto& f) {
    for (index_t i = 0; i < tasks; ++i) {
      f(i);
    }
  };
  const host_context of_const(constant, 4);
  CHECK(of_const.threads() == 4);
  CHECK(each_once(of_const));

  auto by_function = [](std::int64_t tasks, const std::function<void(std::int64_t)>& f) {
    for (std::int64_t i = 0; i < tasks; ++i) {
      f(i);
    }
  };
  CHECK(each_once(host_context(by_function, 2)));
}

TEST_CASE("what is no parallel_for is refused by the constructor's constraint") {
  struct not_a_pool {};
  struct by_pointer {
    void operator()(index_t, void (*)(index_t)) {}  // cannot take a task with state
  };
  static_assert(!std::is_constructible_v<host_context, not_a_pool&, int>);
  static_assert(!std::is_constructible_v<host_context, by_pointer&, int>);
  CHECK(std::is_constructible_v<host_context, kvpop::host_context::parallel_function, void*, int>);
}

TEST_CASE("a pool that somebody owns") {
  kvpop::thread_pool pool(3);
  const host_context ctx = pool.context();
  CHECK(ctx.threads() == 3);
  CHECK(each_once(ctx));
  const host_context copy = ctx;
  CHECK(each_once(copy));
}

TEST_CASE("f is called where it is, not copied; const functions and rvalues go too") {
  struct counter {
    std::atomic<index_t>* sum;
    counter(std::atomic<index_t>* s) : sum(s) {}  // NOLINT(google-explicit-constructor)
    counter(const counter&) = delete;
    void operator()(index_t i) const noexcept { sum->fetch_add(i); }
  };
  kvpop::thread_pool pool(2);
  std::atomic<index_t> sum{0};
  const counter c(&sum);
  pool.context().parallel_for(100, c);
  pool.context().parallel_for(100, counter(&sum));
  host_context().parallel_for(100, c);
  CHECK(sum.load() == 3 * 4950);
}

TEST_CASE("a number of threads below 1 is refused") {
  engine e;
  CHECK(message_of([&] { host_context(run_on_engine, &e, 0); }) ==
        "kvpop: host_context: threads is 0; it must be at least 1");
  auto pool = [](index_t, const auto&) {};
  CHECK(message_of([&] { host_context(pool, -2); }) == "kvpop: host_context: threads is -2; it must be at least 1");
}
