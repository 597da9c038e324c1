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
    CHECK(sizes.back() + kRestElements <= std::min(dim * 2 / 3, kMostDirections));
    for (std::size_t const size : sizes) CHECK((size + kRestElements) % 8 == 0);
    CHECK(std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) == sizes.end());
  }
}

TEST(head_sizes_are_shares_of_the_dimensions_up_to_the_most) {
  CHECK(head_sizes(384) == (std::vector<std::size_t>{124, 188, 220, 252}));
  CHECK(head_sizes(128) == (std::vector<std::size_t>{36, 60, 68, 76}));
  CHECK(head_sizes(768) == (std::vector<std::size_t>{252, 380, 444, 508}));
  CHECK(head_sizes(3'072) == (std::vector<std::size_t>{508}));
}

}  // namespace
}  // namespace hyrecall::testing
