// Checks the parts of a lexical column that were read from a file, before any scan follows them.
#pragma once

#include <cstdint>

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Reads a LEB128 number of at most 32 bits. Returns false if it has more bits, or if the bytes end
// within it.
inline bool read_varint(std::uint8_t const*& at, std::uint8_t const* end, std::uint32_t& value) {
  std::uint64_t bits = 0;
  for (int shift = 0; at != end && shift < 35; shift += 7) {
    std::uint8_t const byte = *at++;
    bits |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      value = static_cast<std::uint32_t>(bits);
      return bits <= 0xffffffff;
    }
  }
  return false;
}

// Each function throws Error(kCorrupt, <the column's name>, ...) if its promise does not hold.

// The terms and the forward view are cut into pieces by offsets that never fall and stay inside;
// forward_offsets: as they were read, before they become parts.forward_offsets.
void check_cuts(LexicalColumn::Parts const& parts, std::span<std::uint64_t const> forward_offsets);

// Every document's tokens are whole, of known terms, at positions that never fall. Every term's
// postings are of rising rows that have a text, with the lengths of these; and postings and tokens
// tell the same of every document. Reads each byte once. check_cuts() comes first.
void check_lexical(LexicalColumn::Parts const& parts, int threads);

}  // namespace hyrecall
