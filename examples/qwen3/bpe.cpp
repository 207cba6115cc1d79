#include "bpe.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "byte_alphabet.hpp"  // bytes_of_token
#include "error.hpp"          // in_quotes

namespace qwen3 {

namespace {

constexpr std::uint64_t no_pair = std::numeric_limits<std::uint64_t>::max();  // ids are not negative
constexpr std::size_t longest_cached_word = 64;
constexpr std::size_t most_cached_words = 1u << 15;

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// The two sides of a merge, as written: "a b" or ["a", "b"]. Nothing for a comment, which the first form may hold.
std::optional<std::pair<std::string_view, std::string_view>> sides_of(const json_place& merges, std::size_t index) {
  const nlohmann::json& entry = merges.value()[index];
  if (entry.is_string()) {
    const std::string_view text = entry.get_ref<const std::string&>();
    if (text.starts_with("#version")) return std::nullopt;
    const auto space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos)
      return std::pair(text.substr(0, space), text.substr(space + 1));
  } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
    return std::pair<std::string_view, std::string_view>(entry[0].get_ref<const std::string&>(),
                                                         entry[1].get_ref<const std::string&>());
  }
  merges.element(index).refuse("is not a merge: two tokens in one string with a space between them, or in an array");
}

void check_options(const json_place& model) {
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (model.has("type") && model.type() != "BPE")
    model.member("type").refuse("is " + in_quotes(model.type()) + "; only \"BPE\" is known here");
  const json_place dropout = model.member("dropout");
  if (!dropout.null() && !(dropout.value().is_number() && dropout.value().get<double>() == 0))
    dropout.refuse("is " + dropout.value().dump() + "; only null and 0 are known here");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(name) && !model.member(name).text().empty())
      model.member(name).refuse("is " + in_quotes(model.member(name).text()) + ", which is not known here");
  if (model.has("byte_fallback") && model.member("byte_fallback").flag())
    model.member("byte_fallback").refuse("is true, which is not known here");
}

}  // namespace

merge_table::merge_table(std::size_t merges) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(2 * merges, 2));
  shift_ = 64u - static_cast<unsigned>(std::countr_zero(size));
  slots_.assign(size, {no_pair, {}});
}

// The slot of `pair`, or the free one where it would go.
std::size_t merge_table::place(std::uint64_t pair) const {
  std::size_t at = pair * 0x9E3779B97F4A7C15u >> shift_;
  while (slots_[at].pair != pair && slots_[at].pair != no_pair) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void merge_table::insert(std::int32_t left, std::int32_t right, merge_result result) {
  const std::uint64_t pair = pair_of(left, right);
  slots_[place(pair)] = {pair, result};
}

std::optional<merge_result> merge_table::find(std::int32_t left, std::int32_t right) const {
  const slot& found = slots_[place(pair_of(left, right))];
  return found.pair == no_pair ? std::nullopt : std::optional<merge_result>(found.result);
}

byte_pair_encoder::byte_pair_encoder(const json_place& model, const vocabulary& words) {
  check_options(model);
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char text = static_cast<char>(byte);
    byte_ids_[byte] = words.find_word({&text, 1}).value_or(-1);
  }
  all_bytes_ = std::none_of(byte_ids_.begin(), byte_ids_.end(), [](std::int32_t id) { return id < 0; });
  if (!all_bytes_ && model.has("unk_token") && !model.member("unk_token").text().empty())
    model.member("unk_token").refuse("is needed, since the vocabulary lacks single bytes; that is not known here");
  ignore_merges_ = model.has("ignore_merges") && model.member("ignore_merges").flag();
  read_merges(model.member("merges"), words);
}

void byte_pair_encoder::read_merges(const json_place& merges, const vocabulary& words) {
  const std::size_t count = merges.array_size();
  merges_ = merge_table(count);
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto sides = sides_of(merges, i);
    if (!sides) continue;
    const auto id_of = [&](const std::optional<std::string>& bytes, std::string_view name) {
      const auto id = bytes ? words.find_word(*bytes) : std::nullopt;
      if (!id)
        merges.element(i).refuse("names " + in_quotes(name) + ", which is not a byte-level token of the vocabulary");
      return *id;
    };
    const auto left = bytes_of_token(sides->first);
    const auto right = bytes_of_token(sides->second);
    const std::int32_t left_id = id_of(left, sides->first);
    const std::int32_t right_id = id_of(right, sides->second);
    const std::int32_t both = id_of(*left + *right, std::string(sides->first) + std::string(sides->second));
    merges_.insert(left_id, right_id, {rank++, both});
  }
}

std::size_t byte_pair_encoder::missing_bytes(std::string_view word) const {
  if (all_bytes_) return 0;
  return static_cast<std::size_t>(
      std::count_if(word.begin(), word.end(), [this](char c) { return byte_ids_[static_cast<unsigned char>(c)] < 0; }));
}

std::span<const word_token> byte_pair_encoder::encode(std::string_view word, const vocabulary& words,
                                                      bpe_scratch& scratch) const {
  scratch.result_.clear();
  if (ignore_merges_) {
    if (const auto id = words.find_word(word)) {
      scratch.result_.push_back({*id, 0, static_cast<std::uint32_t>(word.size())});
      return scratch.result_;
    }
  }
  if (word.size() > longest_cached_word) {
    merge(word, scratch);
    return scratch.result_;
  }
  if (const auto known = scratch.cache_.find(word); known != scratch.cache_.end())
    return std::span(scratch.cached_tokens_).subspan(known->second.begin, known->second.count);
  merge(word, scratch);
  if (scratch.cache_.size() == most_cached_words) {
    scratch.cache_.clear();
    scratch.cached_tokens_.clear();
  }
  scratch.cache_.emplace(word, bpe_scratch::cached{scratch.cached_tokens_.size(), scratch.result_.size()});
  scratch.cached_tokens_.insert(scratch.cached_tokens_.end(), scratch.result_.begin(), scratch.result_.end());
  return scratch.result_;
}

// Enters the merge of the symbol `left` and the one after it, when there is one.
void byte_pair_encoder::propose(std::int32_t left, bpe_scratch& scratch) const {
  const auto& symbols = scratch.symbols_;
  if (left < 0 || symbols[static_cast<std::size_t>(left)].next < 0) return;
  const auto& first = symbols[static_cast<std::size_t>(left)];
  const auto found = merges_.find(first.id, symbols[static_cast<std::size_t>(first.next)].id);
  if (!found) return;
  scratch.queue_.push_back({found->rank, static_cast<std::uint32_t>(left), found->id});
  std::push_heap(scratch.queue_.begin(), scratch.queue_.end(), std::greater<>());
}

void byte_pair_encoder::merge(std::string_view word, bpe_scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& queue = scratch.queue_;
  symbols.clear();
  queue.clear();
  for (std::uint32_t i = 0; i < word.size(); ++i) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(word[i])];
    if (id < 0) continue;
    const auto index = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1, i, i + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) propose(static_cast<std::int32_t>(i), scratch);
  while (!queue.empty()) {
    const auto best = queue.front();
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    auto& left = symbols[best.position];
    if (left.id < 0 || left.next < 0) continue;
    auto& right = symbols[static_cast<std::size_t>(left.next)];
    // An entry whose symbols have changed still counts when they would become the same token: two merges may make one
    // token, and the tokenizers library has it so.
    const auto now = merges_.find(left.id, right.id);
    if (!now || now->id != best.id) continue;
    left.id = best.id;
    left.end = right.end;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0)
      symbols[static_cast<std::size_t>(left.next)].previous = static_cast<std::int32_t>(best.position);
    propose(left.previous, scratch);
    propose(static_cast<std::int32_t>(best.position), scratch);
  }
  for (const auto& symbol : symbols)
    if (symbol.id >= 0) scratch.result_.push_back({symbol.id, symbol.begin, symbol.end});
}

}  // namespace qwen3
