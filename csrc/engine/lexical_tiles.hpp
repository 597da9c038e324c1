// The scan of the lexical arm: exhaustively, term after term over tiles of rows.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/lexical_arm.hpp"
#include "engine/top_rows.hpp"

namespace hyrecall {

// Working memory of one thread.
struct LexicalScratch {
  std::vector<float> scores;           // [kDocTileRows], all 0 between calls
  std::vector<std::uint64_t> present;  // bits of the leaves a row holds, where scores do not tell;
                                       // all 0 between calls
  std::vector<float> tables;           // impacts by posting code, leaf after leaf
  std::vector<std::uint32_t> places;   // what a sift found
  std::vector<float> values;
  std::optional<Bm25Query::NormParams> norms_of;  // what these are the norms of
  std::uint32_t norms_from = 0;
  std::vector<float> norms;  // of lengths from norms_from on
  TopRows best;
};

// The rows of a segment that one query may meet.
struct LexicalRows {
  SegmentView const& view;
  std::uint32_t segment;
  ScopeRows const& scope;
  std::span<SelectedTile const> tiles;
  bool is_whole;  // every row of the scope is selected: the tiles need not be read
};

// Offers every selected row that matches and passes the floor to scratch.best, which may hold
// other segments'.
void scan_lexical(LexicalRows const& rows, LexicalRequest const& arm, Bm25Query const& query,
                  std::span<LeafPostings const> postings, LexicalScratch& scratch);

}  // namespace hyrecall
