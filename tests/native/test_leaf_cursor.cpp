// A leaf's way through the tiles: what is passed over and read after all is what was there.
#include <algorithm>
#include <vector>

#include "engine/lexical/leaf_cursor.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

constexpr Row kRows = 5 * kDocTileRows;

OwnPostings random_list(Rng& rng) {
  OwnPostings out{
      PostingFormat(rng.below(2) == 0 ? PostingFormat::kCompact : PostingFormat::kWide)};
  std::size_t const one_in = 1 + rng.below(std::size_t{2'000});
  for (Row row = 0; row < kRows; ++row) {
    if (row / kDocTileRows == 2 && one_in % 3 == 0) continue;  // a tile without any
    if (rng.below(one_in) == 0) out.append(row, 1 + rng.below(12u), 20);
  }
  return out;
}

TEST(leaf_cursor_steps_back_to_the_tile_that_it_passed_over) {
  Rng rng(44);
  std::size_t n_escapes = 0;
  for (int round = 0; round < 60; ++round) {
    OwnPostings const own = random_list(rng);
    LeafPostings postings;
    postings.list = own.list();
    Row const first_row = rng.below(kRows);
    Row const last_row = first_row + 1 + rng.below(kRows - first_row);
    std::uint32_t const first = postings.list.locate(first_row);
    std::uint32_t const end =
        last_row == kRows ? postings.list.size : postings.list.locate(last_row);
    if (first == end) continue;
    LeafCursor cursor{&postings, 0};
    cursor.first = first;
    cursor.end = end;
    cursor.rewind(first_row);
    while (cursor.tile != kNone32) {
      LeafCursor const before = cursor;
      Row const base = before.tile * kDocTileRows;
      Row const end_row = std::min(last_row, base + kDocTileRows);
      CHECK_EQ(cursor.pass_over(end_row), before.tile_end() - before.at);
      CHECK_EQ(cursor.begin, cursor.at);
      CHECK_EQ(cursor.at, before.tile_end());
      LeafCursor const behind = cursor;
      CHECK(!cursor.step_back(before.tile + 1, base + kDocTileRows));
      if (before.tile > 0) CHECK(!cursor.step_back(before.tile - 1, base - kDocTileRows));
      CHECK(cursor.step_back(before.tile, std::max(first_row, base)));
      CHECK_EQ(cursor.tile, before.tile);
      CHECK_EQ(cursor.run, before.run);
      CHECK_EQ(cursor.at, before.at);
      CHECK_EQ(cursor.begin, before.at);
      CHECK_EQ(cursor.escape, before.escape);
      n_escapes += behind.escape - before.escape;
      cursor.pass_over(end_row);
      CHECK_EQ(cursor.tile, behind.tile);
      CHECK_EQ(cursor.at, behind.at);
      CHECK_EQ(cursor.escape, behind.escape);
    }
    CHECK_EQ(cursor.at, end);
  }
  CHECK(n_escapes > 100);
}

}  // namespace
}  // namespace hyrecall::testing
