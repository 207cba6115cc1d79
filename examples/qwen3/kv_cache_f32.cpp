#include "kv_cache_of.hpp"

namespace qwen3 {

template std::unique_ptr<kv_cache> make_kv_cache_of<float>(kv_cache_parts);

}  // namespace qwen3
