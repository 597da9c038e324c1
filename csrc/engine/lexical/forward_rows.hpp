// The forward view of consecutive documents: their tokens by document and position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/types.hpp"

namespace hyrecall {

// Tokens of consecutive documents, in the analyzer's order.
struct TokenRows {
  struct Token {
    TermId term;
    std::uint32_t position;
  };
  std::vector<Token> tokens;
  std::vector<std::size_t> ends;       // [n_rows] into tokens
  std::vector<std::uint32_t> lengths;  // [n_rows] doc_length, or kNoText

  void clear() {
    tokens.clear();
    ends.clear();
    lengths.clear();
  }
  void add_token(TermId term, std::uint32_t position) { tokens.push_back({term, position}); }
  void end_row(std::uint32_t length) {
    ends.push_back(tokens.size());
    lengths.push_back(length);
  }
};

// Encodes documents in the format of LexicalColumn::Parts::forward_bytes. Calls reuse its buffers.
class ForwardRows {
 public:
  // First sorts each document's tokens by position; the sort is stable.
  void encode(TokenRows& rows);

  std::span<std::uint8_t const> bytes() const { return {bytes_.data(), n_bytes_}; }
  std::span<std::uint64_t const> ends() const { return ends_; }  // [n_rows] into bytes

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t n_bytes_ = 0;
  std::vector<std::uint64_t> ends_;
};

}  // namespace hyrecall
