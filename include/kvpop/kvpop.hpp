#pragma once

/// @file
/// Everything an engine needs on the host. A token's keys and values flow cache -> score -> select -> attention; the folders
/// follow that order, and each header can be included alone. Not here: core/thread_pool.hpp, for programs without a pool, and
/// training: attention/masked.hpp, attention/transposed.hpp and train/.

#include "kvpop/attention/decode.hpp"            // decode_attention
#include "kvpop/attention/merge.hpp"             // merge of partial attention by LSE
#include "kvpop/attention/prefill.hpp"           // prefill
#include "kvpop/cache/append.hpp"                // append
#include "kvpop/cache/attended.hpp"              // attended
#include "kvpop/cache/cache.hpp"                 // budgeted_cache
#include "kvpop/cache/end_prompt.hpp"            // end_prompt, compact
#include "kvpop/cache/pin.hpp"                   // pin, unpin
#include "kvpop/core/visit.hpp"                  // visit
#include "kvpop/score/charge.hpp"                // what a scorer's memory costs of a budget
#include "kvpop/score/h2o.hpp"                   // h2o
#include "kvpop/score/key_norm.hpp"              // key_norm
#include "kvpop/score/random.hpp"                // random_scorer
#include "kvpop/score/recency.hpp"               // recency (StreamingLLM)
#include "kvpop/score/replay.hpp"                // replay
#include "kvpop/score/scorer_file.hpp"           // load_scorer: mlp, mlstm
#include "kvpop/score/snapkv.hpp"                // snapkv
#include "kvpop/score/tova.hpp"                  // tova
#include "kvpop/select/death_times.hpp"          // death_times
#include "kvpop/select/death_times_fenwick.hpp"  // the same for many tokens and places
#include "kvpop/select/top_k.hpp"                // top_k
