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

}  // namespace
}  // namespace hyrecall::testing
