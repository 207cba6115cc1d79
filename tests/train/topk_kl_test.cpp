#include "kvpop/train/topk_kl.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "support/message_of.hpp"   // message_of
#include "support/train_cases.hpp"  // normals

using kvpop::index_t;

namespace {

template <class T>
double run(const kvpop::host_context& ctx, index_t rows, index_t vocabulary, const std::vector<T>& student,
           const std::vector<T>& teacher, std::vector<T>* gradient, index_t top) {
  std::vector<std::byte> memory(kvpop::topk_kl_workspace(ctx, rows, vocabulary, top));
  return kvpop::topk_kl<T>(
      ctx, {student.data(), {rows, vocabulary}}, {teacher.data(), {rows, vocabulary}},
      gradient == nullptr ? kvpop::logits_view<T>{} : kvpop::logits_view<T>{gradient->data(), {rows, vocabulary}}, top,
      {memory.data(), memory.size()});
}

TEST_CASE_TEMPLATE("distill.* of the golden data", T, float, double) {
  const auto s = golden::tensor<double>("distill.student"), t = golden::tensor<double>("distill.teacher");
  const std::vector<T> student(s.values.begin(), s.values.end()), teacher(t.values.begin(), t.values.end());
  std::vector<T> gradient(student.size(), T{9});
  kvpop::thread_pool pool(2);
  const double loss = run<T>(pool.context(), s.shape[0], s.shape[1], student, teacher, &gradient, 256);
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-10;
  const double want = golden::tensor<double>("distill.loss").values[0];
  CHECK(std::abs(loss - want) <= tolerance * want);
  CHECK(kvpop_test::worst_of_largest(gradient, golden::tensor<double>("distill.grad_student").values) <= tolerance);
  CHECK(run<T>({}, s.shape[0], s.shape[1], student, teacher, nullptr, 256) == loss);
}

TEST_CASE("the gradient is that of central differences, for a top beyond the vocabulary, ties and one column") {
  kvpop_test::generator random(890);
  for (int draw = 0; draw < kvpop_test::draws(200); ++draw) {
    const index_t rows = random.integer(1, 3), vocabulary = random.integer(1, 9), top = random.integer(1, 12);
    auto student = kvpop_test::normals<double>(random, rows * vocabulary, 2.0);
    std::vector<double> teacher;
    for (index_t i = 0; i < rows * vocabulary; ++i) teacher.push_back(static_cast<double>(random.integer(-2, 2)));
    std::vector<double> gradient(student.size());
    REQUIRE(run({}, rows, vocabulary, student, teacher, &gradient, top) >= -1e-12);
    for (std::size_t i = 0; i < student.size(); ++i) {
      const double kept = student[i], step = 1e-5;
      student[i] = kept + step;
      const double above = run<double>({}, rows, vocabulary, student, teacher, nullptr, top);
      student[i] = kept - step;
      const double below = run<double>({}, rows, vocabulary, student, teacher, nullptr, top);
      student[i] = kept;
      REQUIRE(std::abs((above - below) / (2 * step) - gradient[i]) <= 1e-7);
    }
  }
}

TEST_CASE("huge logits stay finite, and equal ones cost nothing") {
  const std::vector<float> teacher{1e30F, -1e30F, 5.0F}, student{1e30F, 1e30F, 0.0F};
  std::vector<float> gradient(3);
  CHECK(run<float>({}, 1, 3, teacher, teacher, &gradient, 256) == 0.0);
  for (const float g : gradient) CHECK(g == 0.0F);
  CHECK(run<float>({}, 1, 3, student, teacher, &gradient, 256) == doctest::Approx(std::log(2.0)));
}

TEST_CASE("what does not fit is refused by name, and nothing is written") {
  using kvpop_test::message_of;
  const std::vector<float> x(6);
  std::vector<float> gradient(6, 4.0F);
  std::vector<std::byte> memory(kvpop::topk_kl_workspace({}, 2, 3));
  const auto message = [&](index_t rows, index_t columns, index_t top, std::size_t bytes) {
    return message_of([&] {
      kvpop::topk_kl<float>({}, {x.data(), {rows, columns}}, {x.data(), {2, 3}}, {gradient.data(), {2, 3}}, top,
                            {memory.data(), bytes});
    });
  };
  CHECK(message(1, 3, 2, memory.size()) == "kvpop: topk_kl: student.extent(token) is 1; the teacher has 2");
  CHECK(message(2, 2, 2, memory.size()) == "kvpop: topk_kl: student.extent(dim) is 2; the teacher has 3");
  CHECK(message(2, 3, 0, memory.size()) == "kvpop: topk_kl: top is 0; it must be at least 1");
  const auto run = [&](kvpop::logits_view<const float> student, kvpop::logits_view<const float> teacher,
                       kvpop::logits_view<float> to) {
    return message_of([&] { kvpop::topk_kl<float>({}, student, teacher, to, 2, {memory.data(), memory.size()}); });
  };
  const kvpop::logits_view<const float> logits(x.data(), {2, 3}), apart(x.data(), {2, 3}, {1, 2}),
      missing(nullptr, {2, 3});
  const kvpop::logits_view<float> to(gradient.data(), {2, 3});
  CHECK(run(apart, logits, to) == "kvpop: topk_kl: student.stride(dim) is 2; it must be 1");
  CHECK(run(logits, apart, to) == "kvpop: topk_kl: teacher.stride(dim) is 2; it must be 1");
  CHECK(run(missing, logits, to) == "kvpop: topk_kl: student has no data");
  CHECK(run(logits, missing, to) == "kvpop: topk_kl: teacher has no data");
  CHECK(run(logits, logits, {gradient.data(), {2, 3}, {1, 2}}) ==
        "kvpop: topk_kl: gradient.stride(dim) is 2; it must be 1");
  CHECK(message(2, 3, 2, 10).substr(0, 45) == "kvpop: topk_kl: workspace.bytes is 10; at lea");
  for (const float g : gradient) CHECK(g == 4.0F);
}

}  // namespace
