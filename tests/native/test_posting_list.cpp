// Postings that are read by rows and by ranges, against a look at each row.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/lexical/posting_list.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

TEST(postings_of_rows_and_ranges_are_those_of_each_row) {
  Rng rng(37);
  for (int round = 0; round < 40; ++round) {
    OwnPostings own(rng.below(2) == 0 ? PostingFormat{PostingFormat::kCompact}
                                      : PostingFormat{PostingFormat::kWide});
    Row const n_rows = 3 * kDocTileRows;
    std::size_t const one_in = 1 + rng.below(round % 2 == 0 ? std::size_t{3} : std::size_t{900});
    for (Row row = 0; row < n_rows; ++row) {
      if (row / kDocTileRows == 1 && round % 3 == 0) continue;  // a tile without any
      auto const freq = static_cast<std::uint32_t>(1 + rng.below(std::size_t{400}));
      if (rng.below(one_in) == 0) own.append(row, freq, 500);
    }
    PostingList const list = own.list();
    std::vector<Row> rows;
    std::size_t const every = 1 + rng.below(std::size_t{60});
    for (Row row = 0; row < n_rows; ++row)
      if (rng.below(every) == 0) rows.push_back(row);
    std::vector<std::uint32_t> found(rows.size());
    list.for_rows(rows, [&](std::size_t i, std::uint32_t freq) { found[i] = freq; });
    for (std::size_t i = 0; i < rows.size(); ++i) CHECK_EQ(found[i], list.freq_of(rows[i]));
    auto const first = static_cast<Row>(rng.below(std::size_t{n_rows}));
    Row const last = std::min<Row>(n_rows - 1, first + static_cast<Row>(rng.below(every * 9)));
    std::vector<std::uint32_t> of_range(n_rows);
    list.for_range(first, last, [&](Row row, std::uint32_t freq) { of_range[row] = freq; });
    for (Row row = 0; row < n_rows; ++row) {
      bool const is_inside = first <= row && row <= last;
      CHECK_EQ(of_range[row], is_inside ? list.freq_of(row) : 0u);
    }
  }
}

// Rows that lie even, in two heaps, or all at one end of their tile, so that guesses are far off.
TEST(postings_are_located_alike_from_wherever_a_search_begins) {
  Rng rng(38);
  for (int round = 0; round < 60; ++round) {
    OwnPostings own(PostingFormat{round % 2 == 0 ? PostingFormat::kCompact : PostingFormat::kWide});
    std::size_t const one_in = 1 + rng.below(round % 5 == 0 ? std::size_t{2000} : std::size_t{9});
    std::vector<Row> rows;
    for (Row row = 0; row < kDocTileRows; ++row) {
      bool const is_heap = row < 200 || row > kDocTileRows - 300;
      if ((round % 3 == 1 && !is_heap) || (round % 3 == 2 && row < 7'000)) continue;
      if (rng.below(one_in) != 0) continue;
      own.append(row, 1, 50);
      rows.push_back(row);
    }
    PostingList const list = own.list();
    if (rows.empty()) continue;
    for (int look = 0; look < 300; ++look) {
      std::uint32_t const begin = rng.below(list.size + 1);
      std::uint32_t const end = begin + rng.below(list.size + 1 - begin);
      std::uint32_t const near = rng.below(2 * list.size + 1);
      Row const row = rng.below(kDocTileRows);
      auto const at = std::lower_bound(rows.begin() + begin, rows.begin() + end, row);
      CHECK_EQ(list.locate_from(near, begin, end, row),
               static_cast<std::uint32_t>(at - rows.begin()));
    }
    for (Row row = 0; row < kDocTileRows; row += 1 + rng.below(60u)) {
      auto const at = std::lower_bound(rows.begin(), rows.end(), row);
      CHECK_EQ(list.locate_in_run(0, row), static_cast<std::uint32_t>(at - rows.begin()));
      CHECK_EQ(list.locate(row), static_cast<std::uint32_t>(at - rows.begin()));
    }
  }
}

// Of lists in files whose pages come one by one, the system is told by windows; what is found does
// not depend on it.
TEST(postings_of_a_file_are_announced_by_windows_and_read_alike) {
  for (std::uint32_t const width : {PostingFormat::kCompact, PostingFormat::kWide}) {
    OwnPostings own{PostingFormat(width)};
    Row const n_rows = 12 * kDocTileRows;
    for (Row row = 0; row < n_rows; ++row)
      if (row % 3 != 0) own.append(row, 1 + row % 5, 50);
    PostingList const plain = own.list();
    CHECK_EQ(plain.read_ahead(7, plain.size), plain.size);
    PostingList list = plain;
    list.is_apart = true;
    auto const window = static_cast<std::uint32_t>(PostingList::kAheadBytes / width);
    CHECK(list.size > window);
    CHECK_EQ(list.read_ahead(7, list.size), 7 + window);
    CHECK_EQ(list.read_ahead(7, 9), 9u);
    CHECK_EQ(list.read_ahead(list.size, list.size), list.size);
    std::uint64_t found = 0, expected = 0;
    list.for_each(5, list.size - 5, [&](Row row, std::uint32_t freq) { found += row * freq; });
    plain.for_each(5, list.size - 5, [&](Row row, std::uint32_t freq) { expected += row * freq; });
    CHECK_EQ(found, expected);
  }
}

}  // namespace
}  // namespace hyrecall::testing
