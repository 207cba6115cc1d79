#pragma once

#include <cmath>
#include <cstddef>

#include "kvpop/select/top_k.hpp"  // top_k

KVPOP_NAMESPACE_BEGIN

/// Logits of some rows: [rows, vocabulary].
template <class T>
using logits_view = view<T, host_memory, axis::token, axis::dim>;

namespace distill {

/// Scratch of one row.
struct scratch {
  double* teacher = nullptr;  // [vocabulary]
  index_t* best = nullptr;    // [top]
  std::byte* select = nullptr;
  std::size_t bytes = 0;

  static scratch carve(carver& memory, index_t vocabulary, index_t top) {
    scratch s;
    s.teacher = memory.take<double>(vocabulary);
    s.best = memory.take<index_t>(top);
    s.bytes = top_k_workspace({}, 1, vocabulary, top);
    s.select = memory.take<std::byte>(static_cast<index_t>(s.bytes));
    return s;
  }
};

/// The softmax over the chosen logits, shift and sum apart: logits may be so large that their sum would swallow it.
template <class T>
struct chosen_softmax {
  double largest;
  double log_sum;

  chosen_softmax(const T* logits, const index_t* chosen, index_t count) noexcept
      : largest(static_cast<double>(logits[chosen[0]])) {
    for (index_t i = 1; i < count; ++i) {
      const double x = static_cast<double>(logits[chosen[i]]);
      largest = x > largest ? x : largest;
    }
    double sum = 0;
    for (index_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(logits[chosen[i]]) - largest);
    log_sum = std::log(sum);
  }
  [[nodiscard]] double log_of(T logit) const noexcept { return static_cast<double>(logit) - largest - log_sum; }
};

/// KL of one row; its gradient times `weight`, when wanted.
template <class T>
double row(const T* student, const T* teacher, index_t vocabulary, index_t top, double weight, T* gradient,
           const scratch& s) {
  for (index_t i = 0; i < vocabulary; ++i) s.teacher[i] = static_cast<double>(teacher[i]);
  top_k({}, row_view<const double>(s.teacher, {1, vocabulary}), {}, row_view<index_t>(s.best, {1, top}),
        top_k_order::position, {s.select, s.bytes});
  const chosen_softmax<T> of_teacher(teacher, s.best, top);
  const chosen_softmax<T> of_student(student, s.best, top);
  for (index_t i = 0; gradient != nullptr && i < vocabulary; ++i) gradient[i] = T{0};
  double kl = 0;
  for (index_t i = 0; i < top; ++i) {
    const double log_t = of_teacher.log_of(teacher[s.best[i]]);
    const double log_s = of_student.log_of(student[s.best[i]]);
    kl += std::exp(log_t) * (log_t - log_s);
    if (gradient != nullptr) gradient[s.best[i]] = static_cast<T>(weight * (std::exp(log_s) - std::exp(log_t)));
  }
  return kl;
}

}  // namespace distill

/// Bytes of workspace that topk_kl takes.
inline std::size_t topk_kl_workspace(const host_context& ctx, index_t rows, index_t vocabulary, index_t top = 256) {
  carver one;
  static_cast<void>(distill::scratch::carve(one, vocabulary, top < vocabulary ? top : vocabulary));
  carver count;
  count.take<double>(rows);
  count.take<std::byte>(checked_multiply(static_cast<index_t>(one.bytes()), row_tasks(ctx, rows), "topk_kl"));
  return count.bytes();
}

/// KL(teacher || student) over the teacher's `top` largest logits of each row, both renormalised over them; the mean over
/// rows, in nats (docs/method.md section 6; KVpop, arXiv 2607.05061).
///
/// student, teacher  [rows, vocabulary] logits, float or double; ties among the teacher's go to the larger index
/// gradient          [rows, vocabulary] out, of the mean, with respect to the student's logits: zero outside of the top; an
///                   empty view when not wanted
///
/// Errors, before anything is written: unequal extents, rows that are not contiguous or have no data, no rows, top < 1, a small workspace. O(rows * vocabulary); sums in
/// double. Parallel over rows; does not allocate.
template <class T>
double topk_kl(const host_context& ctx, const logits_view<const T>& student, const logits_view<const T>& teacher,
               const logits_view<T>& gradient, index_t top, const workspace& memory) {
  const index_t rows = teacher.extents()[0];
  const index_t vocabulary = teacher.extents()[1];
  expects(rows >= 1, "topk_kl: teacher.extent(token)", rows, "at least 1");
  expects(vocabulary >= 1, "topk_kl: teacher.extent(dim)", vocabulary, "at least 1");
  expects(top >= 1, "topk_kl: top", top, "at least 1");
  expects_equal("topk_kl: student.extent(token)", student.extents()[0], rows, "the teacher");
  expects_equal("topk_kl: student.extent(dim)", student.extents()[1], vocabulary, "the teacher");
  const bool wanted = gradient.data() != nullptr;
  if (wanted) {
    expects_equal("topk_kl: gradient.extent(token)", gradient.extents()[0], rows, "the teacher");
    expects_equal("topk_kl: gradient.extent(dim)", gradient.extents()[1], vocabulary, "the teacher");
    expects_rows("topk_kl: gradient", gradient);
  }
  expects_rows("topk_kl: student", student);
  expects_rows("topk_kl: teacher", teacher);
  const index_t chosen = top < vocabulary ? top : vocabulary;
  const index_t tasks = row_tasks(ctx, rows);
  carver one;
  static_cast<void>(distill::scratch::carve(one, vocabulary, chosen));
  carver arrays(memory, "topk_kl");
  double* const losses = arrays.take<double>(rows);
  std::byte* const workers = arrays.take<std::byte>(static_cast<index_t>(one.bytes()) * tasks);
  ctx.parallel_for(tasks, [&](index_t task) noexcept {
    carver own({workers + static_cast<std::size_t>(task) * one.bytes(), one.bytes()}, "topk_kl");
    const auto s = distill::scratch::carve(own, vocabulary, chosen);
    for (index_t i = task; i < rows; i += tasks) {
      losses[i] = distill::row(student.row(i), teacher.row(i), vocabulary, chosen, 1.0 / static_cast<double>(rows),
                               wanted ? gradient.row(i) : nullptr, s);
    }
  });
  double sum = 0;
  for (index_t i = 0; i < rows; ++i) sum += losses[i];
  return sum / static_cast<double>(rows);
}

KVPOP_NAMESPACE_END
