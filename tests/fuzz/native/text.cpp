// Any bytes through every preset: split, terms, fold, analyzer. Byte 0: preset, role, way; the
// rest: texts, cut at 0x1e.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/native/fuzz.hpp"
#include "text/analyzer.hpp"
#include "text/splitter.hpp"
#include "text/terms.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

using namespace hyrecall::text;
using namespace hyrecall::fuzzing;

namespace {

// Exactly as long as the text, so that a byte read past it is seen.
struct Tight {
  std::vector<std::unique_ptr<char[]>> held;
  std::vector<std::string_view> views;
  void add(std::string_view text) {
    held.push_back(std::make_unique<char[]>(text.size()));
    std::memcpy(held.back().get(), text.data(), text.size());
    views.emplace_back(held.back().get(), text.size());
  }
};
bool valid_utf8(std::string const& s) {
  for (char const *at = s.data(), *end = at + s.size(); at < end;) {
    CodePoint const c = decode_utf8(at, end);
    if (c.value == kReplacement && c.size == 1) return false;
    at += c.size;
  }
  return true;
}
struct Token {
  std::string term;
  std::uint32_t position;
  bool operator==(Token const&) const = default;
};
std::vector<Token> tokens_of(TokenBatch const& b, std::size_t text) {
  std::vector<Token> out;
  for (auto i = b.offsets[text]; i < b.offsets[text + 1]; ++i)
    out.push_back({b.terms[b.term_ids[i]], b.positions[i]});
  return out;
}
void check_batch(TokenBatch const& b, std::size_t n) {
  REQUIRE(b.offsets.size() == n + 1 && b.lengths.size() == n && b.last_words.size() == n);
  REQUIRE(b.offsets.front() == 0 && std::is_sorted(b.offsets.begin(), b.offsets.end()));
  REQUIRE(b.offsets.back() == b.term_ids.size() && b.term_ids.size() == b.positions.size());
  for (auto id : b.term_ids) REQUIRE(id < b.terms.size());
  std::set<std::string> const distinct(b.terms.begin(), b.terms.end());
  REQUIRE(distinct.size() == b.terms.size());
  for (auto const& t : b.terms) {
    REQUIRE(!t.empty());
    REQUIRE(valid_utf8(t));
  }
  for (std::size_t t = 0; t < n; ++t) {
    std::uint32_t places = 0, last = 0xffffffff;
    for (auto i = b.offsets[t]; i < b.offsets[t + 1]; ++i) {
      if (last != 0xffffffff) REQUIRE(b.positions[i] >= last);
      if (b.positions[i] != last) ++places;
      last = b.positions[i];
    }
    REQUIRE(b.lengths[t] == places);
    auto const& word = b.last_words[t];
    REQUIRE(word.first_token <= b.offsets[t + 1]);
    if (places > 0) REQUIRE(word.first_token >= b.offsets[t]);
    for (auto i = word.first_token; places > 0 && i < b.offsets[t + 1]; ++i)
      REQUIRE(b.positions[i] >= word.position);
  }
}
// The number of tokens of a text's last word, and its position behind another one.
std::pair<std::uint64_t, std::uint32_t> last_word(TokenBatch const& b, std::size_t text,
                                                  std::uint32_t behind = 0) {
  auto const& word = b.last_words[text];
  return {b.offsets[text + 1] - word.first_token, word.position - behind};
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 1) return 0;
  auto const preset = static_cast<Preset>(data[0] % 5);
  Role const role = (data[0] / 5) % 2 == 0 ? Role::kDocument : Role::kQuery;
  int const way = data[0] / 10 % 4;
  std::string_view rest(reinterpret_cast<char const*>(data) + 1, size - 1);
  Tight texts;
  for (std::size_t at = 0; at <= rest.size();) {
    std::size_t const cut = std::min(rest.find('\x1e', at), rest.size());
    texts.add(rest.substr(at, cut - at));
    at = cut + 1;
  }
  std::size_t const n = texts.views.size();
  RawBatch raw;
  split(texts.views, preset, role, raw);
  REQUIRE(raw.offsets.size() == n + 1 && raw.offsets.front() == 0 &&
          raw.offsets.back() == raw.items.size());
  REQUIRE(std::is_sorted(raw.offsets.begin(), raw.offsets.end()));
  for (auto item : raw.items)
    REQUIRE(item == RawBatch::kGap || (item & ~RawBatch::kHold) < raw.raws.size());
  for (std::uint32_t id = 0; id < raw.raws.size(); ++id) {
    std::string const token(raw.raws[id]);
    REQUIRE(!token.empty());
    REQUIRE(raw.raws.find(token) == id);
    if (preset == Preset::kUnicode61 || preset == Preset::kPorter) {
      bool found = false;
      for (auto v : texts.views) found |= v.find(token) != v.npos;
      REQUIRE(found);
    }
    auto tight = std::make_unique<char[]>(token.size());
    std::memcpy(tight.get(), token.data(), token.size());
    std::string_view const exact(tight.get(), token.size());
    RawTerms const one = terms_of(exact, preset);
    std::uint32_t last = 0;
    for (auto const& t : one.terms) {
      REQUIRE(t.delta >= last && t.delta < one.n_positions);
      last = t.delta;
    }
    if (is_its_own_term(exact, preset))
      REQUIRE(one.terms.size() == 1 && one.terms[0].text == token && one.n_positions == 1);
  }
  // Any bytes are a token to terms_of, and any code points a word to fold_word.
  if (way == 1) {
    for (auto v : texts.views) (void)terms_of(v, preset);
    std::u32string word;
    for (auto v : texts.views)
      for (char const *at = v.data(), *end = at + v.size(); at < end;) {
        CodePoint const c = decode_utf8(at, end);
        word += c.value;
        at += c.size;
      }
    std::u32string const folded = fold_word(word);
    REQUIRE(fold_word(folded) == folded);
    REQUIRE(folded.size() <= word.size() * 18 + 18);
    if (preset == Preset::kPorter)
      for (auto v : texts.views) {
        std::string s(v);
        porter_stem(s);
        REQUIRE(s.size() <= v.size());
      }
  }
  AnalyzerOptions options{.preset = preset, .stopwords = {}, .token_function = {}};
  auto const analyzer = make_analyzer(options);
  TokenBatch const batch = analyzer->analyze(texts.views, role);
  check_batch(batch, n);
  TokenBatch const again = analyzer->analyze(texts.views, role);
  for (std::size_t t = 0; t < n; ++t) {
    auto expected = tokens_of(batch, t);
    if (is_planted() && expected.size() > 2 && expected[2].term.size() > 3) expected.pop_back();
    REQUIRE(expected == tokens_of(again, t));
    REQUIRE(batch.lengths[t] == again.lengths[t] && last_word(batch, t) == last_word(again, t));
  }
  // A text means the same alone as in a batch; a reader that goes on means the same as a new one.
  auto const reader = analyzer->reader(role);
  for (std::size_t t = 0; t < n; ++t) {
    reader->read({&texts.views[t], 1});
    REQUIRE(tokens_of(reader->batch(), 0) == tokens_of(batch, t));
    REQUIRE(reader->batch().lengths[0] == batch.lengths[t]);
  }
  // Prefix: what stands behind a NUL changes nothing before it, and means what it means alone.
  if (way == 2 && n >= 2) {
    Tight joined;
    std::string both(texts.views[0]);
    both += '\0';
    both += texts.views[1];
    joined.add(both);
    TokenBatch const b = analyzer->analyze(joined.views, role);
    auto const got = tokens_of(b, 0), one = tokens_of(batch, 0), two = tokens_of(batch, 1);
    REQUIRE(got.size() == one.size() + two.size());
    for (std::size_t i = 0; i < one.size(); ++i) REQUIRE(got[i] == one[i]);
    for (std::size_t i = 0; i < two.size(); ++i) {
      REQUIRE(got[one.size() + i].term == two[i].term);
      REQUIRE(got[one.size() + i].position - got[one.size()].position ==
              two[i].position - two[0].position);
    }
    if (!one.empty() && !two.empty()) REQUIRE(got[one.size()].position > one.back().position);
    REQUIRE(b.lengths[0] == batch.lengths[0] + batch.lengths[1]);
    if (!two.empty())
      REQUIRE(last_word(b, 0, got[one.size()].position) == last_word(batch, 1, two[0].position));
  }
  // A term of these presets is its own term.
  if (way == 3 && (preset == Preset::kWord || preset == Preset::kWordMarks)) {
    for (auto const& term : batch.terms) {
      std::string_view const v(term);
      auto const t = tokens_of(analyzer->analyze({&v, 1}, role), 0);
      REQUIRE(t.size() == 1 && t[0].term == term);
    }
  }
  // Stop words: without them the same tokens at the same positions, and fewer.
  if (way == 3 && preset == Preset::kUnicode && !batch.terms.empty()) {
    std::string const stop = batch.terms[0];
    std::shared_ptr<Analyzer> less;
    try {
      less = make_analyzer({.preset = preset, .stopwords = {stop}, .token_function = {}});
    } catch (std::exception const&) {
      return 0;
    }
    TokenBatch const fewer = less->analyze(texts.views, role);
    check_batch(fewer, n);
    for (std::size_t t = 0; t < n; ++t) {
      auto const all = tokens_of(batch, t);
      for (auto const& token : tokens_of(fewer, t))
        REQUIRE(std::find(all.begin(), all.end(), token) != all.end());
    }
  }
  return 0;
}
