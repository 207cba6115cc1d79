#include "agree.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kvpop/select/order.hpp"  // never
#include "logits.hpp"              // run_chunks

namespace qwen3 {

namespace {

struct run_record {
  std::vector<float> logits;  // [tokens, vocabulary]
  death_record deaths;
};

run_record record_run(const kvpop::host_context& ctx, const model& network, const scorer_set& scorers,
                      const kv_cache_request& request, std::span<const std::int32_t> tokens, std::int64_t chunk) {
  const auto cache = make_kv_cache(network.config(), scorers, request);
  cache->record_deaths();
  run_record result;
  run_chunks(ctx, network, tokens, *cache, chunk, request.prompt, [&](std::span<const float> logits) {
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
  });
  result.deaths = cache->deaths();
  return result;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) largest = difference;  // NaN shows
  }
  return largest;
}

std::int64_t count_different(const death_record& a, const death_record& b) {
  std::int64_t count = 0;
  for (std::size_t layer = 0; layer < a.size(); ++layer) {
    for (std::size_t i = 0; i < a[layer].size(); ++i) count += a[layer][i] != b[layer][i];
  }
  return count;
}

}  // namespace

agreement_report compare_chunkings(const kvpop::host_context& ctx, const model& network, const scorer_set& scorers,
                                   const kv_cache_request& request, std::span<const std::int32_t> tokens,
                                   std::int64_t chunk) {
  const run_record chunked = record_run(ctx, network, scorers, request, tokens, chunk);
  const run_record single = record_run(ctx, network, scorers, request, tokens, 1);
  kv_cache_request replay = request;
  replay.replay = &chunked.deaths;
  const run_record replayed = record_run(ctx, network, scorers, replay, tokens, 1);

  agreement_report report;
  report.tokens = static_cast<std::int64_t>(tokens.size());
  for (const auto& layer : chunked.deaths)
    report.evictions += std::count_if(layer.begin(), layer.end(), [](std::int64_t d) { return d != kvpop::never; });
  report.different_deaths = count_different(chunked.deaths, single.deaths);
  report.replayed_deaths = count_different(chunked.deaths, replayed.deaths);
  for (const float x : chunked.logits) report.largest_logit = std::max(report.largest_logit, std::abs(double{x}));
  report.own_difference = largest_difference(chunked.logits, single.logits);
  report.replayed_difference = largest_difference(chunked.logits, replayed.logits);
  return report;
}

bool holds(const agreement_report& report) {
  return report.replayed_deaths == 0 && report.replayed_difference <= replay_tolerance * report.largest_logit;
}

std::string agreement_text(const agreement_report& report) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(),
                "%lld tokens, %lld evictions\n"
                "own evictions:        %lld death times differ, logits by at most %.3g of %.3g\n"
                "replayed death times: %lld death times differ, logits by at most %.3g\n",
                static_cast<long long>(report.tokens), static_cast<long long>(report.evictions),
                static_cast<long long>(report.different_deaths), report.own_difference, report.largest_logit,
                static_cast<long long>(report.replayed_deaths), report.replayed_difference);
  return text.data();
}

}  // namespace qwen3
