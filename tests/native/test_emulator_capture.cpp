// What a driver refuses while a thread records a stream, the emulated one refuses too.
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "emulator/cuda_runtime.h"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

class OwnStream {
 public:
  OwnStream() { CHECK_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(OwnStream const&) = delete;
  OwnStream& operator=(OwnStream const&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: as CUDA takes it

 private:
  cudaStream_t stream_ = nullptr;
};

class OwnEvent {
 public:
  OwnEvent() { CHECK_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess); }
  ~OwnEvent() { cudaEventDestroy(event_); }
  OwnEvent(OwnEvent const&) = delete;
  OwnEvent& operator=(OwnEvent const&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT: as CUDA takes it

 private:
  cudaEvent_t event_ = nullptr;
};

// What a call gives while a stream records a copy, and whether the recording is of use afterwards.
struct Refusal {
  cudaError_t given;
  bool is_recorded;
};
Refusal while_recording(std::function<cudaError_t(cudaStream_t)> const& call) {
  OwnStream const stream;
  int const from = 1;
  int to = 0;
  CHECK_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  CHECK_EQ(cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyDefault, stream), cudaSuccess);
  Refusal out{call(stream), false};
  cudaGraph_t graph = nullptr;
  cudaError_t const end = cudaStreamEndCapture(stream, &graph);
  out.is_recorded = graph != nullptr;
  CHECK_EQ(end, out.is_recorded ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
  if (out.is_recorded) {
    cudaGraphExec_t made = nullptr;
    CHECK_EQ(cudaGraphInstantiate(&made, graph), cudaSuccess);
    cudaGraphDestroy(graph);
    CHECK_EQ(cudaGraphLaunch(made, stream), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    CHECK_EQ(to, from);
    cudaGraphExecDestroy(made);
  }
  // The next recording of the thread is its own.
  CHECK_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  CHECK_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  return out;
}

TEST(emulator_refuses_while_a_thread_records_what_a_driver_refuses) {
  OwnStream const other;
  OwnEvent const outside;
  CHECK_EQ(cudaEventRecord(outside, other), cudaSuccess);
  void* held = nullptr;
  void* pinned = nullptr;
  CHECK_EQ(cudaMalloc(&held, 64), cudaSuccess);
  CHECK_EQ(cudaHostAlloc(&pinned, 64, cudaHostAllocDefault), cudaSuccess);
  void* made = nullptr;
  int number = 0;
  struct Case {
    char const* name;
    cudaError_t expected;
    std::function<cudaError_t(cudaStream_t)> call;
  };
  std::vector<Case> const cases = {
      {"cudaMalloc", cudaErrorStreamCaptureUnsupported,
       [&](cudaStream_t) { return cudaMalloc(&made, 64); }},
      {"cudaFree", cudaErrorStreamCaptureUnsupported, [&](cudaStream_t) { return cudaFree(held); }},
      {"cudaHostAlloc", cudaErrorStreamCaptureUnsupported,
       [&](cudaStream_t) { return cudaHostAlloc(&made, 64, cudaHostAllocDefault); }},
      {"cudaFreeHost", cudaErrorStreamCaptureUnsupported,
       [&](cudaStream_t) { return cudaFreeHost(pinned); }},
      {"a copy that waits", cudaErrorStreamCaptureImplicit,
       [&](cudaStream_t) {
         return cudaMemcpy(held, &number, sizeof number, cudaMemcpyHostToDevice);
       }},
      {"the legacy stream", cudaErrorStreamCaptureImplicit,
       [&](cudaStream_t) { return cudaMemsetAsync(held, 0, 4, nullptr); }},
      {"a wait for the stream", cudaErrorStreamCaptureUnsupported,
       [&](cudaStream_t own) { return cudaStreamSynchronize(own); }},
      {"a wait for another stream", cudaErrorStreamCaptureUnsupported,
       [&](cudaStream_t) { return cudaStreamSynchronize(other); }},
      {"a question whether a stream is done", cudaErrorStreamCaptureUnsupported,
       [&](cudaStream_t) { return cudaStreamQuery(other); }},
      {"a wait for an event", cudaErrorStreamCaptureUnsupported,
       [&](cudaStream_t) { return cudaEventSynchronize(outside); }},
      {"a stream that waits for an event outside", cudaErrorStreamCaptureIsolation,
       [&](cudaStream_t own) { return cudaStreamWaitEvent(own, outside); }},
      {"a second recording", cudaErrorInvalidValue,
       [&](cudaStream_t own) {
         cudaError_t const error = cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal);
         return cudaMalloc(&made, 64) == cudaSuccess ? cudaSuccess : error;
       }},
  };
  for (Case const& one : cases) {
    Refusal const got = while_recording(one.call);
    if (got.given != one.expected || got.is_recorded) fail(__FILE__, __LINE__, one.name);
  }
  CHECK_EQ(cudaFree(held), cudaSuccess);  // it was not freed
  CHECK_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(emulator_records_what_a_driver_allows) {
  OwnStream const other;
  OwnEvent const inside;
  int number = 0;
  int const one = 1;
  std::vector<std::function<cudaError_t(cudaStream_t)>> const calls = {
      [&](cudaStream_t own) {
        CHECK_EQ(cudaEventRecord(inside, own), cudaSuccess);
        return cudaStreamWaitEvent(own, inside);
      },
      // Work of another stream is done as ever, and a thread that records nothing is not held up.
      [&](cudaStream_t) {
        return cudaMemcpyAsync(&number, &one, sizeof one, cudaMemcpyDefault, other);
      },
      [&](cudaStream_t) {
        cudaError_t got = cudaErrorInvalidValue;
        std::thread([&] {
          void* data = nullptr;
          got = cudaMalloc(&data, 64);
          cudaFree(data);
        }).join();
        return got;
      },
  };
  for (auto const& call : calls) {
    Refusal const got = while_recording(call);
    CHECK_EQ(got.given, cudaSuccess);
    CHECK(got.is_recorded);
  }
  CHECK_EQ(cudaStreamSynchronize(other), cudaSuccess);
  CHECK_EQ(number, 1);
  CHECK_EQ(cudaEventSynchronize(inside), cudaErrorCapturedEvent);
}

}  // namespace
}  // namespace hyrecall::testing
