// Texts -> raw tokens, still as written. Everything that is costly happens later, once per distinct
// raw token.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/analyzer.hpp"
#include "text/string_table.hpp"

namespace hyrecall::text {

struct RawBatch {
  // Item values: a raw token's number, with kHold when the next token shares its position;
  // or kGap, a position without a token.
  static constexpr std::uint32_t kHold = 0x80000000u;
  static constexpr std::uint32_t kGap = 0x7fffffffu;

  StringTable raws;                     // distinct raw tokens, by first use
  std::vector<std::uint32_t> items;     // in text order
  std::vector<std::size_t> offsets{0};  // [n_texts + 1] into items
  bool locates = false;
  std::vector<Span> spans;  // if it locates: [items] what of its text each was made of
};

// kWord, kWordMarks, kTurkish: a raw token is a slice of the text (in NFC), except that every
// capital sigma is already resolved. kUnicode: a word, identifier or emoji as written, or (first
// character of a script that is cut into pairs) a folded gram. kUnicode61, kPorter: a slice of the
// text (in NFC). Puts the items of these texts in place of those before; raw tokens stay, and keep
// their numbers.
void split(std::span<std::string_view const> texts, Preset preset, Role role, RawBatch& out);

}  // namespace hyrecall::text
