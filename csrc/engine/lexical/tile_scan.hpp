// The scan of the lexical arm: adds postings, term after term, over tiles of rows.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/impact_tables.hpp"
#include "engine/lexical/leaf_cursor.hpp"
#include "engine/lexical/partial_rows.hpp"
#include "engine/lexical/skipped_leaves.hpp"
#include "engine/lexical/top_rows.hpp"

namespace hyrecall {

// Working memory of one thread; aligned so that threads share no cache line.
struct alignas(128) LexicalScratch {
  std::vector<float> scores;           // [kDocTileRows], all 0 between calls
  std::vector<std::uint32_t> by_leaf;  // places in `leaves`, if scores do not show matches
  ImpactTables tables;
  std::vector<LeafCursor> leaves;
  std::vector<std::uint32_t> places;  // rows that a sift found
  std::vector<float> values;
  std::vector<float> greatest;  // impacts of the leaves
  SkippedLeaves skipped;
  PartialRows partial;
  TopRows best;
};

// A share of a scan: some whole tiles of each segment. Shares of one scan raise each other's
// threshold.
struct LexicalShare {
  std::uint32_t number = 0;
  std::uint32_t n = 1;
  std::atomic<float>* reached = nullptr;  // null: the only share
};

// The rows of a segment that one query selects.
struct LexicalRows {
  SegmentView const& view;
  std::uint32_t segment;
  ScopeRows const& scope;
  std::span<SelectedTile const> tiles;
  bool is_whole;  // every row of the scope is selected, so the tiles need not be read
  LexicalShare share{};
};

// Offers every selected row that matches and passes the floor to scratch.best, which may hold
// other segments'.
void scan_tiles(LexicalRows const& rows, LexicalRequest const& arm, Bm25Query const& query,
                std::span<LeafPostings const> postings, LexicalScratch& scratch);

}  // namespace hyrecall
