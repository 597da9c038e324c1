// Checks the parts of a lexical column that were read from a file, before any scan follows them.
#pragma once

#include <cstdint>
#include <span>

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Each function throws Error(kCorrupt, <the column's name>, ...) if its promise does not hold.

// The terms and the forward view are cut into pieces by offsets that never fall and stay inside;
// forward_offsets: as they were read, before they become parts.forward_offsets.
void check_cuts(LexicalColumn::Parts const& parts, std::span<std::uint64_t const> forward_offsets);

// Every document's tokens are whole, of known terms, at positions that never fall. Every term's
// postings are of rising rows that have a text, with the lengths of these; and postings and tokens
// tell the same of every document. Reads each byte once. check_cuts() comes first.
void check_lexical(LexicalColumn::Parts const& parts, int threads);

}  // namespace hyrecall
