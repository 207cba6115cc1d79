#pragma once

#include "kvpop/core/view.hpp"       // view
#include "kvpop/core/workspace.hpp"  // carver

KVPOP_NAMESPACE_BEGIN

/// Which document each token of a packed row belongs to: [sequences, tokens], equal numbers next to each other. An empty
/// view: each sequence is one document.
using segments_view = view<const std::int32_t, host_memory, axis::sequence, axis::token>;

/// A log-sum-exp a query, or a number a token and query head: [sequences, tokens, query_heads].
template <class T>
using chunk_lse_view = view<T, host_memory, axis::sequence, axis::token, axis::head>;

/// ends[t] = one past the last token of the document that token t of `sequence` belongs to. O(tokens).
inline void document_ends(const segments_view& segments, index_t sequence, index_t tokens, index_t* ends) noexcept {
  index_t end = tokens;
  for (index_t t = tokens; t-- > 0;) {
    if (segments.data() != nullptr && t + 1 < tokens && segments(sequence, t) != segments(sequence, t + 1)) end = t + 1;
    ends[t] = end;
  }
}

/// Throws `error` unless `segments` is empty or [sequences, tokens].
inline void expects_segments(const char* verb, const segments_view& segments, index_t sequences, index_t tokens) {
  if (segments.data() == nullptr) return;
  const std::string who = std::string(verb) + ": segments.extent";
  expects_equal((who + "(sequence)").c_str(), segments.extent<axis::sequence>(), sequences, "k");
  expects_equal((who + "(token)").c_str(), segments.extent<axis::token>(), tokens, "k");
}

KVPOP_NAMESPACE_END
