#include "weights.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "error.hpp"      // load_error, in_quotes
#include "json_file.hpp"  // read_json_file

namespace qwen3 {

namespace {

constexpr std::size_t longest_index = 100'000'000;

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

std::optional<weight_type> weight_type_of(std::string_view dtype) {
  if (dtype == "F32") return weight_type::f32;
  if (dtype == "BF16") return weight_type::bf16;
  if (dtype == "F16") return weight_type::f16;
  return std::nullopt;
}

std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code error;
  auto result = std::filesystem::canonical(path, error);
  if (error) throw load_error(path.string() + ": cannot open: " + error.message());
  return result;
}

// The path of a shard that the index names, once it is sure to be a file of the directory.
std::string shard_path(const std::string& index, const std::string& directory, const std::string& shard) {
  const bool plain = !shard.empty() && shard != "." && shard != ".." && shard.find('/') == std::string::npos &&
                     shard.find('\0') == std::string::npos;
  if (!plain) throw load_error(index + ": names the shard " + in_quotes(shard) + ", which is not a file name");
  const std::string path = directory + "/" + shard;
  if (!exists(path)) throw load_error(index + ": names the shard " + in_quotes(shard) + ", which is missing");
  const auto home = resolved(directory);
  const auto folder = resolved(path).parent_path();
  const auto hub_blobs = home.parent_path().parent_path() / "blobs";  // models--X/{snapshots/REVISION,blobs}
  const bool snapshot = home.parent_path().filename() == "snapshots";
  if (folder != home && !(snapshot && folder == hub_blobs))
    throw load_error(index + ": the shard " + in_quotes(shard) + " is a link that leads out of the directory, to " +
                     folder.string());
  return path;
}

}  // namespace

weights weights::open(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) throw load_error(directory + ": cannot open: " + std::strerror(errno));
  if (!S_ISDIR(status.st_mode))
    throw load_error(directory + ": is not a directory; a Hugging Face directory is needed");
  weights result;
  result.directory_ = directory;
  const std::string single = directory + "/model.safetensors";
  const std::string index = single + ".index.json";
  if (exists(single)) {  // before the index, as transformers looks for them
    result.files_.push_back(safetensors_file::open(single));
    for (const tensor_view& tensor : result.files_.back().tensors()) result.add(tensor);
  } else if (exists(index)) {
    result.open_shards(index);
  } else {
    throw load_error(directory + ": holds neither model.safetensors nor model.safetensors.index.json");
  }
  return result;
}

void weights::open_shards(const std::string& index_path) {
  const nlohmann::json index = read_json_file(index_path, longest_index);
  const auto map = index.find("weight_map");
  if (map == index.end()) throw load_error(index_path + ": weight_map is missing");
  if (!map->is_object()) throw load_error(index_path + ": weight_map is not an object but " + map->type_name());

  std::map<std::string, std::set<std::string>> listed;  // shard -> its tensors, by the index
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string())
      throw load_error(index_path + ": the shard of tensor " + in_quotes(name) + " is not a string but " +
                       shard.type_name());
    listed[shard.get<std::string>()].insert(name);
  }
  std::map<std::string, std::string> shard_of;  // tensor -> the shard it was seen in, listed or not
  for (const auto& [shard, names] : listed) {
    files_.push_back(safetensors_file::open(shard_path(index_path, directory_, shard)));
    const safetensors_file& file = files_.back();
    for (const tensor_view& tensor : file.tensors()) {
      const auto [before, fresh] = shard_of.emplace(tensor.name, shard);
      if (!fresh)
        throw load_error(index_path + ": tensor " + in_quotes(tensor.name) + " is in two shards, " +
                         in_quotes(before->second) + " and " + in_quotes(shard));
      if (names.contains(tensor.name)) add(tensor);
    }
    for (const std::string& name : names) {
      if (file.find(name) == nullptr)
        throw load_error(index_path + ": lists tensor " + in_quotes(name) + " in " + in_quotes(shard) +
                         ", which does not hold it");
    }
  }
}

void weights::add(const tensor_view& tensor) {
  tensor_view& added = tensors_[tensor.name] = tensor;
  const std::size_t element = std::max<std::size_t>(dtype_bytes(tensor.dtype), 1);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % element == 0) return;
  copies_.emplace_back(tensor.data, tensor.data + tensor.bytes);
  added.data = copies_.back().data();
}

const tensor_view& weights::checked(std::string_view name, std::span<const std::int64_t> shape) const {
  const auto found = tensors_.find(name);
  const std::string tensor = directory_ + ": " + std::string(name);
  if (found == tensors_.end()) throw load_error(tensor + " is missing; expected with shape " + shape_text(shape));
  const tensor_view& view = found->second;
  if (!std::equal(shape.begin(), shape.end(), view.shape.begin(), view.shape.end()))
    throw load_error(tensor + " has shape " + shape_text(view.shape) + "; expected " + shape_text(shape));
  if (!weight_type_of(view.dtype))
    throw load_error(tensor + " has dtype " + in_quotes(view.dtype) + "; expected F32, BF16 or F16");
  return view;
}

weight_matrix weights::matrix(std::string_view name, std::int64_t out, std::int64_t in) const {
  const tensor_view& tensor = checked(name, std::array{out, in});
  return {tensor.data, *weight_type_of(tensor.dtype), out, in};
}

std::vector<float> weights::vector(std::string_view name, std::int64_t length) const {
  const tensor_view& tensor = checked(name, std::array{length});
  std::vector<float> result(static_cast<std::size_t>(length));
  const weight_matrix row{tensor.data, *weight_type_of(tensor.dtype), 1, length};
  visit_elements(row, [&](const auto* elements) {
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(elements[i]);
  });
  return result;
}

}  // namespace qwen3
