// Entries of the queries of a batch, back to back.
#include <numeric>
#include <vector>

#include "core/by_query.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

bool is_taken(std::size_t n_queries, std::vector<std::int64_t> const& offsets, int n_entries) {
  std::vector<int> const entries(static_cast<std::size_t>(n_entries));
  try {
    ByQuery<int> const taken(n_queries, offsets, entries);
  } catch (Error const&) {
    return false;
  }
  return true;
}

TEST(by_query_hands_each_query_its_entries) {
  std::vector<int> entries(6);
  std::iota(entries.begin(), entries.end(), 0);
  std::vector<char> const others{'a', 'b', 'c', 'd', 'e', 'f'};
  std::vector<std::int64_t> offsets{0, 2, 2, 6};
  ByQuery<int> const taken(3, offsets, entries);
  offsets[1] = 1000;  // its offsets are its own
  std::vector<std::size_t> const sizes{2, 0, 4};
  std::size_t at = 0;
  for (std::size_t q = 0; q < taken.n_queries(); ++q) {
    CHECK_EQ(taken[q].size(), sizes[q]);
    CHECK_EQ(taken.begin(q), at);
    auto const beside = taken.of(q, std::span<char const>(others));
    CHECK_EQ(beside.size(), sizes[q]);
    for (std::size_t i = 0; i < sizes[q]; ++i, ++at) {
      CHECK_EQ(taken[q][i], static_cast<int>(at));
      CHECK_EQ(beside[i], others[at]);
    }
  }
  CHECK_EQ(at, entries.size());
}

TEST(by_query_refuses_offsets_that_do_not_divide_the_entries) {
  CHECK(is_taken(2, {0, 1, 3}, 3));
  CHECK(is_taken(0, {0}, 0));
  CHECK(!is_taken(2, {0, 3}, 3));      // of one query
  CHECK(!is_taken(2, {0, 1, 2}, 3));   // an entry is nobody's
  CHECK(!is_taken(2, {1, 1, 3}, 3));   // the first is nobody's
  CHECK(!is_taken(2, {0, 4, 3}, 3));   // they fall
  CHECK(!is_taken(2, {0, -1, 3}, 3));  // they fall below 0
  CHECK(!is_taken(3, {0, 1LL << 40, 2, 3}, 3));
  CHECK(!is_taken(0, {}, 0));
}

}  // namespace
}  // namespace hyrecall::testing
