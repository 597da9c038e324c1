// How often a document holds each of a query's terms, from its tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Legal calls: begin() with distinct terms; then count() for any rows of that column.
// Cost: begin() tries tables until each term has a slot of its own. count() walks the row's bytes
// without a branch on a term: most tokens are none of the query's, in no order that a processor
// could foresee.
class TermCounts {
 public:
  // kNone32 stands for no term: its count stays 0. false: no table of a sensible size was found.
  bool begin(LexicalColumn const& column, std::span<TermId const> terms);
  // By place among the terms, until the next call.
  std::span<std::uint32_t const> count(Row row);

 private:
  struct Slot {
    std::uint32_t code;  // term + 1, as tokens are written; 0: none
    std::uint32_t place;
  };

  bool fill(std::span<TermId const> terms, std::uint32_t factor);

  LexicalColumn const* column_ = nullptr;
  std::vector<Slot> slots_;  // a power of two
  std::uint32_t factor_ = 0;
  unsigned shift_ = 0;
  std::vector<std::uint32_t> counts_;
};

}  // namespace hyrecall
