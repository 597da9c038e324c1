// Decides whether heads pay for a cohort: how many rows may pass (each has to be scored), and for
// how many windows the cohort reads only the int8 plane after more rows passed.
#pragma once

#include <algorithm>
#include <cstddef>

namespace hyrecall {

// Cost of scoring a row whose head passed, measured for rows in random order, as a multiple of the
// time of streaming one row of the int8 plane.
inline constexpr double kRowCost = 10.0;

class HeadBalance {
 public:
  // n_rows: number of rows that the cohort will read (times queries).
  explicit HeadBalance(double n_rows = 0.0) : n_rows_(n_rows) {}

  // Begins a window of n_rows rows (times queries) and returns whether it reads heads. saved_share:
  // the share of the plane's time that reading heads alone saves.
  bool begin_window(double n_rows, double saved_share) {
    double const worth = saved_share * kSpendable / kRowCost;
    if (most_ == 0.0) most_ = n_rows_ * kCredit * worth;
    is_trying_ = pause_ == 0;
    if (is_trying_) most_ += n_rows * worth;
    if (pause_ > 0) --pause_;
    return is_trying_;
  }
  // Whether n_rows rows, scored or waiting, cost more than heads have saved so far.
  bool is_spent_by(std::size_t n_rows) const {
    return is_trying_ && static_cast<double>(n_rows) > most_;
  }
  // Ends the use of heads in this window and in some that follow: twice as many each time.
  void fail() {
    is_trying_ = false;
    next_pause_ = std::clamp<std::size_t>(2 * next_pause_, 1, kMostPause);
    pause_ = next_pause_;
  }
  void end_window() {
    if (is_trying_) next_pause_ = 0;
  }

 private:
  // The share of the saved time that scoring may spend. The rest is the gain of heads, and a
  // reserve for rows that cost more than measured.
  static constexpr double kSpendable = 0.6;
  static constexpr double kCredit = 1.0 / 32;  // at first many rows wait that are dropped later
  static constexpr std::size_t kMostPause = 32;

  double n_rows_;
  double most_ = 0.0;
  bool is_trying_ = false;
  std::size_t pause_ = 0;  // windows still to be read without heads
  std::size_t next_pause_ = 0;
};

}  // namespace hyrecall
