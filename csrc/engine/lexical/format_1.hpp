// Indexes saved in format 1, whose forward view is by term.
#pragma once

#include "engine/lexical/column.hpp"

namespace hyrecall {

// Puts a forward view of format 1 (per document and distinct term, rising: LEB128 of the distance
// to the term before, of the term frequency, and of each position as a distance) into today's form.
// Its offsets are checked (check_cuts); throws Error(kCorrupt) where its bytes are not such a view.
void convert_forward_1(LexicalColumn::Parts& parts);

}  // namespace hyrecall
