#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "kvpop/cache/append.hpp"
#include "kvpop/cache/pin.hpp"
#include "support/cache_block.hpp"
#include "support/cache_model.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"

// The real cache against the slow one of support/cache_model.hpp, under 10^6 random operations in all.

using namespace kvpop_test;

namespace {

constexpr int total_operations = 1'000'000;
constexpr int operations_a_cache = 250;

template <class T>
float rounded(float value) {
  return kvpop::scalar_traits<T>::to_float(kvpop::scalar_traits<T>::from_float(value));
}

bool same_float(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }
bool same_priority(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

// One random cache, its model, and the random operations on both.
template <class T, index_t KeyDim, index_t ValueDim, class Scorer>
class duel {
 public:
  using block = cache_block<T, KeyDim, ValueDim>;

  explicit duel(std::uint64_t stream) : random_(stream), real_(draw_shape(), draw_budget()) {
    const kvpop::budget limits = real_.ref().budget();
    rules_.sinks = limits.sinks;
    rules_.window = limits.window;
    rules_.topk = limits.topk;
    if (random_.chance(0.5)) {
      for (index_t h = 0; h < heads(); ++h) {
        rules_.log_gamma.push_back(-0.1F * static_cast<float>(random_.integer(0, 9)));
      }
    }
    define_scorer();
    rows_.assign(static_cast<std::size_t>(real_.ref().sequences()), model_sequence(rules_, heads()));
  }

  // Returns what went wrong first, or "".
  std::string run(int operations) {
    for (int i = 0; i < operations; ++i) {
      std::string wrong = step();
      if (wrong.empty()) {
        wrong = compare();
      }
      if (!wrong.empty()) {
        return wrong + " after operation " + std::to_string(i) + " (" + last_ + ")";
      }
    }
    return "";
  }

 private:
  kvpop::cache_shape draw_shape() {
    return {.sequences = random_.integer(1, 3),
            .kv_heads = random_.pick<index_t>({1, 1, 2, 3}),
            .memory = std::is_same_v<Scorer, memory_scorer> ? random_.integer(2, 3) : random_.pick<index_t>({0, 0, 5})};
  }
  kvpop::budget draw_budget() {
    return {.sinks = random_.pick<index_t>({0, 0, 1, 2, 4}),
            .window = random_.pick<index_t>({1, 1, 2, 3, 5, 8}),
            .topk = random_.pick<index_t>({0, 1, 2, 3, 7, 19})};
  }

  void define_scorer() {
    const float* decay = rules_.log_gamma.empty() ? nullptr : rules_.log_gamma.data();
    if constexpr (!std::is_same_v<Scorer, attending_probe>) {
      rules_.delay = random_.pick<index_t>({0, std::min<index_t>(1, rules_.window), rules_.window - 1, rules_.window});
      scorer_.lag = rules_.delay;
      scorer_.decay = decay;
      rules_.score = [](auto, auto, const auto& x, const auto&) { return x[0]; };
    }
    rules_.first_memory.assign(static_cast<std::size_t>(real_.ref().shape().memory), 0.0F);
    if constexpr (std::is_same_v<Scorer, memory_scorer>) {
      scorer_.width = KeyDim + ValueDim;
      rules_.first_memory[0] = memory_scorer::first_hash;
      rules_.observe = [](index_t head, index_t position, const std::vector<float>& x, std::vector<float>& memory) {
        memory[0] =
            static_cast<float>(absorbed(static_cast<std::uint32_t>(memory[0]), head, position, x.front(), x.back()));
        memory[1] += 1.0F;
      };
      rules_.score = [](auto, auto, const auto& x, const auto& memory) { return x[0] + memory[0]; };
    }
  }

  [[nodiscard]] index_t heads() const { return real_.ref().kv_heads(); }
  [[nodiscard]] index_t sequences() const { return real_.ref().sequences(); }
  index_t any_sequence() { return random_.integer(0, sequences() - 1); }

  std::string step() {
    const index_t kind = random_.integer(0, 99);
    if (kind < 62) {
      return append();
    }
    if (kind < 80) {
      return pin(true);
    }
    if (kind < 95) {
      return pin(false);
    }
    if (kind < 97) {
      last_ = "reset";
      const index_t b = any_sequence();
      kvpop::reset(real_.ref(), b);
      rows_[static_cast<std::size_t>(b)].reset(heads());
    } else if (kind < 99 || random_.chance(0.7)) {
      last_ = "assign";
      const index_t to = any_sequence();
      const index_t from = any_sequence();
      kvpop::assign(real_.ref(), to, real_.ref(), from);
      rows_[static_cast<std::size_t>(to)] = model_sequence(rows_[static_cast<std::size_t>(from)]);
    } else {
      last_ = "clear";
      kvpop::clear(real_.ref());
      for (model_sequence& row : rows_) {
        row.reset(heads());
      }
    }
    return "";
  }

  std::string append() {
    const index_t most = std::is_same_v<Scorer, attending_probe> ? 1 : random_.pick<index_t>({1, 1, 1, 2, 3, 5, 13});
    last_ = "append of " + std::to_string(most);
    draw_tokens(most);
    std::vector<index_t> counts;
    if (random_.chance(0.5)) {
      for (index_t b = 0; b < sequences(); ++b) {
        counts.push_back(random_.integer(0, most));
      }
    }
    const bool report = random_.chance(0.7);
    evicted_.assign(static_cast<std::size_t>(sequences() * most * heads()), {-7, -7});
    kvpop::append_params params{.counts = counts, .evicted = {}};
    if (report) {
      params.evicted = {evicted_.data(), {sequences(), most, heads()}};
    }
    const kvpop::chunk_view<const float> k(keys_.data(), {sequences(), most, heads(), KeyDim});
    const kvpop::chunk_view<const float> v(values_.data(), {sequences(), most, heads(), ValueDim});
    kvpop::append(kvpop::host_context(), real_.ref(), scorer_, k, v, params);
    for (index_t b = 0; b < sequences(); ++b) {
      for (index_t i = 0; i < most; ++i) {
        const bool own = counts.empty() || i < counts[static_cast<std::size_t>(b)];
        const std::vector<model_eviction> dropped =
            own ? append_to_model(k, v, b, i)
                : std::vector<model_eviction>(static_cast<std::size_t>(heads()), model_eviction{-7, -7});
        for (index_t h = 0; report && h < heads(); ++h) {
          const kvpop::eviction& told = params.evicted(b, i, h);
          const model_eviction& wanted = dropped[static_cast<std::size_t>(h)];
          if (told.position != wanted.position || told.slot != wanted.slot) {
            return "evicted " + std::to_string(told.position) + " from slot " + std::to_string(told.slot) + ", not " +
                   std::to_string(wanted.position) + " from " + std::to_string(wanted.slot);
          }
        }
      }
    }
    return "";
  }

  std::vector<model_eviction> append_to_model(const kvpop::chunk_view<const float>& k,
                                              const kvpop::chunk_view<const float>& v, index_t b, index_t i) {
    std::vector<std::vector<float>> keys;
    std::vector<std::vector<float>> values;
    for (index_t h = 0; h < heads(); ++h) {
      keys.emplace_back(k.row(b, i, h), k.row(b, i, h) + KeyDim);
      values.emplace_back(v.row(b, i, h), v.row(b, i, h) + ValueDim);
      std::transform(keys.back().begin(), keys.back().end(), keys.back().begin(), rounded<T>);
      std::transform(values.back().begin(), values.back().end(), values.back().begin(), rounded<T>);
    }
    return rows_[static_cast<std::size_t>(b)].append(keys, values);
  }

  void draw_tokens(index_t tokens) {
    keys_.resize(static_cast<std::size_t>(sequences() * tokens * heads() * KeyDim));
    values_.resize(static_cast<std::size_t>(sequences() * tokens * heads() * ValueDim));
    for (float& x : keys_) {
      x = random_.score();
    }
    for (float& x : values_) {
      x = random_.score();
    }
  }

  // Pins or unpins a position that is often legal. An error must change nothing, not one byte.
  std::string pin(bool up) {
    last_ = up ? "pin" : "unpin";
    const index_t b = any_sequence();
    model_sequence& row = rows_[static_cast<std::size_t>(b)];
    index_t position = random_.integer(-2, row.seen() + 1);
    const auto& held = row.heads()[0].held;
    if (!held.empty() && random_.chance(0.7)) {
      auto it = held.begin();
      std::advance(it, random_.integer(0, static_cast<index_t>(held.size()) - 1));
      position = it->first;
    }
    last_ += " of " + std::to_string(position);
    before_.assign(real_.data(), real_.data() + real_.size());
    const bool legal = up ? row.pin(position) : row.unpin(position);
    const std::string message = message_of([&] {
      if (up) {
        kvpop::pin(real_.ref(), b, position);
      } else {
        kvpop::unpin(real_.ref(), b, position);
      }
    });
    if (legal != (message == "no error")) {
      return "legal: " + std::to_string(legal) + ", but " + message;
    }
    if (!legal && std::memcmp(before_.data(), real_.data(), real_.size()) != 0) {
      return "an error changed the cache: " + message;
    }
    return "";
  }

  [[nodiscard]] std::string compare() const {
    for (index_t b = 0; b < sequences(); ++b) {
      const model_sequence& row = rows_[static_cast<std::size_t>(b)];
      const auto cache = real_.ref();
      if (cache.seen(b) != row.seen() || cache.pins(b) != row.pins() || cache.limit(b) != rules_.capacity()) {
        return "seen, pins or limit differ";
      }
      for (index_t h = 0; h < heads(); ++h) {
        const std::string wrong = compare(cache.head(b, h), row.heads()[static_cast<std::size_t>(h)], row.seen());
        if (!wrong.empty()) {
          return wrong + " in head " + std::to_string(h) + " of sequence " + std::to_string(b);
        }
      }
    }
    return "";
  }

  [[nodiscard]] std::string compare(const kvpop::head_state<T>& head, const model_sequence::head& wanted,
                                    index_t seen) const {
    if (*head.held != static_cast<index_t>(wanted.held.size())) {
      return "held is " + std::to_string(*head.held) + ", not " + std::to_string(wanted.held.size());
    }
    std::vector<std::int32_t> ring(static_cast<std::size_t>(rules_.window), -1);
    for (const auto& [position, token] : wanted.held) {
      const index_t slot = token.slot;
      if (head.positions[slot] != position) {
        return "slot " + std::to_string(slot) + " holds " + std::to_string(head.positions[slot]) + ", not " +
               std::to_string(position);
      }
      if (!same_priority(head.priorities[slot], token.priority)) {
        return "priority of " + std::to_string(position) + " is " + std::to_string(head.priorities[slot]) + ", not " +
               std::to_string(token.priority);
      }
      if (head.pinned[slot] != (token.pinned ? 1 : 0)) {
        return "pin of " + std::to_string(position);
      }
      for (index_t i = 0; i < KeyDim; ++i) {
        if (!same_float(head.keys[slot * KeyDim + i], token.key[static_cast<std::size_t>(i)])) {
          return "key of " + std::to_string(position);
        }
      }
      for (index_t i = 0; i < ValueDim; ++i) {
        if (!same_float(head.values[slot * ValueDim + i], token.value[static_cast<std::size_t>(i)])) {
          return "value of " + std::to_string(position);
        }
      }
      if (position >= seen - rules_.window) {
        ring[static_cast<std::size_t>(position % rules_.window)] = static_cast<std::int32_t>(slot);
      }
    }
    for (index_t slot = *head.held; slot < rules_.capacity(); ++slot) {
      if (head.positions[slot] != -1 || !std::isnan(head.priorities[slot]) || head.pinned[slot] != 0) {
        return "slot " + std::to_string(slot) + " is not empty";
      }
    }
    if (!std::equal(ring.begin(), ring.end(), head.ring)) {
      return "ring";
    }
    return std::equal(wanted.memory.begin(), wanted.memory.end(), head.memory, same_float) ? "" : "scorer memory";
  }

  generator random_;
  block real_;
  model_rules rules_;
  Scorer scorer_;
  std::vector<model_sequence> rows_;
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<kvpop::eviction> evicted_;
  std::vector<std::byte> before_;
  std::string last_;
};

template <class T, index_t KeyDim, index_t ValueDim, class Scorer>
void fight(std::uint64_t stream, double share) {
  const int caches = draws(static_cast<int>(share * total_operations) / operations_a_cache);
  for (int i = 0; i < caches; ++i) {
    duel<T, KeyDim, ValueDim, Scorer> one(stream * 1'000'000 + static_cast<std::uint64_t>(i));
    const std::string wrong = one.run(operations_a_cache);
    INFO("cache " << i);
    REQUIRE(wrong == "");
  }
}

}  // namespace

TEST_CASE("the cache does what the model does: f32, 1 and 1") { fight<float, 1, 1, echo_scorer>(1, 0.3); }
TEST_CASE("the cache does what the model does: f32, 3 and 1, memory") { fight<float, 3, 1, memory_scorer>(2, 0.2); }
TEST_CASE("the cache does what the model does: bf16, 1 and 3, memory") {
  fight<kvpop::bfloat16, 1, 3, memory_scorer>(3, 0.2);
}
TEST_CASE("the cache does what the model does: f16, 7 and 2") { fight<kvpop::float16, 7, 2, echo_scorer>(4, 0.1); }
TEST_CASE("the cache does what the model does: bf16, 2 and 2, following attention") {
  fight<kvpop::bfloat16, 2, 2, attending_probe>(5, 0.2);
}
