// How many rows may pass their heads before a scan reads the int8 plane alone, and for how long.
#include "engine/dense/head_balance.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

constexpr double kWindow = 4'096.0;
constexpr double kSaved = 0.65;

// Rows that may pass in so many windows, by asking.
std::size_t most_of(HeadBalance const& balance) {
  std::size_t n = 0;
  while (!balance.is_spent_by(n)) ++n;
  return n - 1;
}

TEST(head_balance_gives_each_window_less_than_it_saves) {
  HeadBalance balance(0.0);
  CHECK(balance.begin_window(kWindow, kSaved));
  std::size_t const one = most_of(balance);
  CHECK(one > 0 && static_cast<double>(one) * kRowCost < kWindow * kSaved);
  balance.end_window();
  CHECK(balance.begin_window(kWindow, kSaved));
  CHECK(most_of(balance) >= 2 * one && most_of(balance) <= 2 * one + 1);
}

TEST(head_balance_credit_is_a_small_share_of_what_a_scan_saves) {
  HeadBalance balance(1e6);
  CHECK(balance.begin_window(kWindow, kSaved));
  HeadBalance without(0.0);
  CHECK(without.begin_window(kWindow, kSaved));
  std::size_t const credit = most_of(balance) - most_of(without);
  CHECK(credit > 500 && static_cast<double>(credit) * kRowCost < 0.05 * 1e6 * kSaved);
}

// Windows that pass before heads are tried again.
int pause_of(HeadBalance& balance) {
  int n = 0;
  while (!balance.begin_window(kWindow, kSaved)) {
    ++n;
    balance.end_window();
  }
  return n;
}

TEST(head_balance_pauses_twice_as_long_after_each_failure) {
  HeadBalance balance(0.0);
  CHECK(pause_of(balance) == 0);
  for (int const wanted : {1, 2, 4, 8, 16, 32, 32}) {
    balance.fail();
    CHECK(!balance.is_spent_by(1'000'000));  // it reads the int8 plane already
    balance.end_window();
    CHECK(pause_of(balance) == wanted);
  }
  balance.end_window();  // heads lasted for a window
  CHECK(pause_of(balance) == 0);
  balance.fail();
  balance.end_window();
  CHECK(pause_of(balance) == 1);
}

}  // namespace
}  // namespace hyrecall::testing
