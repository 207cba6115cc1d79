#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "kvpop/core/buffer.hpp"               // buffer
#include "kvpop/score/decay.hpp"               // log_gamma_from
#include "kvpop/score/learned_scorer.hpp"      // learned_scorer_ref
#include "kvpop/score/safetensors_file.hpp"    // safetensors_file
#include "kvpop/score/scorer_description.hpp"  // scorer_description

KVPOP_NAMESPACE_BEGIN

/// One layer's scorer with the parameters it needs: a move-only owner, independent of the file it came from.
class scorer_layer {
 public:
  /// What verbs take; valid while this object lives.
  [[nodiscard]] learned_scorer_ref ref() const noexcept { return ref_; }

 private:
  friend class scorer_file;
  scorer_layer(buffer<float> parameters, const learned_scorer_ref& ref) noexcept
      : parameters_(std::move(parameters)), ref_(ref) {}

  buffer<float> parameters_;
  learned_scorer_ref ref_;
};

/// A scorer file: the trained scorers of all layers of one model, read, validated and owned.
class scorer_file {
 public:
  /// Validates the description, and that exactly its tensors are there with their shapes, F32 and finite.
  explicit scorer_file(safetensors_file file) : file_(std::move(file)), description_(describe_scorer(file_)) {
    for (index_t i = 0; i < description_.layers; ++i) {
      for (const scorer_tensor& tensor : description_.tensors()) {
        check_finite(layer_tensor_name(i, tensor.name));
      }
    }
  }

  /// Kind, sizes and training settings, as the file states them.
  [[nodiscard]] const scorer_description& description() const noexcept { return description_; }

  /// Floats of memory per (sequence, kv head); 0 for an MLP.
  [[nodiscard]] index_t memory_size() const noexcept { return description_.memory_size(); }

  /// Throws `error` naming the first size in which the model differs from the one the scorer was trained for.
  void check_model(index_t layers, index_t kv_heads, index_t key_dim, index_t value_dim) const {
    const std::string who = file_.name() + ": scorer of another model: ";
    check_size(who, "layers", description_.layers, layers);
    check_size(who, "kv_heads", description_.input.kv_heads, kv_heads);
    check_size(who, "key_dim", description_.input.key_dim, key_dim);
    check_size(who, "value_dim", description_.input.value_dim, value_dim);
  }

  /// A copy of one layer's parameters, ready to score. Allocates once.
  ///
  /// Throws `error` unless i is in 0 .. layers - 1.
  [[nodiscard]] scorer_layer layer(index_t i) const {
    if (i < 0 || i >= description_.layers) [[unlikely]] {
      fail(file_.name() + ": layer is " + std::to_string(i) + "; the file has " + std::to_string(description_.layers) +
           " layers");
    }
    index_t floats = 0;
    for (const scorer_tensor& tensor : description_.tensors()) {
      floats += padded(description_.input.kv_heads * tensor.size());
    }
    buffer<float> parameters(floats);
    const learned_scorer_ref ref =
        description_.kind == scorer_kind::mlp ? make_mlp(i, parameters.data()) : make_mlstm(i, parameters.data());
    return {std::move(parameters), ref};
  }

 private:
  /// Every tensor begins on a cache line.
  [[nodiscard]] static index_t padded(index_t floats) noexcept { return (floats + 15) / 16 * 16; }

  static void check_size(const std::string& who, const char* name, index_t file, index_t model) {
    if (file != model) [[unlikely]] {
      fail(who + name + " is " + std::to_string(file) + " in the file and " + std::to_string(model) + " in the model");
    }
  }

  void check_finite(const std::string& name) const {
    const safetensors_entry& entry = file_.header().tensors.find(name)->second;
    for (index_t at = entry.begin; at < entry.end; at += 4) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, file_.data() + at, 4);
      if ((bits & 0x7f800000U) == 0x7f800000U) [[unlikely]] {
        fail(file_.name() + ": tensor " + in_quotes(name) + ": element " + std::to_string((at - entry.begin) / 4) +
             " is not finite");
      }
    }
  }

  /// Copies tensors one after another and hands out where each lies.
  class parameter_copier {
   public:
    parameter_copier(const scorer_file& file, index_t layer, float* out) noexcept
        : file_(file), layer_(layer), out_(out) {}

    const float* operator()(const char* name) {
      const safetensors_entry& entry = file_.file_.header().tensors.find(layer_tensor_name(layer_, name))->second;
      float* const copy = out_;
      const index_t bytes = entry.end - entry.begin;
      std::memcpy(copy, file_.file_.data() + entry.begin, static_cast<std::size_t>(bytes));
      out_ += padded(bytes / static_cast<index_t>(sizeof(float)));
      return copy;
    }

    /// log gamma of every head, computed once; null when the file has no g.
    const float* log_gamma() {
      if (!file_.description_.has_decay) {
        return nullptr;
      }
      float* const decay = out_;
      const float* const g = (*this)("g");
      for (index_t h = 0; h < file_.description_.input.kv_heads; ++h) {
        decay[h] = log_gamma_from(g[h]);
      }
      return decay;
    }

   private:
    const scorer_file& file_;
    index_t layer_;
    float* out_;
  };

  [[nodiscard]] learned_scorer_ref make_mlp(index_t layer, float* out) const {
    parameter_copier copy(*this, layer, out);
    mlp_parameters p;
    p.hidden = description_.hidden;
    p.w1 = copy("w1");
    p.b1 = copy("b1");
    p.w2 = copy("w2");
    p.b2 = copy("b2");
    p.log_gamma = copy.log_gamma();
    return mlp_ref(description_.input, p, description_.delay);
  }

  [[nodiscard]] learned_scorer_ref make_mlstm(index_t layer, float* out) const {
    parameter_copier copy(*this, layer, out);
    mlstm_parameters p;
    p.dk = description_.dk;
    p.dv = description_.dv;
    p.wk = copy("wk");
    p.wv = copy("wv");
    p.wq = copy("wq");
    p.wo = copy("wo");
    p.wf = copy("wf");
    p.wi = copy("wi");
    p.a = copy("a");
    p.wout = copy("wout");
    p.bf = copy("bf");
    p.bi = copy("bi");
    p.b = copy("b");
    p.log_gamma = copy.log_gamma();
    return mlstm_ref(description_.input, p, description_.delay);
  }

  safetensors_file file_;
  scorer_description description_;
};

/// Reads a scorer file: `auto scorer = kvpop::load_scorer("qwen3-4b.kvpop.safetensors").layer(i);`
///
/// Throws `error` naming the file and what is wrong with it. Allocates no more than the file really holds, twice over.
[[nodiscard]] inline scorer_file load_scorer(const char* path) { return scorer_file(safetensors_file::read(path)); }
[[nodiscard]] inline scorer_file load_scorer(const std::string& path) { return load_scorer(path.c_str()); }

/// The same from memory, which is copied; `name` is how messages call it.
[[nodiscard]] inline scorer_file load_scorer(const std::byte* bytes, std::size_t size, const std::string& name) {
  return scorer_file(safetensors_file::copy(bytes, size, name));
}

KVPOP_NAMESPACE_END
