// Streams, events and graphs of the stand-in.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "emulator/cuda_runtime.h"

namespace emulator {

using Work = std::function<void()>;
using Clock = std::chrono::steady_clock;

// What a stream records instead of doing it.
struct Capture {
  std::vector<Work> work;
  bool is_broken = false;  // by a call that is refused meanwhile; then it comes to nothing
};

struct Stream {
  std::vector<Work> queue;
  std::size_t n_done = 0;
  std::unique_ptr<Capture> capture{};

  void drain(std::size_t end) {
    while (n_done < end && n_done < queue.size()) {
      Work const work = std::move(queue[n_done]);
      n_done += 1;  // first: the work may wait for this very stream
      work();
    }
    if (n_done == queue.size()) {
      queue.clear();
      base += n_done;
      n_done = 0;
    }
  }
  std::size_t base = 0;  // number of the first entry of queue
};

struct Event {
  Stream* stream = nullptr;
  Capture const* capture = nullptr;  // that it was recorded in
  std::size_t number = 0;            // entries of the stream before it
  // When the stream came to it. Shared, as a timed event may go before its turn comes.
  std::shared_ptr<Clock::time_point> time{};
};

struct Graph {
  std::vector<Work> work;
};

// Whether this thread records, so that a driver refuses what may wait for other work
// (cudaStreamCaptureModeThreadLocal). The recording is broken then.
bool breaks_capture();
std::uint64_t n_graphs();  // that were recorded
// The default streams of __dlpack__: work on them is done at once.
bool is_default(Stream const* stream);

}  // namespace emulator
