// One raw token -> its terms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/analyzer.hpp"

namespace hyrecall::text {

struct Term {
  std::string text;
  std::uint32_t delta;  // position after the raw token's first; never falling
  // The bytes of the raw token that it was made of.
  std::uint32_t begin = 0;
  std::uint32_t end = kWhole;

  static constexpr std::uint32_t kWhole = 0xffffffffu;  // up to the raw token's end
};

struct RawTerms {
  std::vector<Term> terms;
  std::uint32_t n_positions =
      1;  // positions the raw token uses, whether a term stands there or not
};

// The text in NFC, and in small letters where the preset has no others; capital sigmas must be
// resolved. For presets other than kUnicode, which fold each word.
std::string composed(std::string_view text, Preset preset);

RawTerms terms_of(std::string_view raw, Preset preset);

// Whether the raw token is its own one term, seen at a glance: most words of most texts need no
// further work.
bool is_its_own_term(std::string_view raw, Preset preset);

// The Porter stemmer with FTS5's two additions (-bli, -logi) and its conditions: ASCII vowels only,
// words of 3 to 64 bytes. Works in place.
void porter_stem(std::string& word);

}  // namespace hyrecall::text
