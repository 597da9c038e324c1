// Whether heads pay for a cohort: what the looks of a window may cost, and for how long the cohort
// reads the int8 plane alone after looks have cost more.
#pragma once

#include <algorithm>
#include <cstddef>

namespace hyrecall {

// Few rows that pass in a block are scored as they are; for more the block is read. Measured, as
// multiples of the time that a block takes in a stream: memory answers out of order.
inline constexpr int kFewRows = 2;
inline constexpr double kRowCost = 1.4;
inline constexpr double kBlockCost = 2.7;

class HeadBalance {
 public:
  // Begins a window of so many blocks, of which reading heads alone saves this share. Whether it
  // reads heads.
  bool begin_window(double n_blocks, double saved_share) {
    budget_ = n_blocks * saved_share;
    is_trying_ = pause_ == 0;
    if (pause_ > 0) --pause_;
    return is_trying_;
  }
  void spend(double n_blocks) { budget_ -= n_blocks; }
  bool is_spent() const { return is_trying_ && budget_ < 0.0; }
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
  static constexpr std::size_t kMostPause = 32;

  double budget_ = 0.0;  // in blocks of the int8 plane
  bool is_trying_ = false;
  std::size_t pause_ = 0;  // windows that are left
  std::size_t next_pause_ = 0;
};

}  // namespace hyrecall
