// Lets the host end a long native run: Python must see Ctrl-C while its lock is released.
#pragma once

#include <atomic>

namespace hyrecall {

// Asks the host, and throws what it wants the run to end with.
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
};

// While it lives, polls of this thread throw once `stopped` is true: for threads that help another.
class StopGuard {
 public:
  explicit StopGuard(std::atomic<bool> const& stopped);
  ~StopGuard();
  StopGuard(StopGuard const&) = delete;
  StopGuard& operator=(StopGuard const&) = delete;
};

// For every loop that may take longer than a few milliseconds: reads the clock, no more.
void poll_interrupt();

}  // namespace hyrecall
