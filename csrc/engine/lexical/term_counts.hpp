// Counts from a document's tokens how often it holds each of a query's terms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Legal calls: begin() with distinct terms; then count() for any rows of that column.
// Cost: begin() tries tables until each term has its own slot. count() reads the row's bytes
// without a branch on the term, since such a branch could not be predicted.
class TermCounts {
 public:
  // kNone32 stands for no term: its count stays 0. false: no table of a sensible size was found.
  bool begin(LexicalColumn const& column, std::span<TermId const> terms);
  // By place among the terms, until the next call.
  std::span<std::uint32_t const> count(Row row);

 private:
  struct Slot {
    std::uint32_t code;  // term + 1, as in the tokens; 0: free
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
