#define PCRE2_CODE_UNIT_WIDTH 8
#include "pattern.hpp"

#include <pcre2.h>

#include <new>
#include <stdexcept>

#include "error.hpp"  // load_error
#include "utf8.hpp"   // first_utf8

namespace qwen3 {

namespace {

std::string pcre2_reason(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct release_context {
  void operator()(pcre2_compile_context* context) const noexcept { pcre2_compile_context_free(context); }
};

}  // namespace

void pattern::release::operator()(pcre2_real_code_8* code) const noexcept { pcre2_code_free(code); }
void matcher::release::operator()(pcre2_real_match_data_8* data) const noexcept { pcre2_match_data_free(data); }

pattern::pattern(const std::string& source) {
  const std::unique_ptr<pcre2_compile_context, release_context> context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int problem = 0;
  PCRE2_SIZE where = 0;
  // No search for a likely start: a split begins a match nearly everywhere, and the one of PCRE2 10.42's JIT compiler jumps
  // over matches of (?>\p{L}+?)\p{Lu} where two-byte characters come before one-byte ones.
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_START_OPTIMIZE;
  code_.reset(pcre2_compile(units(source), source.size(), options, &problem, &where, context.get()));
  if (!code_) throw load_error("PCRE2 cannot compile the pattern: " + pcre2_reason(problem));
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it the matches are the same, only slower
}

matcher::matcher(const pattern& source)
    : source_(&source), data_(pcre2_match_data_create_from_pattern(source.code_.get(), nullptr)) {
  if (!data_) throw std::bad_alloc();
}

std::optional<matcher::match> matcher::find(std::string_view text, std::size_t start) {
  const auto run = [&](std::uint32_t options) {
    return pcre2_match(source_->code_.get(), units(text), text.size(), start, PCRE2_NO_UTF_CHECK | options, data_.get(),
                       nullptr);
  };
  int count = run(0);
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = run(PCRE2_NO_JIT);  // the interpreter keeps its stack on the heap
  if (count == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (count < 0) throw std::runtime_error("PCRE2 cannot match the split pattern: " + pcre2_reason(count));
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data_.get());
  return match{ends[0], ends[1]};
}

std::size_t matcher::next_character(std::string_view text, std::size_t start) {
  return first_utf8(text.substr(start)).size;
}

}  // namespace qwen3
