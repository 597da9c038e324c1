// The last step of a build: postings in the order of terms, from documents in the order of rows.
#pragma once

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Fills in postings, runs and escapes of parts that already have doc_lengths, terms and the forward
// view. Besides the result it holds at most `vocabulary_bytes`, or 28 bytes a term for each half of
// the rows if that is more.
void lay_out_postings(LexicalColumn::Parts& parts, int threads,
                      std::size_t vocabulary_bytes = std::size_t{64} << 20);

}  // namespace hyrecall
