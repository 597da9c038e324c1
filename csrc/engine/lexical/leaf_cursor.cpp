#include "engine/lexical/leaf_cursor.hpp"

#include <algorithm>

namespace hyrecall {

void LeafCursor::rewind(Row first_row) {
  PostingList const& list = postings->list;
  at = begin = first;
  auto const after = std::partition_point(list.runs.begin(), list.runs.end(),
                                          [&](auto& r) { return r.begin <= at; });
  run = static_cast<std::size_t>(after - list.runs.begin()) - 1;
  // Lost pages of postings may have led to a later tile than first_row's, which has escapes too.
  enter_tile(std::max(first_row, list.runs[run].tile * kDocTileRows));
}

void LeafCursor::enter_tile(Row begin_row) {
  PostingList const& list = postings->list;
  tile = list.runs[run].tile;
  escape =
      static_cast<std::size_t>(std::partition_point(list.escapes.begin(), list.escapes.end(),
                                                    [&](auto& e) { return e.row < begin_row; }) -
                               list.escapes.begin());
}

void LeafCursor::leave_tile(std::uint32_t end_of_tile) {
  at = end_of_tile;
  ++run;
  tile = at < end ? postings->list.runs[run].tile : kNone32;
}

std::uint32_t LeafCursor::pass_over(Row end_row) {
  PostingList const& list = postings->list;
  while (escape < list.escapes.size() && list.escapes[escape].row < end_row) ++escape;
  std::uint32_t const n = tile_end() - at;
  leave_tile(at + n);
  begin = at;
  return n;
}

bool LeafCursor::step_back(std::uint32_t to_tile, Row begin_row) {
  PostingList const& list = postings->list;
  if (run == 0 || list.runs[run - 1].tile != to_tile) return false;
  --run;
  at = begin = std::max(first, list.runs[run].begin);
  enter_tile(begin_row);
  return true;
}

void LeafCursor::prefetch(std::uint32_t from) const {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kLines = 4;
  PostingList const& list = postings->list;
  std::size_t const width = list.format.width();
  std::uint8_t const* const bytes = list.data + from * width;
  std::size_t const n_bytes = std::min((end - from) * width, kLines * kLine);
  for (std::size_t i = 0; i < n_bytes; i += kLine) __builtin_prefetch(bytes + i);
}

}  // namespace hyrecall
