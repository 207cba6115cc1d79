#pragma once

#include <type_traits>
#include <vector>

#include "kvpop/core/dtype.hpp"    // scalar_traits
#include "kvpop/core/view.hpp"     // chunk_view
#include "support/generators.hpp"  // generator

namespace kvpop_test {

using kvpop::index_t;

/// Random keys and values of some tokens of every sequence, [sequences, tokens, heads, dim], and views of runs of them.
template <class In>
class token_stream {
 public:
  token_stream(generator& random, index_t sequences, index_t tokens, index_t heads, index_t key_dim, index_t value_dim)
      : sequences_(sequences), tokens_(tokens), heads_(heads), key_dim_(key_dim), value_dim_(value_dim) {
    const auto fill = [&](std::vector<In>& x, index_t dim) {
      x.resize(static_cast<std::size_t>(sequences * tokens * heads * dim));
      for (In& one : x) {
        one = kvpop::scalar_traits<In>::from_float(random.normal());
      }
    };
    fill(keys_, key_dim);
    fill(values_, value_dim);
  }

  [[nodiscard]] index_t tokens() const { return tokens_; }

  /// The tokens begin .. begin + count - 1 of all sequences.
  [[nodiscard]] kvpop::chunk_view<const In> keys(index_t begin, index_t count) const {
    return run(keys_.data(), key_dim_, 0, sequences_, begin, count);
  }
  [[nodiscard]] kvpop::chunk_view<const In> values(index_t begin, index_t count) const {
    return run(values_.data(), value_dim_, 0, sequences_, begin, count);
  }

  /// The same of one sequence.
  [[nodiscard]] kvpop::chunk_view<const In> keys_of(index_t sequence, index_t begin, index_t count) const {
    return run(keys_.data(), key_dim_, sequence, 1, begin, count);
  }
  [[nodiscard]] kvpop::chunk_view<const In> values_of(index_t sequence, index_t begin, index_t count) const {
    return run(values_.data(), value_dim_, sequence, 1, begin, count);
  }

  /// Component i of a key, to be changed.
  In& key(index_t sequence, index_t token, index_t head, index_t i) {
    return keys_[static_cast<std::size_t>(((sequence * tokens_ + token) * heads_ + head) * key_dim_ + i)];
  }

 private:
  [[nodiscard]] kvpop::chunk_view<const In> run(const In* data, index_t dim, index_t sequence, index_t sequences,
                                                index_t begin, index_t count) const {
    return {data + (sequence * tokens_ + begin) * heads_ * dim,
            {sequences, count, heads_, dim},
            {tokens_ * heads_ * dim, heads_ * dim, dim, 1}};
  }

  index_t sequences_;
  index_t tokens_;
  index_t heads_;
  index_t key_dim_;
  index_t value_dim_;
  std::vector<In> keys_;
  std::vector<In> values_;
};

}  // namespace kvpop_test
