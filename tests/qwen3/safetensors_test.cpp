#include "qwen3/safetensors.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "files.hpp"        // temporary_directory, safetensors_bytes, message_of
#include "qwen3/error.hpp"  // load_error

namespace {

using namespace qwen3_test;
using qwen3::load_error;
using qwen3::safetensors_file;

// What opening these bytes says, without the path in front.
std::string refusal(const temporary_directory& directory, std::string_view bytes) {
  const std::string path = directory / "m.safetensors";
  write_file(path, bytes);
  const std::string message = message_of<load_error>([&] { safetensors_file::open(path); });
  return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
}

std::string header_refusal(std::string_view header, std::string_view data = {}) {
  const temporary_directory directory;
  return refusal(directory, safetensors_bytes(header, data));
}

// One tensor `t` with these members.
std::string tensor(const std::string& members, std::string_view data = {}) {
  return header_refusal(R"({"t":{)" + members + "}}", data);
}

const std::string two_tensors =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"I64","shape":[1,1],"data_offsets":[8,16]}})";

}  // namespace

TEST_CASE("a file is read in place") {
  const temporary_directory directory;
  const std::string path = directory / "m.safetensors";
  std::string data(16, '\0');
  const float numbers[] = {1.5F, -2.0F};
  const std::int64_t large = -5'000'000'000;
  std::memcpy(data.data(), numbers, 8);
  std::memcpy(data.data() + 8, &large, 8);
  std::string header = two_tensors;
  header.resize((header.size() + 7) / 8 * 8, ' ');  // as other writers pad
  write_file(path, safetensors_bytes(header, data));

  const auto file = safetensors_file::open(path);
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.find("a") != nullptr);
  CHECK(file.find("c") == nullptr);
  CHECK(file.at("a").shape == std::vector<std::int64_t>{2});
  CHECK(file.at("a").values<float>()[1] == -2.0F);
  CHECK(file.at("b").values<std::int64_t>()[0] == large);
  CHECK(message_of<load_error>([&] { file.at("c"); }) == path + ": tensor \"c\" is missing");
  CHECK(message_of<load_error>([&] { file.at("b").values<float>(); }) ==
        "tensor \"b\" has dtype \"I64\"; expected F32");
}

TEST_CASE("tensors without elements and single numbers are tensors") {
  const temporary_directory directory;
  CHECK(refusal(directory, safetensors_bytes("{}", "")) == "(nothing was thrown)");
  CHECK(tensor(R"("dtype":"F32","shape":[],"data_offsets":[0,4])", "abcd") == "(nothing was thrown)");
  CHECK(tensor(R"("dtype":"F32","shape":[0,9223372036854775807,9223372036854775807],"data_offsets":[0,0])") ==
        "(nothing was thrown)");
}

TEST_CASE("a dtype that is not known is kept, and refused when used") {
  const temporary_directory directory;
  const std::string path = directory / "m.safetensors";
  write_file(path, safetensors_bytes(R"({"t":{"dtype":"Q4","shape":[3],"data_offsets":[0,2]}})", "ab"));
  const auto file = safetensors_file::open(path);
  CHECK(file.at("t").dtype == "Q4");
  CHECK(message_of<load_error>([&] { file.at("t").values<float>(); }) == "tensor \"t\" has dtype \"Q4\"; expected F32");
}

TEST_CASE("data that its file does not align is not handed out as numbers") {
  const temporary_directory directory;
  const std::string path = directory / "m.safetensors";
  const std::string header = R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  for (std::size_t pad = 0; pad < 4; ++pad) {
    write_file(path, safetensors_bytes(header + std::string(pad, ' '), "abcd"));
    const auto file = safetensors_file::open(path);
    const bool aligned = (header.size() + pad) % 4 == 0;
    CHECK(message_of<load_error>([&] { file.at("t").values<float>(); }) ==
          (aligned ? "(nothing was thrown)" : "tensor \"t\" is not aligned to 4 bytes in its file"));
  }
}

TEST_CASE("files that are none are refused by what they are") {
  const temporary_directory directory;
  const std::string missing = directory / "missing";
  CHECK(message_of<load_error>([&] { safetensors_file::open(missing); }) ==
        missing + ": cannot open: No such file or directory");
  CHECK(message_of<load_error>([&] { safetensors_file::open(directory.path()); }) ==
        directory.path() + ": is a directory; a file is needed");
  const std::string pipe = directory / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of<load_error>([&] { safetensors_file::open(pipe); }) == pipe + ": is not a regular file");
  CHECK(message_of<load_error>([] { safetensors_file::open("/dev/null"); }) == "/dev/null: is not a regular file");
  CHECK(refusal(directory, "") == "is 0 bytes long; a safetensors file begins with 8 bytes, the length of its header");
  CHECK(message_of<load_error>([] { safetensors_file::open(std::string("a\0b", 3)); }) ==
        "\"a?b\": the name holds a NUL byte");
}

TEST_CASE("a file cut at any byte is refused") {
  const temporary_directory directory;
  const std::string whole = safetensors_bytes(two_tensors, std::string(16, 'x'));
  REQUIRE(refusal(directory, whole) == "(nothing was thrown)");
  const std::size_t data_begin = 8 + two_tensors.size();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::string message = refusal(directory, whole.substr(0, size));
    if (size < 8) {
      CHECK(message == "is " + std::to_string(size) +
                           " bytes long; a safetensors file begins with 8 bytes, the length of its header");
    } else if (size < data_begin) {
      CHECK(message == "the header length is " + std::to_string(two_tensors.size()) + ", but only " +
                           std::to_string(size - 8) + " bytes follow it");
    } else {
      CHECK(message.find("but the file holds " + std::to_string(size - data_begin) + " bytes of data") !=
            std::string::npos);
    }
    if (size < 8) continue;
    // The same header cut, and its length with it: the JSON ends too soon.
    const std::string cut = two_tensors.substr(0, std::min(size - 8, two_tensors.size() - 1));
    const std::string cut_message = refusal(directory, safetensors_bytes(cut, std::string(16, 'x')));
    const bool named = cut_message == "the header does not begin with '{'" ||
                       cut_message.starts_with("the header is not valid JSON: parse error at line 1, column ");
    CHECK_MESSAGE(named, cut_message);
  }
}

TEST_CASE("header lengths that the file does not have") {
  const temporary_directory directory;
  const auto with_length = [&](std::uint64_t length) {
    std::string bytes = safetensors_bytes("{}", "");
    std::memcpy(bytes.data(), &length, sizeof length);
    return refusal(directory, bytes);
  };
  CHECK(with_length(0) == "the header does not begin with '{'");
  CHECK(with_length(3) == "the header length is 3, but only 2 bytes follow it");
  CHECK(with_length(100'000'000) == "the header length is 100000000, but only 2 bytes follow it");
  CHECK(with_length(100'000'001) == "the header length is 100000001; it must be at most 100000000");
  CHECK(with_length(UINT64_MAX) == "the header length is 18446744073709551615; it must be at most 100000000");
}

TEST_CASE("headers that are not what the format says") {
  CHECK(header_refusal(" {}") == "the header does not begin with '{'");
  CHECK(header_refusal("[]") == "the header does not begin with '{'");
  CHECK(header_refusal(std::string_view("{}\0", 3)) == "the header holds a NUL byte at byte 2");
  CHECK(header_refusal("{}{}").starts_with("the header is not valid JSON: parse error at line 1, column 3"));
  CHECK(header_refusal("{\"\xff\":1}").starts_with("the header is not valid JSON: parse error"));
  CHECK(header_refusal(R"({"t":1})") == "tensor \"t\" is a number; it must be an object");
  CHECK(header_refusal(R"({"t":-1})") == "tensor \"t\" is a number; it must be an object");
  CHECK(header_refusal(R"({"t":null})") == "tensor \"t\" is null; it must be an object");
  CHECK(header_refusal(R"({"t":[]})") == "tensor \"t\" is an array; it must be an object");
  CHECK(header_refusal(R"({"t":"x"})") == "tensor \"t\" is a string; it must be an object");
  CHECK(header_refusal(R"({"__metadata__":3})") == "__metadata__ is a number; it must be an object");
  CHECK(header_refusal(R"({"__metadata__":{"a":1}})") == "__metadata__ entry \"a\" is a number; it must be a string");
  CHECK(header_refusal(R"({"__metadata__":{"a":{}}})") == "__metadata__ entry \"a\" is an object; it must be a string");
  CHECK(header_refusal(R"({"__metadata__":{"a":"x","a":"x"}})") == "__metadata__ entry \"a\" is there twice");
  CHECK(header_refusal(R"({"__metadata__":{},"__metadata__":{}})") == "__metadata__ is there twice");
}

TEST_CASE("deep nesting is refused at its second level") {
  std::string header = R"({"t":{"dtype":)";
  header.append(5'000'000, '[');
  CHECK(header_refusal(header) == "dtype of tensor \"t\" is an array; it must be a string");
  CHECK(header_refusal(R"({"t":{"shape":[[)") ==
        "shape of tensor \"t\" is an array; it must be whole numbers from 0 to 9223372036854775807");
}

TEST_CASE("entries that are missing, unknown, repeated or of another type") {
  const std::string shape = R"("shape":[1])", offsets = R"("data_offsets":[0,4])", dtype = R"("dtype":"F32")";
  CHECK(tensor(shape + "," + offsets, "abcd") == "tensor \"t\" has no dtype");
  CHECK(tensor(dtype + "," + offsets, "abcd") == "tensor \"t\" has no shape");
  CHECK(tensor(dtype + "," + shape, "abcd") == "tensor \"t\" has no data_offsets");
  CHECK(tensor(dtype + "," + dtype, "abcd") == "dtype of tensor \"t\" is there twice");
  CHECK(tensor(dtype + R"(,"stride":[1])") == "tensor \"t\" has an unknown entry \"stride\"");
  CHECK(tensor(R"("dtype":1)") == "dtype of tensor \"t\" is a number; it must be a string");
  CHECK(tensor(R"("dtype":true)") == "dtype of tensor \"t\" is a boolean; it must be a string");
  CHECK(tensor(R"("shape":7)") == "shape of tensor \"t\" is a number; it must be an array");
  CHECK(tensor(R"("shape":["7"])") ==
        "shape of tensor \"t\" is a string; it must be whole numbers from 0 to 9223372036854775807");
  CHECK(tensor(R"("shape":[1,1,1,1,1,1,1,1,1])") == "shape of tensor \"t\" has more than 8 dimensions");
  CHECK(tensor(R"("data_offsets":[0])") == "data_offsets of tensor \"t\" holds fewer than 2 numbers");
  CHECK(tensor(R"("data_offsets":[0,1,2])") == "data_offsets of tensor \"t\" holds more than 2 numbers");
}

TEST_CASE("numbers that are negative, fractions or too large") {
  const std::string must = "; it must be whole numbers from 0 to 9223372036854775807";
  CHECK(tensor(R"("shape":[-1])") == "shape of tensor \"t\" holds -1" + must);
  CHECK(tensor(R"("shape":[1.0])") == "shape of tensor \"t\" holds 1.0" + must);
  CHECK(tensor(R"("shape":[1e3])") == "shape of tensor \"t\" holds 1e3" + must);
  CHECK(tensor(R"("shape":[9223372036854775808])") == "shape of tensor \"t\" holds 9223372036854775808" + must);
  CHECK(tensor(R"("data_offsets":[-4,0])") == "data_offsets of tensor \"t\" holds -4" + must);
  CHECK(tensor(R"("data_offsets":[0,4.5])") == "data_offsets of tensor \"t\" holds 4.5" + must);
  CHECK(tensor(R"("data_offsets":[0,99999999999999999999])") ==
        "data_offsets of tensor \"t\" holds 99999999999999999999" + must);
}

TEST_CASE("offsets and shapes that do not agree with the file") {
  CHECK(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", "abcd") ==
        "tensor \"t\" has data_offsets [4, 0], which end before they begin");
  CHECK(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", "abcd") ==
        "tensor \"t\" has data_offsets [0, 8], but the file holds 4 bytes of data");
  CHECK(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775807])", "abcd") ==
        "tensor \"t\" has data_offsets [0, 9223372036854775807], but the file holds 4 bytes of data");
  CHECK(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", "abcd") ==
        "tensor \"t\" has shape [2] of F32 = 8 bytes, but data_offsets [0, 4] hold 4");
  CHECK(tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])", "abcd") ==
        "tensor \"t\" has shape [4294967296, 4294967296] of F32, whose size does not fit in 64 bits");
  // 2^63 * 2 elements wrap to 0 in 64 bits.
  CHECK(tensor(R"("dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0])") ==
        "tensor \"t\" has shape [4611686018427387904, 4] of U8, whose size does not fit in 64 bits");
}

TEST_CASE("tensors that overlap, leave holes or stop before the end") {
  const auto two = [](const char* first, const char* second) {
    return header_refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(first) +
                              R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                          "0123456789");
  };
  CHECK(two("[0,4]", "[4,8]") == "the tensors end at 8, but the file holds 10 bytes of data");
  CHECK(two("[0,4]", "[2,6]") == "tensor \"b\" begins at 2 and overlaps the one before, which ends at 4");
  CHECK(two("[0,4]", "[0,4]") == "tensor \"b\" begins at 0 and overlaps the one before, which ends at 4");
  CHECK(two("[0,4]", "[6,10]") == "tensor \"b\" begins at 6 and leaves a hole after 4");
  CHECK(two("[2,6]", "[6,10]") == "tensor \"a\" begins at 2 and leaves a hole after 0");
}

TEST_CASE("a tensor that is named twice is refused even where both are the same") {
  const std::string entry = R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(header_refusal("{" + entry + "," + entry + "}") == "tensor \"t\" is there twice");
  CHECK(header_refusal(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("u":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                       R"("t":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                       "abc") == "tensor \"t\" is there twice");
}

TEST_CASE("names are shown without control characters and cut where they are long") {
  const std::string name(3000, 'n');
  CHECK(header_refusal("{\"" + name + "\":1}") ==
        "tensor \"" + name.substr(0, 100) + "...\" is a number; it must be an object");
  CHECK(header_refusal(R"({"a\nb\u001b[31m":1})") == "tensor \"a?b?[31m\" is a number; it must be an object");
}

TEST_CASE("10,000 random mutations of a valid file are read or refused, never more") {
  const temporary_directory directory;
  const std::string path = directory / "m.safetensors";
  const std::string whole = safetensors_bytes(two_tensors, std::string(16, 'x'));
  std::mt19937 random(20260705);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  static constexpr std::string_view pieces[] = {"{", "}", "[", "]", ",", ":",    "\"",
                                                "-", "0", "9", "e", ".", "null", "\\u0000"};
  int refused = 0, accepted = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string bytes = whole;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>('0' + below(10));
          break;
        case 2:
          bytes.erase(at, 1 + below(8));
          break;
        case 3:
          bytes.insert(at, pieces[below(std::size(pieces))]);
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
          break;
      }
      if (bytes.empty()) bytes = "x";
    }
    if (below(2) == 0 && bytes.size() > 24) {  // a length that fits, so that the JSON is looked at
      const std::uint64_t length = bytes.size() - 24;
      std::memcpy(bytes.data(), &length, sizeof length);
    }
    write_file(path, bytes);
    try {
      const auto file = safetensors_file::open(path);
      std::size_t sum = 0;  // every byte that is handed out can be read
      for (const auto& one : file.tensors()) {
        for (std::size_t j = 0; j < one.bytes; ++j) sum += std::to_integer<std::size_t>(one.data[j]);
      }
      CHECK(sum <= bytes.size() * 255);
      ++accepted;
    } catch (const load_error& error) {
      CHECK(std::string_view(error.what()).starts_with(path + ": "));
      ++refused;
    }
  }
  CHECK(refused > 8000);
  CHECK(accepted > 50);  // a renamed tensor is still a tensor: the mutations reach past the parser
}

TEST_CASE("what is written is read again") {
  const temporary_directory directory;
  const std::string path = directory / "out.safetensors";
  const std::vector<qwen3::tensor_shape> shapes = {
      {"ids", "I64", {2}}, {"logits", "F32", {3, 2}}, {"counts", "I32", {1}}, {"none", "F32", {0, 5}}};
  const std::vector<std::int64_t> ids = {-1, 1LL << 40};
  const std::vector<float> logits = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> counts = {7};
  write_file(path, "what was there before");
  {
    qwen3::safetensors_writer writer(path, shapes, {{"made by", "a \"test\""}});
    writer.append(std::span<const std::int64_t>(ids));
    writer.append(std::span<const float>(logits).first(1));  // in pieces of any size
    writer.append(std::span<const float>(logits).subspan(1));
    writer.append(std::span<const std::int32_t>(counts));
    CHECK(read_file(path) == "what was there before");
    writer.finish();
  }
  CHECK(entries_of(directory.path()) == 1);
  const auto file = safetensors_file::open(path);
  CHECK(file.metadata().at("made by") == "a \"test\"");
  const auto read = [&](const char* name, const auto& expected) {
    const auto values = file.at(name).values<typename std::decay_t<decltype(expected)>::value_type>();
    CHECK(std::vector(values.begin(), values.end()) == expected);
  };
  read("ids", ids);
  read("logits", logits);
  read("counts", counts);
  CHECK(file.at("logits").shape == std::vector<std::int64_t>{3, 2});
  CHECK(file.at("none").bytes == 0);
}

TEST_CASE("a writer that is given up leaves the target as it was and nothing beside it") {
  const temporary_directory directory;
  const std::string path = directory / "out.safetensors";
  const std::vector<qwen3::tensor_shape> shapes = {{"t", "F32", {2}}};
  const float numbers[3] = {};
  { qwen3::safetensors_writer writer(path, shapes); }
  CHECK(entries_of(directory.path()) == 0);
  qwen3::safetensors_writer writer(path, shapes);
  CHECK(message_of<std::logic_error>([&] { writer.append(std::span<const float>(numbers)); }) ==
        path + ": 12 bytes appended where 8 are left");
  CHECK(message_of<std::logic_error>([&] { writer.finish(); }) == path + ": 8 bytes of tensors were not appended");
  CHECK(message_of<load_error>([&] {
          const std::vector<qwen3::tensor_shape> twice = {{"t", "F32", {1}}, {"t", "F32", {1}}};
          qwen3::safetensors_writer(directory / "twice", twice);
        }) ==
        directory / "twice" + ": cannot write tensor \"t\" [1] of F32: unknown dtype, too large, or a name used twice");
}

TEST_CASE("outputs that cannot be written say so and leave no half file") {
  const temporary_directory directory;
  const std::vector<qwen3::tensor_shape> shapes = {{"t", "F32", {1000}}};
  const std::vector<float> numbers(1000);
  const auto write = [&](const std::string& path) {
    return message_of<load_error>([&] {
      qwen3::safetensors_writer writer(path, shapes);
      writer.append(std::span<const float>(numbers));
      writer.finish();
    });
  };
  CHECK(write("/dev/full") == "/dev/full: cannot write: No space left on device");
  CHECK(std::filesystem::is_character_file("/dev/full"));
  CHECK(write(directory.path()) == directory.path() + ": cannot write: is a directory");
  CHECK(write(directory / "missing/out") == directory / "missing/out" + ": cannot write: No such file or directory");
  CHECK(write("") == "cannot write: the name of the output file is empty");
  write_file(directory / "file", "x");
  CHECK(write(directory / "file/out") == directory / "file/out" + ": cannot write: Not a directory");

  // A file system that fills up on the way: a limit on the size of files, since a disk cannot be filled here.
  const std::string target = directory / "out";
  write_file(target, "as it was");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {2048, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string message = write(target);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(message == target + ": cannot write: File too large");
  CHECK(read_file(target) == "as it was");
  CHECK(entries_of(directory.path()) == 2);
}
