// Recordings of a stream, and what a driver refuses meanwhile.
#include <atomic>
#include <utility>

#include "emulator/streams.hpp"

namespace emulator {
namespace {

thread_local Capture* t_capture = nullptr;  // that this thread has begun
std::atomic<std::uint64_t> g_graphs{0};

}  // namespace

bool breaks_capture() {
  if (t_capture == nullptr) return false;
  t_capture->is_broken = true;
  return true;
}

std::uint64_t n_graphs() {
  return g_graphs;
}

}  // namespace emulator

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (emulator::is_default(stream)) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr || emulator::t_capture != nullptr) return cudaErrorInvalidValue;
  stream->capture = std::make_unique<emulator::Capture>();
  emulator::t_capture = stream->capture.get();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  *out = nullptr;
  if (stream->capture == nullptr) return cudaErrorInvalidValue;
  std::unique_ptr<emulator::Capture> const capture = std::move(stream->capture);
  if (emulator::t_capture == capture.get()) emulator::t_capture = nullptr;
  if (capture->is_broken) return cudaErrorStreamCaptureInvalidated;
  *out = new emulator::Graph{std::move(capture->work)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = new emulator::Graph(*graph);
  emulator::g_graphs += 1;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (emulator::Work const& work : graph->work) {
    if (cudaError_t const error = emulator::enqueue(stream, work); error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
