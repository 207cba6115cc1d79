#include "kvpop/core/buffer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "kvpop/core/error.hpp"
#include "support/counting_allocator.hpp"
#include "support/message_of.hpp"

namespace {

using kvpop::index_t;
using kvpop_test::allocation_counts;
using kvpop_test::counting_allocator;
using kvpop_test::failure;
using kvpop_test::message_of;
using floats = kvpop::buffer<float, kvpop::host_memory, counting_allocator>;

static_assert(!std::is_copy_constructible_v<kvpop::buffer<float>> && !std::is_copy_assignable_v<kvpop::buffer<float>>);
static_assert(std::is_nothrow_move_constructible_v<floats> && std::is_nothrow_move_assignable_v<floats>);
static_assert(kvpop::byte_allocator<kvpop::host_allocator> && kvpop::byte_allocator<counting_allocator>);
static_assert(sizeof(kvpop::buffer<float>) == 2 * sizeof(void*), "a stateless allocator takes no room");
static_assert(!std::is_same_v<kvpop::buffer<float>, kvpop::buffer<float, kvpop::device_memory>>);

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

}  // namespace

TEST_CASE("an array of the asked size, aligned to 64 bytes, returned once") {
  allocation_counts counts;
  {
    floats b(7, counting_allocator(counts));
    CHECK(b.size() == 7);
    CHECK(b.bytes() == 28);
    CHECK(aligned(b.data()));
    CHECK(counts.allocations == 1);
    CHECK(counts.bytes == 28);
    CHECK(counts.alignment == 64);
    b.data()[6] = 2.0F;
    const floats& c = b;
    CHECK(c.data()[6] == 2.0F);
  }
  CHECK(counts.deallocations == 1);
  CHECK(counts.bytes == 0);
}

TEST_CASE("no elements, no allocation") {
  allocation_counts counts;
  {
    floats b(0, counting_allocator(counts));
    CHECK(b.data() == nullptr);
    CHECK(b.size() == 0);
    CHECK(b.bytes() == 0);
  }
  CHECK(counts.allocations == 0);
  CHECK(counts.deallocations == 0);
  const kvpop::buffer<double> none;
  CHECK(none.data() == nullptr);
}

TEST_CASE("moving hands the array on; what is moved from is empty") {
  allocation_counts first;
  allocation_counts second;
  {
    floats a(3, counting_allocator(first));
    const float* data = a.data();
    floats b(std::move(a));
    CHECK(b.data() == data);
    CHECK(a.data() == nullptr);  // NOLINT(bugprone-use-after-move): that is the promise
    CHECK(a.size() == 0);
    floats c(5, counting_allocator(second));
    c = std::move(b);
    CHECK(c.data() == data);
    CHECK(c.size() == 3);
    CHECK(b.data() == nullptr);  // NOLINT(bugprone-use-after-move)
    CHECK(second.deallocations == 1);
    floats& same = c;
    c = std::move(same);  // to itself: nothing happens
    CHECK(c.data() == data);
    CHECK(c.size() == 3);
    CHECK(first.deallocations == 0);
    a = std::move(c);
    CHECK(a.data() == data);
  }
  CHECK(first.allocations == 1);
  CHECK(first.deallocations == 1);
  CHECK(first.bytes == 0);
  CHECK(second.bytes == 0);
}

TEST_CASE("the default allocator") {
  kvpop::buffer<double> b(1000);
  CHECK(aligned(b.data()));
  b.data()[999] = 1.0;
  kvpop::buffer<double> c = std::move(b);
  CHECK(c.data()[999] == 1.0);
}

TEST_CASE("sizes that cannot be, and memory that is not to be had") {
  allocation_counts counts;
  CHECK(message_of([&] { floats(-1, counting_allocator(counts)); }) ==
        "kvpop: buffer: count is -1; it must be at least 0");
  CHECK(message_of([&] { floats(std::numeric_limits<index_t>::max(), counting_allocator(counts)); }) ==
        "kvpop: buffer: 9223372036854775807 * 4 does not fit 63 bits");
  CHECK(message_of([&] { floats(5, counting_allocator(counts, failure::null)); }) ==
        "kvpop: buffer: 20 bytes could not be allocated");
  CHECK_THROWS_AS(floats(5, counting_allocator(counts, failure::bad_alloc)), std::bad_alloc);
  CHECK(counts.allocations == 0);
  CHECK(counts.deallocations == 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)  // they report such a size
  CHECK(message_of([] { kvpop::buffer<float>(index_t{1} << 58); }) ==
        "kvpop: buffer: 1152921504606846976 bytes could not be allocated");
#endif
}
