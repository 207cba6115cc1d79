// expect: no matching function for call to .decode_attention
#include "kvpop/attention/decode.hpp"

using host = kvpop::step_view<const float>;
using out = kvpop::step_view<float>;
using device = kvpop::step_view<const float, kvpop::device_memory>;

void run(const kvpop::budgeted_cache_ref<float, 64>& cache, const host& q, const out& y, const device& z) {
  kvpop::decode_attention(kvpop::host_context(), q, cache, y);
#ifdef KVPOP_FAIL
  kvpop::decode_attention(kvpop::host_context(), z, cache, y);
#else
  static_cast<void>(z);
#endif
}
