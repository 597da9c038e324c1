// How many directions a trial of heads compares.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "engine/dense/head_choice.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

TEST(head_sizes_rise_and_are_never_more_than_a_column_takes) {
  for (std::size_t dim = 128; dim <= 4'096; ++dim) {
    std::vector<std::size_t> const sizes = head_sizes(dim);
    CHECK(!sizes.empty() && sizes.front() > 0);
    CHECK(sizes.back() <= std::min(dim / 2, kMostDirections));
    CHECK(std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) == sizes.end());
  }
}

TEST(head_sizes_are_shares_of_the_dimensions_up_to_the_most) {
  CHECK(head_sizes(384) == (std::vector<std::size_t>{92, 124, 156, 172}));
  CHECK(head_sizes(128) == (std::vector<std::size_t>{28, 38, 44}));
  CHECK(head_sizes(1'536) == (std::vector<std::size_t>{380, 508, kMostDirections}));
  CHECK(head_sizes(3'072) == (std::vector<std::size_t>{kMostDirections}));
}

}  // namespace
}  // namespace hyrecall::testing
