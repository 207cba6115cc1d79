#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

/// Attention and the methods that follow its weights, in double, one token at a time (docs/method.md sections 2 and 7).
/// Shares nothing with the library.
namespace kvpop_test {

using numbers = std::vector<double>;

/// What one query gets from some keys.
struct attended_row {
  numbers out;
  double lse = -std::numeric_limits<double>::infinity();
  numbers weights;  // one a key
};

struct logit_rules {
  double scale = 1;
  double soft_cap = 0;  // 0: none
};

inline double logit_of(const numbers& query, const numbers& key, const logit_rules& rules) {
  double dot = 0;
  for (std::size_t d = 0; d < query.size(); ++d) {
    dot += query[d] * key[d];
  }
  dot *= rules.scale;
  return rules.soft_cap > 0 ? rules.soft_cap * std::tanh(dot / rules.soft_cap) : dot;
}

/// softmax(query . keys) values; no keys give zeros.
inline attended_row attend(const numbers& query, const std::vector<const numbers*>& keys,
                           const std::vector<const numbers*>& values, std::size_t value_dim, const logit_rules& rules) {
  attended_row row;
  row.out.assign(value_dim, 0.0);
  if (keys.empty()) {
    return row;
  }
  double largest = -std::numeric_limits<double>::infinity();
  for (const numbers* key : keys) {
    row.weights.push_back(logit_of(query, *key, rules));
    largest = std::fmax(largest, row.weights.back());
  }
  double sum = 0;
  for (double& w : row.weights) {
    w = std::exp(w - largest);
    sum += w;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    row.weights[i] /= sum;
    for (std::size_t d = 0; d < value_dim; ++d) {
      row.out[d] += row.weights[i] * (*values[i])[d];
    }
  }
  row.lse = largest + std::log(sum);
  return row;
}

/// One KV head under TOVA or H2O: priorities follow the weights, mean over the group.
class attention_follower {
 public:
  struct rules {
    std::int64_t sinks;
    std::int64_t window;
    std::int64_t capacity;
    bool accumulates;  // H2O; else TOVA
    logit_rules logits;
  };

  explicit attention_follower(const rules& r) : rules_(r) {}

  /// The next token: its key, its value and the queries of the group; `dropped` is what the library evicted for it, -1 for
  /// nothing. Returns what is wrong with that, or "". Where the choice hangs on less than `tolerance` both are right, and
  /// the library's is followed. outs receives the group's outputs.
  std::string step(const numbers& key, const numbers& value, const std::vector<numbers>& queries, std::int64_t dropped,
                   double tolerance, std::vector<attended_row>& outs) {
    const std::int64_t q = next_++;
    std::string wrong;
    if (static_cast<std::int64_t>(held_.size()) == rules_.capacity) {
      wrong = drop(q, dropped, tolerance);
    } else if (dropped != -1) {
      wrong = "dropped " + std::to_string(dropped) + " though there was room";
    }
    held_[q] = {key, value, 0.0};
    attend_all(queries, value.size(), outs);
    return wrong;
  }

  /// Priority of a held position; NaN where it is not held.
  [[nodiscard]] double priority(std::int64_t position) const {
    const auto it = held_.find(position);
    return it == held_.end() ? std::numeric_limits<double>::quiet_NaN() : it->second.priority;
  }
  [[nodiscard]] std::size_t held() const { return held_.size(); }

 private:
  struct token {
    numbers key;
    numbers value;
    double priority;
  };

  std::string drop(std::int64_t q, std::int64_t dropped, double tolerance) {
    std::int64_t weakest = -1;
    for (const auto& [position, t] : held_) {  // in order of positions: of equal ones the earliest stays chosen
      if (position < rules_.sinks || position > q - rules_.window) {
        continue;
      }
      if (weakest < 0 || t.priority < held_.at(weakest).priority) {
        weakest = position;
      }
    }
    const bool candidate = held_.count(dropped) == 1 && dropped >= rules_.sinks && dropped <= q - rules_.window;
    if (!candidate || held_.at(dropped).priority - held_.at(weakest).priority > tolerance) {
      return "dropped " + std::to_string(dropped) + " at " + std::to_string(q) + ", not " + std::to_string(weakest);
    }
    held_.erase(dropped);
    return "";
  }

  void attend_all(const std::vector<numbers>& queries, std::size_t value_dim, std::vector<attended_row>& outs) {
    std::vector<const numbers*> keys;
    std::vector<const numbers*> values;
    for (const auto& entry : held_) {
      keys.push_back(&entry.second.key);
      values.push_back(&entry.second.value);
    }
    numbers mean(held_.size(), 0.0);
    outs.clear();
    for (const numbers& query : queries) {
      outs.push_back(attend(query, keys, values, value_dim, rules_.logits));
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += outs.back().weights[i] / static_cast<double>(queries.size());
      }
    }
    std::size_t i = 0;
    for (auto& entry : held_) {
      entry.second.priority = (rules_.accumulates ? entry.second.priority : 0.0) + mean[i++];
    }
  }

  rules rules_;
  std::int64_t next_ = 0;
  std::map<std::int64_t, token> held_;
};

/// A row of numbers of any scalar type as doubles.
template <class It>
numbers as_numbers(It from, std::int64_t count) {
  numbers x;
  for (std::int64_t i = 0; i < count; ++i) {
    x.push_back(static_cast<double>(static_cast<float>(from[i])));
  }
  return x;
}

}  // namespace kvpop_test
