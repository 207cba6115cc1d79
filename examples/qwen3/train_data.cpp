#include "train_data.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "console.hpp"                    // read_stdin
#include "error.hpp"                      // load_error
#include "json_file.hpp"                  // parse_json_object, shown
#include "kvpop/train/random_stream.hpp"  // random_stream, sample
#include "line_reader.hpp"                // line_reader
#include "mapped_file.hpp"                // mapped_file

namespace qwen3 {

namespace {

std::string text_of_line(std::string_view line, const std::string& place) {
  const nlohmann::json object = parse_json_object(line, place);
  const auto text = object.find("text");
  if (text == object.end()) throw load_error(place + ": \"text\" is missing");
  if (!text->is_string()) throw load_error(place + ": \"text\" is " + shown(*text) + "; it must be a string");
  return text->get<std::string>();
}

// The tokens of a text; what is wrong with it is said of its place.
std::vector<std::int32_t> encode(const tokenizer& words, const std::string& text, const std::string& place) {
  try {
    return words.encode(text).ids;
  } catch (const input_error& error) {
    throw input_error(place + ": " + error.what());
  }
}

std::int64_t size_of(const std::vector<std::int32_t>& document) { return static_cast<std::int64_t>(document.size()); }

}  // namespace

void training_texts::add(std::vector<std::int32_t> document) {
  tokens_ += size_of(document);
  documents_.push_back(std::move(document));
}

void training_texts::add_lines(const std::string& path, const tokenizer& words, std::int64_t least) {
  for (line_reader file(path); file.next();) {
    if (file.blank()) continue;
    const std::string place = file.place();
    std::vector<std::int32_t> document = encode(words, text_of_line(file.line(), place), place);
    if (size_of(document) < least) {
      ++left_out_;
    } else {
      add(std::move(document));
    }
  }
}

training_texts training_texts::read(const std::vector<std::string>& paths, const tokenizer& words, std::int64_t least) {
  training_texts result;
  for (const std::string& path : paths) {
    if (path.ends_with(".jsonl")) {
      result.add_lines(path, words, least);
      continue;
    }
    const std::string text = path == "-" ? read_stdin() : std::string(mapped_file::open(path).text());
    const std::string place = path == "-" ? "stdin" : path;
    std::vector<std::int32_t> document = encode(words, text, place);
    if (size_of(document) < least)
      throw load_error(place + " has " + std::to_string(document.size()) + " tokens; at least two windows, " +
                       std::to_string(least) + ", are needed");
    result.add(std::move(document));
  }
  if (result.documents_.empty())
    throw load_error("no usable text: " + std::to_string(result.left_out_) +
                     " documents, all shorter than two windows, " + std::to_string(least) + " tokens");
  return result;
}

std::vector<packed_row> training_texts::rows(std::int64_t length, std::int64_t least, std::uint64_t seed,
                                             std::uint64_t epoch) const {
  std::vector<std::size_t> order(documents_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  kvpop::random_stream random = kvpop::random_stream::of(seed, 2, epoch);
  kvpop::sample(random, order.data(), documents(), documents());
  std::vector<packed_row> result;
  packed_row row;
  const auto close = [&] {
    if (!row.tokens.empty()) result.push_back(std::move(row));
    row = {};
  };
  for (const std::size_t index : order) {
    std::span<const std::int32_t> rest = documents_[index];
    while (static_cast<std::int64_t>(rest.size()) >= least) {
      if (length - row.size() < least) close();
      const auto taken = std::min(rest.size(), static_cast<std::size_t>(length - row.size()));
      row.starts.push_back(row.size());
      row.tokens.insert(row.tokens.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(taken));
      rest = rest.subspan(taken);
    }
  }
  close();
  // Cutting in the order of the documents leaves long ones in one piece after another: rows are shuffled too.
  kvpop::sample(random, result.data(), static_cast<std::int64_t>(result.size()),
                static_cast<std::int64_t>(result.size()));
  return result;
}

row_stream::row_stream(const training_texts& texts, std::int64_t length, std::int64_t least, std::uint64_t seed)
    : texts_(texts), length_(length), least_(least), seed_(seed), rows_(texts.rows(length, least, seed, 0)) {
  if (rows_.empty()) throw load_error("no usable text: nothing is as long as two windows");
}

void row_stream::next_epoch() {
  first_ += static_cast<std::int64_t>(rows_.size());
  rows_ = texts_.rows(length_, least_, seed_, ++epoch_);
}

const packed_row& row_stream::at(std::int64_t index) {
  while (index - first_ >= static_cast<std::int64_t>(rows_.size())) next_epoch();
  return rows_[static_cast<std::size_t>(index - first_)];
}

}  // namespace qwen3
