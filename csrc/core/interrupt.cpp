#include "core/interrupt.hpp"

#include <chrono>
#include <utility>

#include "core/error.hpp"

namespace hyrecall {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{50};

thread_local InterruptCheck t_check = nullptr;
thread_local Clock::time_point t_next;
thread_local std::atomic<bool> const* t_stopped = nullptr;
thread_local bool t_interrupted = false;

}  // namespace

InterruptGuard::InterruptGuard(InterruptCheck check)
    : outer_(std::exchange(t_check, check)),
      outer_interrupted_(std::exchange(t_interrupted, false)) {
  if (check != nullptr) t_next = Clock::now() + kPause;
}

InterruptGuard::~InterruptGuard() {
  t_check = outer_;
  t_interrupted = outer_interrupted_;
}

StopGuard::StopGuard(std::atomic<bool> const& stopped) {
  t_stopped = &stopped;
  t_interrupted = false;
}

StopGuard::~StopGuard() {
  t_stopped = nullptr;
}

void poll_interrupt() {
  // No caller sees this error: the thread that was helped throws the one that stopped it.
  if (t_stopped != nullptr && t_stopped->load(std::memory_order_relaxed)) {
    t_interrupted = true;
    throw Error(ErrorCode::kInternal, "hyrecall", "stopped beside another thread");
  }
  if (t_check == nullptr || Clock::now() < t_next) return;
  try {
    t_check();
  } catch (...) {
    t_interrupted = true;
    throw;
  }
  t_next = Clock::now() + kPause;
}

bool was_interrupted() {
  return t_interrupted;
}

}  // namespace hyrecall
