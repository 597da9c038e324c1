// A leaf's position in its postings while a scan goes through the document tiles of a segment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/lexical/leaf_postings.hpp"

namespace hyrecall {

// Legal calls: rewind() first, and again to start over. The postings of the next tile are
// [at, tile_end()). Call leave_tile() after reading them, or pass_over() to skip them, and
// step_back() to read them after all. After the last posting, tile is kNone32.
struct LeafCursor {
  LeafPostings const* postings;
  std::size_t leaf;
  std::uint32_t first = 0;  // the leaf's postings in the share are [first, end)
  std::uint32_t end = 0;
  float const* table = nullptr;  // impacts by code; may be null
  std::uint32_t tile = kNone32;  // of the next posting; kNone32 at the end
  std::size_t run = 0;           // likewise
  std::uint32_t at = 0;          // the next posting
  std::size_t escape = 0;        // the next escape
  std::uint32_t begin = 0;       // the present tile's postings are [begin, at)
  std::uint32_t ahead = 0;       // postings before this one were announced to the system

  // Goes to the first posting. No row before `first_row` is in the share.
  void rewind(Row first_row);
  std::uint32_t tile_end() const { return std::min(end, postings->list.run_end(run)); }
  // Returns tile_end(). Call it before the postings are read: it announces those in files to the
  // system.
  std::uint32_t announce_tile() {
    std::uint32_t const stop = tile_end();
    if (stop > ahead) ahead = postings->list.read_ahead(at, end);
    return stop;
  }
  // Moves past the tile whose postings end at end_of_tile.
  void leave_tile(std::uint32_t end_of_tile);
  // The same without reading the postings; returns their number. Rows of the tile are before
  // `end_row`.
  std::uint32_t pass_over(Row end_row);
  // Goes back to the tile that was just left; its rows in the share begin at begin_row. Returns
  // false if the leaf has no posting in it.
  bool step_back(std::uint32_t to_tile, Row begin_row);
  // Prefetches the first postings of a tile; the hardware prefetches the following ones.
  void prefetch(std::uint32_t from) const;

 private:
  void enter_tile(Row begin_row);
};

}  // namespace hyrecall
