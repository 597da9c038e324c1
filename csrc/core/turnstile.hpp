// For work that many threads do at once, with one step that must run in the order of items.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>

namespace hyrecall {

// Lets items 0, 1, 2, ... pass one by one, each when all before it have passed. Items must be
// started in order (parallel_for does so); otherwise an item may wait for one that has no thread.
class Turnstile {
 public:
  // Runs `step` in the item's turn; false, and nothing run, where an item before it failed.
  template <typename Step>
  bool pass(std::size_t item, Step&& step) {
    {
      std::unique_lock lock(mutex_);
      moved_.wait(lock, [&] { return next_ == item || failed_ < item; });
      if (failed_ < item) return false;
    }
    std::forward<Step>(step)();
    {
      std::lock_guard const lock(mutex_);
      ++next_;
    }
    moved_.notify_all();
    return true;
  }

  // The item will not pass: later items need not wait, and earlier items still do their work.
  void fail(std::size_t item) {
    {
      std::lock_guard const lock(mutex_);
      failed_ = item < failed_ ? item : failed_;
    }
    moved_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t next_ = 0;
  std::size_t failed_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace hyrecall
