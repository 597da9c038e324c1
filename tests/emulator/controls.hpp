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
  std::uint64_t n_waits;               // of the host for a stream
};

inline DeviceWork operator-(DeviceWork const& now, DeviceWork const& before) {
  return {now.n_launches - before.n_launches,
          now.n_copies_in - before.n_copies_in,
          now.n_copies_out - before.n_copies_out,
          now.bytes_in - before.bytes_in,
          now.bytes_out - before.bytes_out,
          now.n_allocations - before.n_allocations,
          now.n_pinned_allocations - before.n_pinned_allocations,
          now.n_graphs - before.n_graphs,
          now.block_bytes - before.block_bytes,
          now.n_waits - before.n_waits};
}

// On a null device a kernel is launched and does nothing: what a search costs the host is left.
enum class NullDevice : int {
  kNone = 0,
  kNothing = 1,  // no row is found
  kSame = 2,     // nothing is copied or cleared either: the batch of before finds what it found
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
  void (*set_null)(NullDevice kind);
  // Whether anything has made a context on a device, of which HYRECALL_EMULATOR_DEVICES says how
  // many there are (1).
  bool (*has_context)(int device);
};

}  // namespace emulator

extern "C" __attribute__((visibility("default"))) emulator::Controls const* emulator_controls();
// set_null() for who has no C++.
extern "C" __attribute__((visibility("default"))) void emulator_set_null(int kind);
