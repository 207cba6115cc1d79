#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

/// The cache of docs/method.md section 2 in the slowest words that say it: one std::map of tokens a head, and a full sort
/// wherever one token is to go. Shares nothing with the library, so that the two can be compared.
namespace kvpop_test {

/// One held token of one head.
struct model_token {
  std::int64_t slot = -1;
  double priority = std::numeric_limits<double>::quiet_NaN();  // NaN until it is scored
  bool pinned = false;
  std::vector<float> key;    // as stored: rounded to the cache's type
  std::vector<float> value;  // as stored
};

/// The token that a step dropped and the slot it left; -1 when nothing was dropped.
struct model_eviction {
  std::int64_t position = -1;
  std::int64_t slot = -1;
};

/// What decides: the budget and the scorer as plain functions. x = [key ; value] as stored.
struct model_rules {
  std::int64_t sinks = 0;
  std::int64_t window = 1;
  std::int64_t topk = 0;
  std::int64_t delay = 0;
  std::vector<float> log_gamma;     // [kv_heads]; empty: no decay
  std::vector<float> first_memory;  // at the start of a sequence
  std::function<void(std::int64_t head, std::int64_t position, const std::vector<float>& x, std::vector<float>& memory)>
      observe;  // empty: nothing
  std::function<float(std::int64_t head, std::int64_t position, const std::vector<float>& x,
                      const std::vector<float>& memory)>
      score;  // empty: every token has priority 0

  [[nodiscard]] std::int64_t capacity() const { return sinks + window + topk; }
};

/// The order of method.md section 2: NaN below every number, -0 equal to +0, of equal priorities the earlier goes first.
inline bool goes_before(double priority, std::int64_t position, double other, std::int64_t other_position) {
  if (std::isnan(priority) != std::isnan(other)) {
    return std::isnan(priority);
  }
  if (!std::isnan(priority) && priority != other) {
    return priority < other;
  }
  return position < other_position;
}

/// One sequence of the batch. A value: copying it is `assign`.
class model_sequence {
 public:
  struct head {
    std::map<std::int64_t, model_token> held;  // by position
    std::vector<float> memory;
  };

  model_sequence(const model_rules& rules, std::int64_t kv_heads) : rules_(&rules) { reset(kv_heads); }

  void reset(std::int64_t kv_heads) {
    seen_ = 0;
    heads_.assign(static_cast<std::size_t>(kv_heads), {});
    for (head& h : heads_) {
      h.memory.assign(rules_->first_memory.size(), 0.0F);
    }
  }

  [[nodiscard]] std::int64_t seen() const { return seen_; }
  [[nodiscard]] const std::vector<head>& heads() const { return heads_; }

  /// Pinned tokens that are not sinks.
  [[nodiscard]] std::int64_t pins() const {
    return std::count_if(heads_[0].held.begin(), heads_[0].held.end(),
                         [&](const auto& entry) { return entry.second.pinned && entry.first >= rules_->sinks; });
  }

  /// The next token: keys[head], values[head] as stored. Returns what each head dropped.
  std::vector<model_eviction> append(const std::vector<std::vector<float>>& keys,
                                     const std::vector<std::vector<float>>& values) {
    std::vector<model_eviction> dropped;
    for (std::size_t h = 0; h < heads_.size(); ++h) {
      dropped.push_back(append(static_cast<std::int64_t>(h), heads_[h], keys[h], values[h]));
    }
    ++seen_;
    return dropped;
  }

  /// False, and no change, where pinning is an error.
  bool pin(std::int64_t position) {
    if (!held_everywhere(position)) {
      return false;
    }
    if (!heads_[0].held.at(position).pinned && position >= rules_->sinks && pins() >= rules_->topk) {
      return false;
    }
    set_pinned(position, true);
    return true;
  }

  bool unpin(std::int64_t position) {
    if (!held_everywhere(position)) {
      return false;
    }
    set_pinned(position, false);
    return true;
  }

 private:
  model_eviction append(std::int64_t h, head& state, const std::vector<float>& key, const std::vector<float>& value) {
    const std::int64_t q = seen_;
    const auto held_before = static_cast<std::int64_t>(state.held.size());
    if (q == 0) {
      state.memory = rules_->first_memory;
    }
    if (rules_->observe) {
      rules_->observe(h, q, joined(key, value), state.memory);
    }
    model_token& newest = state.held[q];
    newest.key = key;
    newest.value = value;
    score(h, q, state);
    newest.slot = held_before;
    model_eviction dropped;
    if (held_before == rules_->capacity()) {
      dropped.position = weakest(state, q);
      dropped.slot = state.held.at(dropped.position).slot;
      newest.slot = dropped.slot;
      state.held.erase(dropped.position);
    }
    return dropped;
  }

  // Scores the token that is `delay` behind q.
  void score(std::int64_t h, std::int64_t q, head& state) const {
    if (!rules_->score) {
      state.held.at(q).priority = 0;
      return;
    }
    const std::int64_t t = q - rules_->delay;
    if (t < 0) {
      return;
    }
    model_token& token = state.held.at(t);
    const double r = rules_->score(h, t, joined(token.key, token.value), state.memory);
    const double lg = rules_->log_gamma.empty() ? 0.0 : rules_->log_gamma[static_cast<std::size_t>(h)];
    token.priority = r - static_cast<double>(t) * lg;  // the product is exact below position 2^29
  }

  // The position to drop at query q: the last of all candidates in a full sort.
  [[nodiscard]] std::int64_t weakest(const head& state, std::int64_t q) const {
    std::vector<std::pair<double, std::int64_t>> candidates;
    for (const auto& [position, token] : state.held) {
      if (position >= rules_->sinks && position <= q - rules_->window && !token.pinned) {
        candidates.emplace_back(token.priority, position);
      }
    }
    std::sort(candidates.begin(), candidates.end(),
              [](const auto& a, const auto& b) { return goes_before(a.first, a.second, b.first, b.second); });
    return candidates.at(0).second;
  }

  [[nodiscard]] bool held_everywhere(std::int64_t position) const {
    return std::all_of(heads_.begin(), heads_.end(), [&](const head& h) { return h.held.count(position) == 1; });
  }

  void set_pinned(std::int64_t position, bool pinned) {
    for (head& h : heads_) {
      h.held.at(position).pinned = pinned;
    }
  }

  static std::vector<float> joined(std::vector<float> key, const std::vector<float>& value) {
    key.insert(key.end(), value.begin(), value.end());
    return key;
  }

  const model_rules* rules_;
  std::int64_t seen_ = 0;
  std::vector<head> heads_;
};

}  // namespace kvpop_test
