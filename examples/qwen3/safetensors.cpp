#include "safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "error.hpp"      // load_error, in_quotes
#include "json_file.hpp"  // json_reason

namespace qwen3 {

static_assert(std::endian::native == std::endian::little, "the files hold little-endian numbers, read in place");

namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t most_dimensions = 8;
constexpr std::size_t length_bytes = sizeof(std::uint64_t);

// a * b, or nothing when it does not fit.
std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return std::nullopt;
  return a * b;
}

// Bytes of a tensor, or nothing when they cannot be counted in 64 bits. [0, 2^63] has no elements and thus no bytes.
std::optional<std::uint64_t> tensor_bytes(std::span<const std::int64_t> shape, std::uint64_t element) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::optional<std::uint64_t> bytes = element;
  for (const std::int64_t extent : shape) {
    bytes = multiply(*bytes, static_cast<std::uint64_t>(extent));
    if (!bytes) return std::nullopt;
  }
  return bytes;
}

struct header_entry {
  tensor_view tensor;
  std::uint64_t begin = 0;  // bytes from the end of the header
  std::uint64_t end = 0;
};

// Takes the header's parts from the parser one by one: no document is built, and what the format does not have is
// refused where it stands.
class header_reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit header_reader(const std::string& path) : path_(path) {}

  std::vector<header_entry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool number_integer(number_integer_t value) override { return refuse_number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return refuse_number(text); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool key(string_t& name) override;
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw load_error(path_ + ": the header is not valid JSON: " + json_reason(error));
  }

 private:
  enum class place { outside, top, metadata, entry, shape, offsets };
  enum field : unsigned { no_field = 0, dtype_field = 1, shape_field = 2, offsets_field = 4 };

  [[noreturn]] void fail(const std::string& what) const { throw load_error(path_ + ": " + what); }
  std::string where() const;
  bool unexpected(const char* what) const { fail(where() + " is " + what + "; it must be " + wanted()); }
  bool refuse_number(const std::string& text) const;
  const char* wanted() const;

  const std::string& path_;
  place place_ = place::outside;
  std::string name_;           // of the member of `top` or `metadata` that is being read
  unsigned field_ = no_field;  // of `entry`, whose value is being read
  unsigned seen_ = no_field;   // fields that `entry` has so far
  std::size_t offsets_ = 0;    // how many of the two
  bool seen_metadata_ = false;
};

std::string header_reader::where() const {
  switch (place_) {
    case place::outside:
      return "the header";
    case place::top:
      return name_ == "__metadata__" ? "__metadata__" : "tensor " + in_quotes(name_);
    case place::metadata:
      return "__metadata__ entry " + in_quotes(name_);
    default:
      break;
  }
  const char* part = field_ == dtype_field ? "dtype" : field_ == shape_field ? "shape" : "data_offsets";
  return std::string(part) + " of tensor " + in_quotes(name_);
}

const char* header_reader::wanted() const {
  if (place_ == place::outside || place_ == place::top) return "an object";
  if (place_ == place::metadata || field_ == dtype_field) return "a string";
  if (place_ == place::entry) return "an array";
  return "whole numbers from 0 to 9223372036854775807";
}

bool header_reader::refuse_number(const std::string& text) const {
  if (place_ != place::shape && place_ != place::offsets) return unexpected("a number");
  fail(where() + " holds " + text + "; it must be " + wanted());
}

bool header_reader::number_unsigned(number_unsigned_t value) {
  if (place_ != place::shape && place_ != place::offsets) return unexpected("a number");
  if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return refuse_number(std::to_string(value));
  header_entry& entry = entries.back();
  if (place_ == place::shape) {
    if (entry.tensor.shape.size() == most_dimensions)
      fail(where() + " has more than " + std::to_string(most_dimensions) + " dimensions");
    entry.tensor.shape.push_back(static_cast<std::int64_t>(value));
  } else {
    if (offsets_ == 2) fail(where() + " holds more than 2 numbers");
    (offsets_ == 0 ? entry.begin : entry.end) = value;
    ++offsets_;
  }
  return true;
}

bool header_reader::string(string_t& value) {
  if (place_ == place::metadata) {
    if (!metadata.emplace(name_, value).second) fail(where() + " is there twice");
  } else if (place_ == place::entry && field_ == dtype_field) {
    entries.back().tensor.dtype = value;
  } else {
    return unexpected("a string");
  }
  return true;
}

bool header_reader::key(string_t& name) {
  if (place_ != place::entry) {
    name_ = name;
    return true;
  }
  field_ = name == "dtype"          ? dtype_field
           : name == "shape"        ? shape_field
           : name == "data_offsets" ? offsets_field
                                    : no_field;
  if (field_ == no_field) fail("tensor " + in_quotes(name_) + " has an unknown entry " + in_quotes(name));
  if ((seen_ & field_) != 0) fail(where() + " is there twice");
  seen_ |= field_;
  return true;
}

bool header_reader::start_object(std::size_t) {
  if (place_ == place::outside) {
    place_ = place::top;
  } else if (place_ == place::top && name_ == "__metadata__") {
    if (std::exchange(seen_metadata_, true)) fail("__metadata__ is there twice");
    place_ = place::metadata;
  } else if (place_ == place::top) {
    place_ = place::entry;
    seen_ = no_field;
    entries.emplace_back().tensor.name = name_;
  } else {
    return unexpected("an object");
  }
  return true;
}

bool header_reader::end_object() {
  if (place_ == place::entry) {
    if ((seen_ & dtype_field) == 0) fail("tensor " + in_quotes(name_) + " has no dtype");
    if ((seen_ & shape_field) == 0) fail("tensor " + in_quotes(name_) + " has no shape");
    if ((seen_ & offsets_field) == 0) fail("tensor " + in_quotes(name_) + " has no data_offsets");
  }
  place_ = place_ == place::top ? place::outside : place::top;
  return true;
}

bool header_reader::start_array(std::size_t) {
  if (place_ != place::entry || field_ == dtype_field) return unexpected("an array");
  place_ = field_ == shape_field ? place::shape : place::offsets;
  offsets_ = 0;
  return true;
}

bool header_reader::end_array() {
  if (place_ == place::offsets && offsets_ != 2) fail(where() + " holds fewer than 2 numbers");
  place_ = place::entry;
  return true;
}

// The JSON text between the length and the data; throws when the file is too short for what it claims.
std::string_view header_of(const mapped_file& file) {
  const std::string_view text = file.text();
  const std::string& path = file.path();
  if (text.size() < length_bytes)
    throw load_error(path + ": is " + std::to_string(text.size()) +
                     " bytes long; a safetensors file begins with 8 bytes, the length of its header");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), length_bytes);
  const std::string claim = path + ": the header length is " + std::to_string(length);
  if (length > longest_header) throw load_error(claim + "; it must be at most " + std::to_string(longest_header));
  if (length > text.size() - length_bytes)
    throw load_error(claim + ", but only " + std::to_string(text.size() - length_bytes) + " bytes follow it");
  const std::string_view header = text.substr(length_bytes, length);
  if (header.empty() || header.front() != '{') throw load_error(path + ": the header does not begin with '{'");
  if (const auto nul = header.find('\0'); nul != std::string_view::npos)  // the parser takes it for the end
    throw load_error(path + ": the header holds a NUL byte at byte " + std::to_string(nul));
  return header;
}

void check_extent(const std::string& path, const header_entry& entry, std::uint64_t data_bytes) {
  const std::string tensor = path + ": tensor " + in_quotes(entry.tensor.name);
  const std::string offsets = " [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  if (entry.begin > entry.end)
    throw load_error(tensor + " has data_offsets" + offsets + ", which end before they begin");
  if (entry.end > data_bytes)
    throw load_error(tensor + " has data_offsets" + offsets + ", but the file holds " + std::to_string(data_bytes) +
                     " bytes of data");
  const std::size_t element = dtype_bytes(entry.tensor.dtype);
  if (element == 0) return;  // refused by whoever uses it
  const std::string what = tensor + " has shape " + shape_text(entry.tensor.shape) + " of " + entry.tensor.dtype;
  const auto bytes = tensor_bytes(entry.tensor.shape, element);
  if (!bytes) throw load_error(what + ", whose size does not fit in 64 bits");
  if (*bytes != entry.end - entry.begin)
    throw load_error(what + " = " + std::to_string(*bytes) + " bytes, but data_offsets" + offsets + " hold " +
                     std::to_string(entry.end - entry.begin));
}

// Tensors side by side from the first byte of the data to the last.
void check_layout(const std::string& path, std::vector<header_entry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const header_entry& a, const header_entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const header_entry& entry : entries) {
    const std::string tensor =
        path + ": tensor " + in_quotes(entry.tensor.name) + " begins at " + std::to_string(entry.begin);
    if (entry.begin < covered)
      throw load_error(tensor + " and overlaps the one before, which ends at " + std::to_string(covered));
    if (entry.begin > covered) throw load_error(tensor + " and leaves a hole after " + std::to_string(covered));
    covered = entry.end;
  }
  if (covered != data_bytes)
    throw load_error(path + ": the tensors end at " + std::to_string(covered) + ", but the file holds " +
                     std::to_string(data_bytes) + " bytes of data");
}

}  // namespace

std::size_t dtype_bytes(std::string_view dtype) {
  struct known {
    std::string_view name;
    std::size_t bytes;
  };
  static constexpr known all[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                                  {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                                  {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  for (const known& one : all) {
    if (one.name == dtype) return one.bytes;
  }
  return 0;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string result = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) result += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return result + "]";
}

template <class T>
std::span<const T> tensor_view::values() const {
  constexpr const char* wanted = std::is_same_v<T, float> ? "F32" : sizeof(T) == 4 ? "I32" : "I64";
  if (dtype != wanted)
    throw load_error("tensor " + in_quotes(name) + " has dtype " + in_quotes(dtype) + "; expected " + wanted);
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(T) != 0)
    throw load_error("tensor " + in_quotes(name) + " is not aligned to " + std::to_string(alignof(T)) +
                     " bytes in its file");
  return {reinterpret_cast<const T*>(data), bytes / sizeof(T)};
}
template std::span<const float> tensor_view::values() const;
template std::span<const std::int32_t> tensor_view::values() const;
template std::span<const std::int64_t> tensor_view::values() const;

safetensors_file safetensors_file::open(const std::string& path) {
  safetensors_file result;
  result.file_ = mapped_file::open(path);
  const std::string_view header = header_of(result.file_);
  header_reader reader(path);
  nlohmann::json::sax_parse(header, &reader);
  result.metadata_ = std::move(reader.metadata);

  const auto data = result.file_.bytes().subspan(length_bytes + header.size());
  for (header_entry& entry : reader.entries) {
    check_extent(path, entry, data.size());
    entry.tensor.data = data.data() + entry.begin;
    entry.tensor.bytes = static_cast<std::size_t>(entry.end - entry.begin);
  }
  auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::vector<header_entry>& entries = reader.entries;
  std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) { return by_name(a.tensor, b.tensor); });
  for (std::size_t i = 1; i < entries.size(); ++i) {  // before the layout: a tensor named twice also overlaps itself
    if (entries[i].tensor.name == entries[i - 1].tensor.name)
      throw load_error(path + ": tensor " + in_quotes(entries[i].tensor.name) + " is there twice");
  }
  check_layout(path, entries, data.size());
  result.tensors_.reserve(entries.size());
  for (header_entry& entry : entries) result.tensors_.push_back(std::move(entry.tensor));
  std::sort(result.tensors_.begin(), result.tensors_.end(), by_name);
  return result;
}

const tensor_view* safetensors_file::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const tensor_view& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const tensor_view& safetensors_file::at(std::string_view name) const {
  const tensor_view* found = find(name);
  if (found == nullptr) throw load_error(path() + ": tensor " + in_quotes(name) + " is missing");
  return *found;
}

safetensors_writer::safetensors_writer(const std::string& path, std::span<const tensor_shape> tensors,
                                       const std::map<std::string, std::string>& metadata)
    : file_(path) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const tensor_shape& tensor : tensors) {
    const std::size_t element = dtype_bytes(tensor.dtype);
    const auto bytes = tensor_bytes(tensor.shape, element);
    if (element == 0 || !bytes || header.contains(tensor.name))
      throw load_error(path + ": cannot write tensor " + in_quotes(tensor.name) + " " + shape_text(tensor.shape) +
                       " of " + tensor.dtype + ": unknown dtype, too large, or a name used twice");
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {left_, left_ + *bytes}}};
    left_ += *bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');  // the data begins aligned
  const std::uint64_t length = text.size();
  file_.write(&length, sizeof length);
  file_.write(text);
}

void safetensors_writer::append(const void* data, std::size_t bytes) {
  if (bytes > left_)
    throw std::logic_error(file_.path() + ": " + std::to_string(bytes) + " bytes appended where " +
                           std::to_string(left_) + " are left");
  file_.write(data, bytes);
  left_ -= bytes;
}

void safetensors_writer::finish() {
  if (left_ != 0)
    throw std::logic_error(file_.path() + ": " + std::to_string(left_) + " bytes of tensors were not appended");
  file_.commit();
}

}  // namespace qwen3
