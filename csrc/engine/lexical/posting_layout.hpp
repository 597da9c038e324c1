// The last step of a build: postings in the order of terms, from documents in the order of rows.
#pragma once

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Fills the postings, runs and escapes of parts that have all else: doc_lengths, terms and the
// forward view.
void lay_out_postings(LexicalColumn::Parts& parts, int threads);

}  // namespace hyrecall
