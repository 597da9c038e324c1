// The scan of the lexical arm: exhaustively, term after term over tiles of rows.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/top_rows.hpp"

namespace hyrecall {

// A leaf on its way through a segment's tiles.
struct LeafCursor {
  LeafPostings const* postings;
  std::size_t leaf;
  float const* table = nullptr;  // of impacts by code, if there is one
  std::uint32_t tile = kNone32;  // of the next posting; kNone32: there is none
  std::size_t run = 0;           // likewise
  std::uint32_t at = 0;          // the next posting
  std::size_t escape = 0;        // the next escape
  std::uint32_t begin = 0;       // of the tile at hand: its postings are [begin, at)
  std::uint32_t first = 0;       // its postings in the share are [first, end)
  std::uint32_t end = 0;
};

// Working memory of one thread: two write no cache line both.
struct alignas(128) LexicalScratch {
  std::vector<float> scores;           // [kDocTileRows], all 0 between calls
  std::vector<std::uint64_t> present;  // bits of the leaves a row holds, where scores do not tell;
                                       // all 0 between calls
  std::vector<float> tables;           // impacts by posting code, leaf after leaf
  std::vector<LeafCursor> leaves;
  std::vector<std::uint32_t> places;  // what a sift found
  std::vector<float> values;
  std::optional<Bm25Query::NormParams> norms_of;  // what these are the norms of
  std::uint32_t norms_from = 0;
  std::vector<float> norms;  // of lengths from norms_from on
  TopRows best;
};

// A share of a scan: some whole tiles of each segment. Shares of one scan tell each other what
// score the best of theirs reach.
struct LexicalShare {
  std::uint32_t number = 0;
  std::uint32_t n = 1;
  std::atomic<float>* reached = nullptr;  // null: there are no others
};

// The rows of a segment that one query may meet.
struct LexicalRows {
  SegmentView const& view;
  std::uint32_t segment;
  ScopeRows const& scope;
  std::span<SelectedTile const> tiles;
  bool is_whole;  // every row of the scope is selected: the tiles need not be read
  LexicalShare share{};
};

// Offers every selected row that matches and passes the floor to scratch.best, which may hold
// other segments'.
void scan_tiles(LexicalRows const& rows, LexicalRequest const& arm, Bm25Query const& query,
                std::span<LeafPostings const> postings, LexicalScratch& scratch);

}  // namespace hyrecall
