// Lets the host end a long native run: Python must see Ctrl-C while its lock is released.
#pragma once

#include <atomic>
#include <cstdint>

namespace hyrecall {

// Asks the host, and throws if the host wants to end the run.
using InterruptCheck = void (*)();

// While it lives, polls of this thread call `check`, some twenty times a second; null: never.
class InterruptGuard {
 public:
  explicit InterruptGuard(InterruptCheck check);
  ~InterruptGuard();
  InterruptGuard(InterruptGuard const&) = delete;
  InterruptGuard& operator=(InterruptGuard const&) = delete;

 private:
  InterruptCheck const outer_;
  bool const outer_interrupted_;
};

// While it lives, polls of this thread throw once `stopped` is true: for threads that help another.
class StopGuard {
 public:
  explicit StopGuard(std::atomic<bool> const& stopped);
  ~StopGuard();
  StopGuard(StopGuard const&) = delete;
  StopGuard& operator=(StopGuard const&) = delete;
};

// Call it in every loop that may take longer than a few milliseconds. It costs a read of the clock.
void poll_interrupt();

// Whether a poll of this thread has thrown since its guard was made.
bool was_interrupted();

// The same for loops whose steps take nanoseconds: polls once in many.
class SteadyPoll {
 public:
  void step() {
    if (++n_steps_ % kSteps == 0) poll_interrupt();
  }

 private:
  static constexpr std::uint32_t kSteps = 1 << 16;
  std::uint32_t n_steps_ = 0;
};

}  // namespace hyrecall
