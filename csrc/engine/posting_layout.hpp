// The inverted side of a lexical column, made from its forward side.
#pragma once

#include <cstdint>
#include <span>

#include "engine/lexical_column.hpp"

namespace hyrecall {

// Fills the postings, blocks and bounds of a column that has its lengths, terms and forward view.
// doc_freqs: [n_terms]. cell_begins: [n_cells + 1] first row of each cell; large cells get blocks
// of their own. The result does not depend on the threads.
void lay_out_postings(LexicalColumn::Parts& parts, std::span<std::uint64_t const> doc_freqs,
                      std::span<Row const> cell_begins, int threads);

}  // namespace hyrecall
