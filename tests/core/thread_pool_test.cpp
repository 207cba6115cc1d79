#include "kvpop/core/thread_pool.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/generators.hpp"
#include "support/message_of.hpp"

namespace {

using kvpop::index_t;
using kvpop::thread_pool;

static_assert(!std::is_copy_constructible_v<thread_pool> && !std::is_move_constructible_v<thread_pool>);

}  // namespace

TEST_CASE("1 to 8 threads: every task once, and what tasks wrote is there afterwards") {
  for (int threads = 1; threads <= 8; ++threads) {
    CAPTURE(threads);
    thread_pool pool(threads);
    CHECK(pool.threads() == threads);
    for (const index_t tasks : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      std::vector<index_t> written(static_cast<std::size_t>(tasks), -1);  // plain memory: the pool orders it
      pool.context().parallel_for(tasks, [&](index_t i) noexcept { written[static_cast<std::size_t>(i)] = i * i; });
      for (index_t i = 0; i < tasks; ++i) {
        REQUIRE(written[static_cast<std::size_t>(i)] == i * i);
      }
    }
  }
}

TEST_CASE("a pool of one starts no thread") {
  thread_pool pool(1);
  const std::thread::id caller = std::this_thread::get_id();
  bool here = true;
  pool.context().parallel_for(10, [&](index_t) noexcept { here = here && std::this_thread::get_id() == caller; });
  CHECK(here);
}

TEST_CASE("the caller and the workers all take part when tasks wait for each other") {
  thread_pool pool(4);
  std::atomic<int> arrived{0};
  std::vector<std::thread::id> ids(4);
  pool.context().parallel_for(4, [&](index_t i) noexcept {
    ids[static_cast<std::size_t>(i)] = std::this_thread::get_id();
    arrived.fetch_add(1);
    while (arrived.load() < 4) {  // ends only when four threads run
      std::this_thread::yield();
    }
  });
  CHECK(std::set<std::thread::id>(ids.begin(), ids.end()).size() == 4);
}

TEST_CASE("many small jobs one after the other, each seeing what the last one wrote") {
  for (const int threads : {2, 3, 7}) {
    thread_pool pool(threads);
    const kvpop::host_context ctx = pool.context();
    std::vector<index_t> values(5, 0);
    const int jobs = kvpop_test::draws(5'000);
    for (int job = 0; job < jobs; ++job) {
      ctx.parallel_for(5, [&](index_t i) noexcept { ++values[static_cast<std::size_t>(i)]; });
    }
    CHECK(std::accumulate(values.begin(), values.end(), index_t{0}) == index_t{5} * jobs);
  }
}

TEST_CASE("pools come and go, used or not, idle long enough to sleep or not") {
  for (int i = 0; i < kvpop_test::draws(200); ++i) {
    thread_pool pool(1 + i % 5);
    if (i % 3 == 0) {
      continue;
    }
    std::atomic<int> count{0};
    pool.context().parallel_for(3, [&](index_t) noexcept { count.fetch_add(1); });
    if (i % 20 == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // workers are asleep by now
      pool.context().parallel_for(3, [&](index_t) noexcept { count.fetch_add(1); });
      REQUIRE(count.load() == 6);
    } else {
      REQUIRE(count.load() == 3);
    }
  }
}

TEST_CASE("a task may make a pool of its own") {
  thread_pool outer(3);
  std::atomic<index_t> sum{0};
  outer.context().parallel_for(6, [&](index_t i) noexcept {
    thread_pool inner(2);
    inner.context().parallel_for(10, [&](index_t j) noexcept { sum.fetch_add(10 * i + j); });
  });
  CHECK(sum.load() == 59 * 60 / 2);
}

TEST_CASE("two callers take turns") {
  thread_pool pool(3);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<index_t> sum{0};
  const auto call = [&] {
    for (int i = 0; i < 200; ++i) {
      std::atomic<int> mine{0};
      pool.context().parallel_for(4, [&](index_t task) noexcept {
        if (mine.fetch_add(1) == 0) {
          const int now = inside.fetch_add(1) + 1;
          int before = most.load();
          while (before < now && !most.compare_exchange_weak(before, now)) {
          }
        }
        sum.fetch_add(task);
        if (mine.fetch_add(1) == 7) {  // the last of the job's four tasks
          inside.fetch_sub(1);
        }
      });
    }
  };
  std::thread other(call);
  call();
  other.join();
  CHECK(sum.load() == 2 * 200 * 6);
  CHECK(most.load() == 1);
}

TEST_CASE("a number of threads below 1 is refused") {
  try {
    thread_pool pool(0);
    FAIL("a pool of no threads");
  } catch (const kvpop::error& e) {
    CHECK(std::string(e.what()) == "kvpop: thread_pool: threads is 0; it must be at least 1");
  }
}

#if defined(__GLIBC__) && !defined(KVPOP_SANITIZED)
TEST_CASE("a system that starts no more threads is an error, and those that it started have ended") {
  pthread_attr_t usual;
  pthread_attr_t greedy;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_attr_init(&greedy) == 0);
  // Stacks that no address space has room for: all of them, then all but the first few.
  for (const int bits : {60, 45}) {
    CAPTURE(bits);
    REQUIRE(pthread_attr_setstacksize(&greedy, std::size_t{1} << bits) == 0);
    REQUIRE(pthread_setattr_default_np(&greedy) == 0);
    const std::string message = kvpop_test::message_of([] { const thread_pool pool(8); });
    REQUIRE(pthread_setattr_default_np(&usual) == 0);
    CHECK(message.find("kvpop: thread_pool: threads is 8; the system started ") == 0);
  }
  pthread_attr_destroy(&greedy);
  pthread_attr_destroy(&usual);
  CHECK(thread_pool(3).threads() == 3);  // as before
}
#endif
