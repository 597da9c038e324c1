// Times what comes to a stream, one thing after another.
#pragma once

#include <vector>

#include "kernels/cuda/status.cuh"
#include "kernels/shared/abi.hpp"

namespace hyrecall::cuda {

class KernelTimer {
 public:
  KernelTimer(KernelTimes& out, cudaStream_t stream) : out_(out), stream_(stream) {
    out_.n = 0;
    mark();
  }
  ~KernelTimer() {
    for (cudaEvent_t const event : events_) cudaEventDestroy(event);
  }
  KernelTimer(KernelTimer const&) = delete;
  KernelTimer& operator=(KernelTimer const&) = delete;

  // What has come since the last call goes by this name.
  void add(char const* name, std::uint32_t width) {
    if (out_.n == std::size(out_.all)) return;
    mark();
    out_.all[out_.n++] = {name, width, 0.0f};
  }
  // When all of it is done.
  void read() {
    for (std::uint32_t i = 0; i < out_.n; ++i)
      check(cudaEventElapsedTime(&out_.all[i].milliseconds, events_[i], events_[i + 1]));
  }

 private:
  void mark() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDefault));
    events_.push_back(event);
    check(cudaEventRecord(event, stream_));
  }

  KernelTimes& out_;
  cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace hyrecall::cuda
