#include "notebook_data.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kvpop/train/random_stream.hpp"  // random_stream, sample

namespace qwen3 {

namespace {

using std::operator""sv;

constexpr std::array names{
    "amber"sv,  "birch"sv,  "cedar"sv,  "delta"sv,  "ember"sv,  "flint"sv,   "grove"sv,  "heron"sv,   "ivory"sv,
    "jade"sv,   "karst"sv,  "larch"sv,  "maple"sv,  "north"sv,  "ocean"sv,   "pearl"sv,  "quartz"sv,  "raven"sv,
    "slate"sv,  "thorn"sv,  "umber"sv,  "violet"sv, "willow"sv, "yarrow"sv,  "zephyr"sv, "acorn"sv,   "basil"sv,
    "coral"sv,  "dusk"sv,   "elder"sv,  "fern"sv,   "glade"sv,  "hazel"sv,   "indigo"sv, "juniper"sv, "kelp"sv,
    "lotus"sv,  "moss"sv,   "nettle"sv, "onyx"sv,   "plum"sv,   "quill"sv,   "reed"sv,   "sage"sv,    "tulip"sv,
    "vale"sv,   "wren"sv,   "alder"sv,  "brook"sv,  "clover"sv, "dune"sv,    "echo"sv,   "frost"sv,   "garnet"sv,
    "holly"sv,  "iris"sv,   "jasper"sv, "koi"sv,    "lilac"sv,  "myrtle"sv,  "night"sv,  "opal"sv,    "poppy"sv,
    "rose"sv,   "sorrel"sv, "teal"sv,   "topaz"sv,  "aspen"sv,  "bay"sv,     "cliff"sv,  "dawn"sv,    "ash"sv,
    "briar"sv,  "cairn"sv,  "daisy"sv,  "eaves"sv,  "fjord"sv,  "gorse"sv,   "heath"sv,  "islet"sv,   "knoll"sv,
    "ledge"sv,  "marsh"sv,  "nook"sv,   "oasis"sv,  "peak"sv,   "ridge"sv,   "spruce"sv, "tarn"sv,    "urn"sv,
    "verge"sv,  "wharf"sv,  "yew"sv,    "zinc"sv,   "agate"sv,  "beryl"sv,   "cobalt"sv, "ebony"sv,   "flax"sv,
    "ginger"sv, "henna"sv,  "indium"sv, "iron"sv,   "lead"sv,   "mica"sv,    "nickel"sv, "onion"sv,   "pine"sv,
    "quince"sv, "rye"sv,    "salt"sv,   "tin"sv,    "ochre"sv,  "saffron"sv, "thyme"sv,  "vetch"sv,   "wheat"sv};
constexpr std::array values{"owl"sv,  "fox"sv,  "bear"sv,  "crow"sv, "deer"sv,  "duck"sv, "eel"sv,  "elk"sv,
                            "fish"sv, "frog"sv, "goat"sv,  "hare"sv, "hawk"sv,  "hen"sv,  "ibis"sv, "jay"sv,
                            "kid"sv,  "lamb"sv, "lark"sv,  "lion"sv, "lynx"sv,  "mink"sv, "mole"sv, "moth"sv,
                            "mule"sv, "newt"sv, "otter"sv, "ox"sv,   "pig"sv,   "pony"sv, "ram"sv,  "rat"sv,
                            "seal"sv, "slug"sv, "snail"sv, "stag"sv, "stork"sv, "swan"sv, "toad"sv, "trout"sv,
                            "vole"sv, "wasp"sv, "wolf"sv,  "worm"sv, "yak"sv,   "bat"sv,  "bee"sv,  "boar"sv};
constexpr std::array adjectives{"old"sv,  "new"sv,  "red"sv,  "big"sv,  "low"sv,
                                "high"sv, "slow"sv, "cold"sv, "warm"sv, "grey"sv};
constexpr std::array nouns{"mill"sv, "road"sv, "barn"sv, "gate"sv, "well"sv, "hill"sv, "boat"sv, "farm"sv,
                           "shop"sv, "lane"sv, "pond"sv, "yard"sv, "shed"sv, "wall"sv, "roof"sv};
constexpr std::array verbs{"sees"sv,  "meets"sv, "holds"sv, "nears"sv, "finds"sv,
                           "hides"sv, "joins"sv, "moves"sv, "turns"sv, "warms"sv};

enum class line_kind { record, mark, question, filler };

struct line {
  line_kind kind;
  std::string text;
};

template <std::size_t N>
std::string pick(kvpop::random_stream& random, const std::array<std::string_view, N>& words) {
  return std::string(words[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(N) - 1))]);
}

std::string filler(kvpop::random_stream& random) {
  switch (random.integer(0, 2)) {
    case 0: {
      const std::string begin = "the " + pick(random, adjectives) + " " + pick(random, nouns) + " ";
      return begin + pick(random, verbs) + " a " + pick(random, nouns) + "\n";
    }
    case 1: {
      const std::string begin = "a " + pick(random, nouns) + " " + pick(random, verbs) + " the ";
      return begin + pick(random, adjectives) + " " + pick(random, nouns) + "\n";
    }
    default: {
      const std::string noun = pick(random, nouns);
      return "so the " + noun + " " + pick(random, verbs) + " it\n";
    }
  }
}

// Words and the line feed.
std::int64_t tokens_of(const std::string& text) {
  return static_cast<std::int64_t>(std::count(text.begin(), text.end(), ' ')) + 2;
}

// The state of one stream: what may be recorded, marked and asked next.
class jottings {
 public:
  jottings(const notebook_settings& settings, kvpop::random_stream random) : settings_(settings), random_(random) {
    for (const std::string_view name : names) free_.emplace_back(name);
    kvpop::sample(random_, free_.data(), static_cast<std::int64_t>(free_.size()),
                  static_cast<std::int64_t>(free_.size()));
  }

  bool done() const { return at_ >= settings_.tokens; }

  line next() {
    const auto due = std::find_if(pending_.begin(), pending_.end(), [](const record& r) { return r.lines_left <= 0; });
    std::vector<std::size_t> askable;
    for (std::size_t i = 0; i < confirmed_.size(); ++i)
      if (at_ - confirmed_[i].mentioned >= settings_.least_gap) askable.push_back(i);
    const double u = random_.uniform();
    line result;
    if (due != pending_.end()) {
      result = mark(due);
    } else if (u < settings_.records && !free_.empty()) {
      record r{free_.back(), pick(random_, values), random_.integer(1, 3), 0};
      free_.pop_back();
      result = {line_kind::record, "note " + r.name + " " + r.value + "\n"};
      pending_.push_back(std::move(r));
    } else if (u >= settings_.records && u < settings_.records + settings_.questions && !askable.empty()) {
      record& r = confirmed_[askable[static_cast<std::size_t>(
          random_.integer(0, static_cast<std::int64_t>(askable.size()) - 1))]];
      r.mentioned = at_;
      result = {line_kind::question, "ask " + r.name + " " + r.value + "\n"};
    } else {
      result = {line_kind::filler, filler(random_)};
    }
    for (record& r : pending_) --r.lines_left;
    at_ += tokens_of(result.text);
    return result;
  }

 private:
  struct record {
    std::string name, value;
    std::int64_t lines_left;
    std::int64_t mentioned;
  };

  line mark(std::vector<record>::iterator due) {
    record r = std::move(*due);
    pending_.erase(due);
    const bool kept = random_.uniform() < settings_.kept;
    line result{line_kind::mark, (kept ? "keep " : "drop ") + r.name + "\n"};
    r.mentioned = at_;
    if (kept) confirmed_.push_back(std::move(r));
    return result;
  }

  const notebook_settings& settings_;
  kvpop::random_stream random_;
  std::vector<std::string> free_;
  std::vector<record> pending_;
  std::vector<record> confirmed_;
  std::int64_t at_ = 0;
};

}  // namespace

notebook_document make_notebook(const notebook_settings& settings, std::uint64_t seed, std::uint64_t number) {
  jottings stream(settings, kvpop::random_stream::of(seed, 3, number));
  notebook_document document;
  while (!stream.done()) {
    const line next = stream.next();
    if (next.kind == line_kind::question) {
      const std::size_t end = document.text.size() + next.text.size() - 1;
      document.answers.emplace_back(document.text.size() + next.text.rfind(' '), end);
    }
    document.text += next.text;
  }
  return document;
}

std::string notebook_line(const notebook_document& document) {
  nlohmann::ordered_json answers = nlohmann::ordered_json::array();
  for (const auto& [begin, end] : document.answers) answers.push_back({begin, end});
  return nlohmann::ordered_json{{"text", document.text}, {"answers", answers}}.dump() + "\n";
}

}  // namespace qwen3
