// Our own threads: no OpenMP, so that a forked child can start afresh and sanitizers see
// everything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

namespace hyrecall {

inline constexpr int kMostThreads = 4096;  // working memory is laid out for each

// Calls body(worker, item) for every item in [0, n_items), on the caller and up to max_threads - 1
// pool threads, kMostThreads at most. worker < max_threads names the thread's scratch. Items are
// handed out one by one; the exception of the lowest item that threw is rethrown after all have
// stopped. Replies never depend on which thread ran an item. The caller polls for an interrupt
// before each item (core/interrupt.hpp).
void parallel_for(std::size_t n_items, int max_threads,
                  std::function<void(int worker, std::size_t item)> const& body);

inline constexpr std::size_t kSerialValues = 1 << 14;  // fewer are not worth a second thread
inline constexpr std::size_t kShortRun = 32;           // of items that take a microsecond or so

// The same in runs of items, for bodies that take no longer than handing out an item.
template <typename F>
void parallel_runs(std::size_t n_items, std::size_t run, int max_threads, F const& body) {
  parallel_for((n_items + run - 1) / run, max_threads, [&](int worker, std::size_t at) {
    std::size_t const end = std::min(n_items, (at + 1) * run);
    for (std::size_t item = at * run; item < end; ++item) body(worker, item);
  });
}

}  // namespace hyrecall
