// A leaf on its way through the document tiles of a segment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/lexical/leaf_postings.hpp"

namespace hyrecall {

// Legal calls: rewind() first, and again to start over. The postings of the next tile are
// [at, tile_end()); enter leave_tile() when they are read, or pass_over() if they are not, and
// step_back() to read them after all.
// End: tile is kNone32 behind the last posting.
struct LeafCursor {
  LeafPostings const* postings;
  std::size_t leaf;
  std::uint32_t first = 0;  // its postings in the share are [first, end)
  std::uint32_t end = 0;
  float const* table = nullptr;  // of impacts by code, if there is one
  std::uint32_t tile = kNone32;  // of the next posting; kNone32: there is none
  std::size_t run = 0;           // likewise
  std::uint32_t at = 0;          // the next posting
  std::size_t escape = 0;        // the next escape
  std::uint32_t begin = 0;       // of the tile at hand: its postings are [begin, at)
  std::uint32_t ahead = 0;       // the system was told of postings before this one

  // Goes to the first posting. No row before `first_row` is in the share.
  void rewind(Row first_row);
  std::uint32_t tile_end() const { return std::min(end, postings->list.run_end(run)); }
  // Gives tile_end(), before the postings are read: the system is told of those in files.
  std::uint32_t announce_tile() {
    std::uint32_t const stop = tile_end();
    if (stop > ahead) ahead = postings->list.read_ahead(at, end);
    return stop;
  }
  // Goes behind the tile whose postings end there.
  void leave_tile(std::uint32_t end_of_tile);
  // The same without a look at the postings. Rows of the tile lie before `end_row`.
  // Gives how many they were.
  std::uint32_t pass_over(Row end_row);
  // Goes back to a tile that was just left, whose rows in the share begin there. false: the leaf
  // has no posting in it.
  bool step_back(std::uint32_t to_tile, Row begin_row);
  // Asks memory for postings: the first ones of a tile would be waited for, what follows the
  // processor sees coming.
  void prefetch(std::uint32_t from) const;

 private:
  void enter_tile(Row begin_row);
};

}  // namespace hyrecall
