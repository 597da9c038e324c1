// Our own threads: no OpenMP, so that a forked child can start afresh and sanitizers see
// everything.
#pragma once

#include <cstddef>
#include <functional>

namespace hyrecall {

// Calls body(worker, item) for every item in [0, n_items), on the caller and up to max_threads - 1
// pool threads. worker < max_threads names the thread's scratch. Items are handed out one by one;
// the exception of the lowest item that threw is rethrown after all have stopped. Replies never
// depend on who ran what.
void parallel_for(std::size_t n_items, int max_threads,
                  std::function<void(int worker, std::size_t item)> const& body);

}  // namespace hyrecall
