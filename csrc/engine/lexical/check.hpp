// Checks the parts of a lexical column that were read from a file, before any scan follows them.
#pragma once

#include <cstdint>
#include <span>

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Both functions throw Error(kCorrupt, <the column's name>, ...) if a check fails.

// Checks that the offsets of the terms and of the forward view never fall and stay inside the data,
// and that no document is longer than its tokens have bytes.
// forward_offsets: as they were read, before they become parts.forward_offsets.
void check_cuts(LexicalColumn::Parts const& parts, std::span<std::uint64_t const> forward_offsets);

// Checks that every document's tokens are complete, have known terms, and positions that never
// fall; that every term's postings have ascending rows with a text and the lengths of these rows;
// and that postings and tokens agree. Reads each byte once. Call check_cuts() first.
void check_lexical(LexicalColumn::Parts const& parts, int threads);

}  // namespace hyrecall
