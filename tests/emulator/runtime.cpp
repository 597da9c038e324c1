// The host side of the stand-in: memory, streams, events, graphs.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/contexts.hpp"
#include "emulator/controls.hpp"
#include "emulator/cuda_runtime.h"

namespace emulator {

using Work = std::function<void()>;
using Clock = std::chrono::steady_clock;

struct Stream {
  std::vector<Work> queue;
  std::size_t n_done = 0;
  std::vector<Work>* capture = nullptr;

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
  std::size_t number = 0;  // entries of the stream before it
  // When the stream came to it. Shared, as a timed event may go before its turn comes.
  std::shared_ptr<Clock::time_point> time{};
};

struct Graph {
  std::vector<Work> work;
};

namespace {

constexpr std::size_t kAlignment = 256;
std::mutex g_mutex;
std::map<void*, std::size_t> g_sizes;
std::size_t g_allocated = 0;
std::atomic<std::size_t> g_limit{0};
struct Counters {
  std::atomic<std::uint64_t> copies_in{0}, copies_out{0}, bytes_in{0}, bytes_out{0};
  std::atomic<std::uint64_t> allocations{0}, pinned_allocations{0}, graphs{0};
};
Counters g_counters;

void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice) {
    g_counters.copies_in += 1;
    g_counters.bytes_in += bytes;
  } else if (kind == cudaMemcpyDeviceToHost) {
    g_counters.copies_out += 1;
    g_counters.bytes_out += bytes;
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// The default streams of __dlpack__: work on them is done at once.
bool is_default(Stream const* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

cudaError_t allocate(void** out, std::size_t bytes, bool is_device) {
  make_context();
  std::lock_guard const lock(g_mutex);
  if (is_device && g_limit != 0 && g_allocated + bytes > g_limit) return cudaErrorMemoryAllocation;
  // Not rounded up, so that a sanitizer sees a read past the end.
  if (posix_memalign(out, kAlignment, bytes > 0 ? bytes : 1) != 0) return cudaErrorMemoryAllocation;
  std::memset(*out, 0xFF, bytes);  // NaN as a float, out of bounds as a number
  (is_device ? g_counters.allocations : g_counters.pinned_allocations) += 1;
  if (is_device) {
    g_sizes[*out] = bytes;
    g_allocated += bytes;
  }
  return cudaSuccess;
}

}  // namespace

void limit_memory(std::size_t bytes) {
  g_limit = bytes;
}
std::size_t allocated_bytes() {
  std::lock_guard const lock(g_mutex);
  return g_allocated;
}

cudaError_t enqueue(Stream* stream, Work work) {
  make_context();
  if (is_default(stream)) {
    work();
  } else if (stream->capture != nullptr) {
    stream->capture->push_back(std::move(work));
  } else {
    stream->queue.push_back(std::move(work));
  }
  return cudaSuccess;
}

cudaError_t check_launch(dim3 grid, dim3 block, std::size_t shared_bytes) {
  bool const fits = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= 65'535 &&
                    block.x * block.y * block.z <= kMaxThreads && shared_bytes <= kMaxDynamicShared;
  return fits ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace emulator

namespace {

void* control_allocate(std::size_t bytes) {
  void* data = nullptr;
  cudaMalloc(&data, bytes);
  return data;
}
void control_release(void* data) {
  cudaFree(data);
}
void* control_create_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}
void control_destroy_stream(void* stream) {
  cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}
void control_copy_later(void* stream, void* to, void const* from, std::size_t bytes) {
  cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream));
}
emulator::DeviceWork control_work() {
  emulator::Counters const& all = emulator::g_counters;
  return {emulator::n_launches(), all.copies_in,   all.copies_out,         all.bytes_in,
          all.bytes_out,          all.allocations, all.pinned_allocations, all.graphs};
}
void control_wait_for(void* stream, void* other) {
  emulator::Event event;
  cudaEventRecord(&event, static_cast<cudaStream_t>(other));
  cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), &event);
}

}  // namespace

emulator::Controls const* emulator_controls() {
  static emulator::Controls const controls{&emulator::limit_memory, &emulator::allocated_bytes,
                                           &emulator::set_seed,     &emulator::n_launches,
                                           &control_allocate,       &control_release,
                                           &control_create_stream,  &control_destroy_stream,
                                           &control_copy_later,     &control_wait_for,
                                           &control_work,           &emulator::set_null,
                                           &emulator::has_context};
  return &controls;
}

using emulator::enqueue;

char const* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError:
      return "cudaErrorInitializationError";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    default:
      return "cudaErrorInvalidValue";
  }
}
char const* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInitializationError:
      return "initialization error";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return "invalid argument";
  }
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = std::size_t{1} << 32;
  *free_bytes = *total_bytes - emulator::allocated_bytes();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return emulator::allocate(out, bytes, true);
}
cudaError_t cudaFree(void* data) {
  emulator::make_context();
  if (data == nullptr) return cudaSuccess;
  std::lock_guard const lock(emulator::g_mutex);
  auto const found = emulator::g_sizes.find(data);
  if (found == emulator::g_sizes.end()) return cudaErrorInvalidValue;
  emulator::g_allocated -= found->second;
  emulator::g_sizes.erase(found);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  return emulator::allocate(out, bytes, false);
}
cudaError_t cudaFreeHost(void* data) {
  emulator::make_context();
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  emulator::make_context();
  emulator::copy(to, from, bytes, kind);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return enqueue(stream, [=] { emulator::copy(to, from, bytes, kind); });
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, void const* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidValue;
  return enqueue(stream, [=] {
    for (std::size_t i = 0; i < height; ++i) {
      std::memcpy(static_cast<char*>(to) + i * to_pitch,
                  static_cast<char const*>(from) + i * from_pitch, width);
    }
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return enqueue(stream, [=] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  emulator::make_context();
  *out = new emulator::Stream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulator::make_context();
  cudaStreamSynchronize(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulator::make_context();
  if (emulator::is_default(stream)) return cudaSuccess;
  if (stream->capture != nullptr) return cudaErrorInvalidValue;
  stream->drain(stream->queue.size());
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  emulator::make_context();
  return emulator::is_default(stream) || stream->n_done == stream->queue.size() ? cudaSuccess
                                                                                : cudaErrorNotReady;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  emulator::make_context();
  *out = new emulator::Event;
  if (flags == cudaEventDefault) (*out)->time = std::make_shared<emulator::Clock::time_point>();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->stream = stream;
  if (event->time != nullptr)
    emulator::enqueue(stream, [time = event->time] { *time = emulator::Clock::now(); });
  if (stream != nullptr) event->number = stream->base + stream->queue.size();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulator::Stream* const stream = event->stream;
  if (stream != nullptr && event->number > stream->base)
    stream->drain(event->number - stream->base);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->time == nullptr || end->time == nullptr) return cudaErrorInvalidValue;
  for (cudaEvent_t const event : {begin, end}) {
    if (event->stream != nullptr && event->number > event->stream->base + event->stream->n_done)
      return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  emulator::Event const recorded = *event;
  return enqueue(stream, [recorded] {
    emulator::Event copy = recorded;
    cudaEventSynchronize(&copy);
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->capture != nullptr) return cudaErrorInvalidValue;
  stream->capture = new std::vector<emulator::Work>;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  if (stream->capture == nullptr) return cudaErrorInvalidValue;
  *out = new emulator::Graph{std::move(*stream->capture)};
  delete std::exchange(stream->capture, nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = new emulator::Graph(*graph);
  emulator::g_counters.graphs += 1;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (emulator::Work const& work : graph->work) enqueue(stream, work);
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
