// The terms of a column that a word may have been meant for.
#pragma once

#include <cstdint>
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

// Whether a term is one of those.
bool is_within(std::string_view term, std::string_view word, std::uint32_t edits);

}  // namespace hyrecall
