// The terms of a column that a word may have been meant for.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/lexical/column.hpp"

namespace hyrecall {

inline constexpr std::uint32_t kMostEdits = 2;

// The terms within so many edits of a word: to insert, delete or replace a code point, or to swap
// two neighbours, between which nothing else is edited (optimal string alignment). In UTF-8 byte
// order.
std::vector<TermId> terms_within(LexicalColumn const& column, std::string_view word,
                                 std::uint32_t edits);

class Beginnings;

// Tells which terms are those of a word, which is read once.
class NearWord {
 public:
  NearWord(std::string_view word, std::uint32_t edits);
  ~NearWord();
  NearWord(NearWord&&) noexcept;

  bool is_near(std::string_view term) const;

 private:
  std::unique_ptr<Beginnings> known_;
};

}  // namespace hyrecall
