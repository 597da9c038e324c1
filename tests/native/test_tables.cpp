// Cells, keys and the persistent counts, each against a map.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/error.hpp"
#include "engine/segment/cells.hpp"
#include "engine/segment/keys.hpp"
#include "engine/segment/paged_map.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

TEST(cell_directory_finds_every_cell_and_no_other) {
  Rng rng(3);
  for (int round = 0; round < 50; ++round) {
    std::size_t const n = rng.below(std::size_t{300});
    std::vector<std::optional<std::string>> tenants;
    std::vector<std::int64_t> spaces;
    for (std::size_t i = 0; i < n; ++i) {
      tenants.push_back(rng.below(5) == 0
                            ? std::nullopt
                            : std::optional(std::string(rng.below(std::size_t{4}), 'a')));
      spaces.push_back(rng.below(std::int64_t{3}) - 1);
    }
    std::vector<CellPart> const parts{column_of(tenants), ints_of(spaces)};
    std::vector<Seq> seqs(n);
    std::iota(seqs.begin(), seqs.end(), Seq{0});
    std::vector<std::uint32_t> const order = sort_rows(parts, n, {}, seqs);

    std::vector<std::optional<std::string>> sorted_tenants;
    std::vector<std::int64_t> sorted_spaces;
    std::map<std::string, std::set<std::uint32_t>> expected;
    for (std::uint32_t row : order) {
      sorted_tenants.push_back(tenants[row]);
      sorted_spaces.push_back(spaces[row]);
      expected[encode_cell(parts, row)].insert(row);
    }
    std::vector<CellPart> const sorted{column_of(sorted_tenants), ints_of(sorted_spaces)};
    CellDirectory const directory(sorted, n);
    CHECK_EQ(directory.size(), expected.size());
    for (auto const& [key, rows] : expected) {
      std::uint32_t const cell = directory.find(key);
      CHECK(cell != kNone32);
      RowRange const range = directory.rows(cell);
      std::vector<std::uint32_t> found(order.begin() + range.begin, order.begin() + range.end);
      CHECK(std::is_sorted(found.begin(), found.end()));  // within a cell by seq
      CHECK(std::set<std::uint32_t>(found.begin(), found.end()) == rows);
      for (Row row = range.begin; row < range.end; ++row) CHECK_EQ(directory.cell_of(row), cell);
    }
    CHECK_EQ(directory.find("no such cell"), kNone32);
    CHECK_EQ(directory.find(""), kNone32);
  }
}

TEST(cell_encodings_of_different_tuples_differ) {
  std::vector<std::optional<std::string>> const texts{std::nullopt,          "", "a", "ab", "a",
                                                      std::string("a\0", 2), "1"};
  std::vector<std::optional<std::string>> const others{"x", "x", "bx", "x", "x", "x", std::nullopt};
  std::vector<CellPart> const parts{column_of(texts), column_of(others)};
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < texts.size(); ++i) distinct.insert(encode_cell(parts, i));
  CHECK_EQ(distinct.size(), texts.size());
}

TEST(cells_out_of_order_are_a_damaged_file) {
  std::vector<CellPart> const parts{column_of(std::vector<std::string>{"b", "a"})};
  bool refused = false;
  try {
    CellDirectory const directory(parts, 2);
  } catch (Error const& error) {
    refused = error.code() == ErrorCode::kCorrupt;
  }
  CHECK(refused);
}

TEST(cell_directory_finds_many_cells_on_any_number_of_threads) {
  auto const name = [](std::size_t cell) { return "cell" + std::to_string(10'000 + cell); };
  std::vector<std::string> cells;
  for (std::size_t cell = 0; cell < 6'000; cell += 2) cells.push_back(name(cell));
  std::vector<CellPart> const parts{column_of(cells)};
  CellDirectory const directory(parts, cells.size());
  Rng rng(7);
  for (std::size_t const n : {0, 1, 50, 1'024, 1'025, 5'000}) {
    std::vector<std::string> keys;
    std::set<std::uint32_t> expected;
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const cell = rng.below(std::size_t{6'000});
      std::vector<CellPart> const one{column_of(std::vector<std::string>{name(cell)})};
      keys.push_back(encode_cell(one, 0));
      if (cell % 2 == 0) expected.insert(static_cast<std::uint32_t>(cell / 2));
    }
    for (int threads : {1, 4}) {
      std::vector<std::uint32_t> const found = directory.find_all(keys, threads);
      CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
    }
  }
}

TEST(key_table_finds_a_key_in_its_own_cell_only) {
  std::vector<std::string> const cells{"a", "a", "a", "b", "b", "c"};
  std::vector<std::string> const keys{"1", "2", "3", "1", "4", ""};
  CellDirectory const directory(std::vector<CellPart>{column_of(cells)}, cells.size());
  KeyTable const table(column_of(keys), directory);
  CHECK(!table.duplicate(directory).has_value());
  std::map<std::pair<std::string, std::string>, Row> expected;
  for (Row row = 0; row < keys.size(); ++row) expected[{cells[row], keys[row]}] = row;
  std::uint32_t number = 0;
  for (std::string const cell : {"a", "b", "c"}) {
    for (std::string const key : {"1", "2", "3", "4", "", "5"}) {
      auto const found = expected.find({cell, key});
      CHECK_EQ(table.find(directory, number, std::string_view(key)),
               found == expected.end() ? kNone32 : found->second);
    }
    ++number;
  }
  CHECK_EQ(table.find(directory, 0, std::int64_t{1}), kNone32);  // another type is another key
}

TEST(key_table_reports_a_duplicate_within_a_cell) {
  CellDirectory const directory(
      std::vector<CellPart>{column_of(std::vector<std::string>{"a", "a", "b"})}, 3);
  CHECK(KeyTable(ints_of({7, 7, 8}), directory).duplicate(directory) ==
        std::optional(std::pair<Row, Row>(0, 1)));
  CHECK(!KeyTable(ints_of({7, 8, 7}), directory).duplicate(directory).has_value());
}

using Counts = std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t>;

void check_same(PagedCounts const& counts, Counts const& expected) {
  for (auto const& [key, count] : expected) CHECK_EQ(counts.get(key.first, key.second), count);
  std::map<std::uint32_t, std::vector<std::uint32_t>> groups;
  for (auto const& [key, count] : expected) groups[key.first].push_back(key.second);
  for (auto const& [group, members] : groups) {
    std::int64_t total = 0, odd = 0;
    std::vector<std::uint32_t> odd_members;
    for (std::uint32_t member : members) {
      std::int64_t const count = expected.at({group, member});
      total += count;
      if (member % 2 == 0) continue;
      odd += count;
      odd_members.push_back(member);
    }
    odd_members.push_back(4'000'000'000u);  // asked for, never there
    CHECK_EQ(counts.sum(group, members), total);
    CHECK_EQ(counts.sum(group, odd_members), odd);
  }
}

TEST(paged_counts_equal_a_map_and_forks_leave_their_origin_alone) {
  Rng rng(4);
  std::vector<PagedCounts> versions{PagedCounts()};
  std::vector<Counts> expected{Counts()};
  for (int round = 0; round < 60; ++round) {
    std::size_t const from = rng.below(versions.size());  // any version may be forked again
    PagedCounts next = versions[from].fork();
    Counts map = expected[from];
    for (int i = 0; i < 40; ++i) {
      std::uint32_t const group = rng.below(2) == 0 ? rng.below(20u) : rng.below(1'000'000u);
      std::uint32_t const member = rng.below(3) == 0 ? rng.below(100'000u) : rng.below(200u);
      auto const count = static_cast<std::int64_t>(1 + rng.below(9));
      next.add(group, member, count);
      map[{group, member}] += count;
    }
    versions.push_back(std::move(next));
    expected.push_back(std::move(map));
  }
  for (std::size_t v = 0; v < versions.size(); ++v) check_same(versions[v], expected[v]);
  CHECK_EQ(versions[0].get(3, 0), 0);
  std::vector<std::uint32_t> const any{0, 1, 2};
  CHECK_EQ(versions[0].sum(3, any), 0);
}

}  // namespace
}  // namespace hyrecall::testing
