// The kernels of a search in their order: launched one by one, or recorded once and replayed.
#pragma once

#include <vector>

#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {

// Times what comes to a stream, one thing after another.
class KernelTimer {
 public:
  KernelTimer(KernelTimes& out, cudaStream_t stream) : out_(out), stream_(stream) {
    out_.n = 0;
    mark();
  }

  // What has come since the last call goes by this name.
  void add(char const* name, std::uint32_t width) {
    if (out_.n == std::size(out_.all)) return;
    mark();
    out_.all[out_.n++] = {name, width, 0.0f};
  }
  // When all of it is done.
  void read() {
    for (std::uint32_t i = 0; i < out_.n; ++i)
      check(
          cudaEventElapsedTime(&out_.all[i].milliseconds, events_[i].get(), events_[i + 1].get()));
  }

 private:
  void mark() {
    events_.push_back(make_event(cudaEventDefault));
    check(cudaEventRecord(events_.back().get(), stream_));
  }

  KernelTimes& out_;
  cudaStream_t stream_;
  std::vector<Event> events_;
};

// Launches kernels one behind another; a timer, where there is one, hears of each.
class Launches {
 public:
  Launches(KernelQueue const& queue, KernelTimer* timer) : queue_(queue), timer_(timer) {}

  template <typename... P, typename... A>
  void run(char const* name, void (*kernel)(P...), dim3 grid, unsigned n_threads,
           std::size_t shared_bytes, A const&... arguments) {
    done(name, launch_behind(kernel, grid, n_threads, shared_bytes, queue_, arguments...));
  }
  void done(char const* name, cudaError_t error, std::uint32_t width = 0) {
    check(error);
    if (timer_ != nullptr) timer_->add(name, width);
  }
  KernelQueue const& queue() const { return queue_; }

 private:
  KernelQueue queue_;
  KernelTimer* timer_;
};

// What the recording of a search depends on; number: of its job in the call.
GraphKey graph_key(SearchParams const& params, std::uint32_t number = 0);

// Launches the kernels of a job that the workspace's input holds.
void run_sequence(Workspace& workspace, GraphKey const& key, Scanner const& scanner, Launches& to);
// The same as a recording of the workspace, which is made if there is none yet.
cudaGraphExec_t recorded_sequence(Workspace& workspace, GraphKey const& key,
                                  Scanner const& scanner);

}  // namespace hyrecall::cuda
