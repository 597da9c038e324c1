// The host side of the stand-in: memory, streams, events.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/contexts.hpp"
#include "emulator/controls.hpp"
#include "emulator/cuda_runtime.h"
#include "emulator/streams.hpp"

namespace emulator {

namespace {

constexpr std::size_t kAlignment = 256;
std::mutex g_mutex;
std::map<void*, std::size_t> g_sizes;
std::size_t g_allocated = 0;
std::atomic<std::size_t> g_limit{0};
struct Counters {
  std::atomic<std::uint64_t> copies_in{0}, copies_out{0}, bytes_in{0}, bytes_out{0};
  std::atomic<std::uint64_t> allocations{0}, pinned_allocations{0}, waits{0};
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
  if (bytes > 0 && !is_same()) std::memcpy(to, from, bytes);
}

cudaError_t allocate(void** out, std::size_t bytes, bool is_device) {
  make_context();
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
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

bool is_default(Stream const* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

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
    if (breaks_capture()) return cudaErrorStreamCaptureImplicit;
    work();
  } else if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(work));
  } else {
    stream->queue.push_back(std::move(work));
    if (is_eager()) stream->drain(stream->queue.size());
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
  return {emulator::n_launches(),
          all.copies_in,
          all.copies_out,
          all.bytes_in,
          all.bytes_out,
          all.allocations,
          all.pinned_allocations,
          emulator::n_graphs(),
          emulator::landed_bytes(),
          all.waits};
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

void emulator_set_null(int kind) {
  emulator::set_null(static_cast<emulator::NullDevice>(kind));
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
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit:
      return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
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
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
      return "operation not permitted when stream is capturing";
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
  if (emulator::breaks_capture()) return cudaErrorStreamCaptureUnsupported;
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
  if (emulator::breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  emulator::make_context();
  if (emulator::breaks_capture()) return cudaErrorStreamCaptureImplicit;
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
    if (bytes > 0 && !emulator::is_same()) std::memset(to, value, bytes);
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
  if (emulator::breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (emulator::is_default(stream)) return cudaSuccess;
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  emulator::g_counters.waits += 1;
  stream->drain(stream->queue.size());
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  emulator::make_context();
  if (emulator::breaks_capture()) return cudaErrorStreamCaptureUnsupported;
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
  event->capture = emulator::is_default(stream) ? nullptr : stream->capture.get();
  if (event->time != nullptr)
    emulator::enqueue(stream, [time = event->time] { *time = emulator::Clock::now(); });
  if (stream != nullptr) event->number = stream->base + stream->queue.size();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (emulator::breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (event->capture != nullptr) return cudaErrorCapturedEvent;
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
  bool const is_recording = !emulator::is_default(stream) && stream->capture != nullptr;
  emulator::Capture const* const own = is_recording ? stream->capture.get() : nullptr;
  if (recorded.capture != own) {  // a recording knows nothing of what is outside, and nobody of it
    if (!is_recording) return cudaErrorCapturedEvent;
    stream->capture->is_broken = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (is_recording) return cudaSuccess;  // of the same stream, in its order
  return enqueue(stream, [recorded] {
    emulator::Event copy = recorded;
    cudaEventSynchronize(&copy);
  });
}
