// What a test says to a machine of fibers that it has loaded as libhyrecall_cuda.so: one exported
// function, beside the library's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

// What has come to the device since the library was loaded.
struct DeviceWork {
  std::uint64_t n_launches;  // of kernels, also on a null device
  std::uint64_t n_copies_in;
  std::uint64_t n_copies_out;
  std::uint64_t bytes_in;
  std::uint64_t bytes_out;
  std::uint64_t n_allocations;         // of device memory
  std::uint64_t n_pinned_allocations;  // of host memory that the device reads
  std::uint64_t n_graphs;              // that were recorded
  std::uint64_t block_bytes;           // that Hopper's block copies brought to shared memory
};

struct Controls {
  // See cuda_runtime.h.
  void (*limit_memory)(std::size_t bytes);
  std::size_t (*allocated_bytes)();
  // What HYRECALL_EMULATOR_SEED says until then.
  void (*set_seed)(std::uint64_t seed);
  // So many kernels have been launched.
  std::uint64_t (*n_launches)();
  // Another user of the device: memory, and streams on which work waits until somebody asks.
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* data);
  void* (*create_stream)();
  void (*destroy_stream)(void* stream);
  void (*copy_later)(void* stream, void* to, void const* from, std::size_t bytes);
  // What comes on a stream from now on waits for what the other one has.
  void (*wait_for)(void* stream, void* other);
  DeviceWork (*work)();
  // On a null device a kernel is launched and does nothing: what a search costs the host is left,
  // and no row is found. HYRECALL_EMULATOR_NULL=1 says so until then.
  void (*set_null)(bool is_null);
  // Whether anything has made a context on a device, of which HYRECALL_EMULATOR_DEVICES says how
  // many there are (1).
  bool (*has_context)(int device);
};

}  // namespace emulator

extern "C" __attribute__((visibility("default"))) emulator::Controls const* emulator_controls();
