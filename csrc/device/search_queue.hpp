// Calls that wait for a table while others are searched, and are then searched together.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "device/dense_device.hpp"

namespace hyrecall::device {

// Of one dense column of a snapshot. A call that comes while another is searched waits, and the
// next search takes all that wait and are alike, up to kMostTogether queries. Only half of that
// begins beside a search, so that the host prepares it while the device is busy: of less, those
// that come back one by one would never meet. Each call gets the bits that it would get alone.
class SearchQueue {
 public:
  // Not in a child of the process that made it, which has copied a state that nobody moves on.
  bool is_of_this_process() const { return process_ == getpid(); }

  // Searches `batch`, alone or with others. Throws as search().
  void run(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take);

 private:
  struct Call {
    DenseSearch const& batch;
    TakeFound const& take;
    bool is_led = false;   // another thread searches for it
    bool is_done = false;  // by that thread
    bool is_left = false;  // that thread's search failed: it searches for itself
  };

  bool may_begin() const;
  void take_alike(Call& first, std::vector<Call*>& out);
  static void search_together(DeviceTable const& table, std::span<Call* const> calls);

  pid_t const process_ = getpid();
  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<Call*> waiting_;
  std::size_t n_waiting_ = 0;  // queries
  int n_searches_ = 0;         // that run
};

}  // namespace hyrecall::device
