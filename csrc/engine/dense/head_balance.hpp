// Whether heads pay for a cohort: how many rows may pass that have to be scored, and for how long
// the cohort reads the int8 plane alone after more have passed.
#pragma once

#include <algorithm>
#include <cstddef>

namespace hyrecall {

// A row that passes its head is scored, if it still may be among the best then. Measured, as a
// multiple of the time that a row of the int8 plane takes in a stream: rows out of order.
inline constexpr double kRowCost = 10.0;

class HeadBalance {
 public:
  // n_rows: that the cohort is going to read (times queries).
  explicit HeadBalance(double n_rows = 0.0) : n_rows_(n_rows) {}

  // Begins a window of so many rows (times queries), of which reading heads alone saves this share.
  // Whether it reads heads.
  bool begin_window(double n_rows, double saved_share) {
    double const worth = saved_share * kSpendable / kRowCost;
    if (most_ == 0.0) most_ = n_rows_ * kCredit * worth;
    is_trying_ = pause_ == 0;
    if (is_trying_) most_ += n_rows * worth;
    if (pause_ > 0) --pause_;
    return is_trying_;
  }
  // Whether so many rows, scored or waiting, cost more than heads have saved so far.
  bool is_spent_by(std::size_t n_rows) const {
    return is_trying_ && static_cast<double>(n_rows) > most_;
  }
  // The window goes on without heads, and so do some after it: twice as many each time.
  void fail() {
    is_trying_ = false;
    next_pause_ = std::clamp<std::size_t>(2 * next_pause_, 1, kMostPause);
    pause_ = next_pause_;
  }
  void end_window() {
    if (is_trying_) next_pause_ = 0;
  }

 private:
  // Of what heads save. What is left is their gain, and pays for rows that cost more than measured.
  static constexpr double kSpendable = 0.6;
  static constexpr double kCredit = 1.0 / 32;  // at first many wait that are dropped later
  static constexpr std::size_t kMostPause = 32;

  double n_rows_;
  double most_ = 0.0;
  bool is_trying_ = false;
  std::size_t pause_ = 0;  // windows that are left
  std::size_t next_pause_ = 0;
};

}  // namespace hyrecall
