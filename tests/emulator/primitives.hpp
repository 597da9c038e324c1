// csrc/kernels/cuda/primitives.cuh on fibers: each by its definition in the PTX ISA.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "emulator/cuda_runtime.h"

namespace hyrecall::cuda {

template <typename... P, typename... A>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, A const&... arguments) {
  static_assert((std::is_same_v<P, A> && ...), "a kernel's arguments as it declares them");
  if (cudaError_t const error = emulator::check_launch(grid, block, shared_bytes);
      error != cudaSuccess)
    return error;
  return emulator::enqueue(stream, [=] {
    emulator::run_grid({grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes,
                       [&] { kernel(arguments...); });
  });
}

struct KernelQueue {
  cudaStream_t stream;
  bool overlaps = false;
};
template <typename... P, typename... A>
cudaError_t launch_behind(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
                          KernelQueue const& queue, A const&... arguments) {
  return launch(kernel, grid, block, shared_bytes, queue.stream, arguments...);
}
inline void begin_behind() {}

inline unsigned char* shared_memory() {
  return emulator::dynamic_shared();
}
inline unsigned lane_id() {
  return threadIdx.x % 32;
}
inline void sync_block() {
  emulator::named_barrier(0, blockDim.x * blockDim.y * blockDim.z);
}
inline std::uint32_t ballot(bool value) {
  auto const* const all = static_cast<unsigned char const*>(emulator::exchange(&value, 1));
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < 32; i += 8) {  // eight bytes of 0 or 1, their bits into the highest byte
    std::uint64_t eight;
    std::memcpy(&eight, all + i, sizeof eight);
    bits |= static_cast<std::uint32_t>(eight * 0x0102040810204080u >> 56) << i;
  }
  return bits;
}
inline void sync_warp() {
  ballot(true);
}
template <typename T>
T shuffle(T value, unsigned lane) {
  T out;
  auto const* const all =
      static_cast<unsigned char const*>(emulator::exchange(&value, sizeof value));
  std::memcpy(&out, all + lane % 32 * sizeof(T), sizeof out);
  return out;
}
inline std::uint32_t match(std::uint32_t value) {
  auto const* const all =
      static_cast<std::uint32_t const*>(emulator::exchange(&value, sizeof value));
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= std::uint32_t{all[i] == value} << i;
  return bits;
}
template <typename T>
T shuffle_down(T value, unsigned by) {
  unsigned const from = lane_id() + by;
  return shuffle(value, from < 32 ? from : lane_id());
}
inline std::uint32_t popcount(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__builtin_popcount(bits));
}
inline std::uint32_t lowest_bit(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__builtin_ctz(bits));
}
inline void publish_memory() {}
template <typename T>
T load_published(T const* at) {
  return *at;
}
inline float fma_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}

// Every word of these has one thread between two barriers, or it is a fault.
inline void shared_add(float* at, float value) {
  emulator::touch_shared(at, sizeof value);
  *at = *at + value;
}
inline void shared_or(std::uint32_t* at, std::uint32_t bits) {
  emulator::touch_shared(at, sizeof bits);
  *at = *at | bits;
}
inline FourFloats shared_load(float const* at) {
  emulator::touch_shared(at, sizeof(FourFloats));
  FourFloats out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
inline FourWords shared_load(std::uint32_t const* at) {
  emulator::touch_shared(at, sizeof(FourWords));
  FourWords out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
template <typename T>
void shared_clear(T* at) {
  emulator::touch_shared(at, sizeof(FourWords));
  std::memset(static_cast<void*>(at), 0, sizeof(FourWords));
}

// In shared memory, 16-byte aligned at both ends, as cp.async demands.
inline void async_copy(void* to, void const* from) {
  auto const place = static_cast<std::size_t>(static_cast<unsigned char*>(to) - shared_memory());
  if (place + 16 > emulator::dynamic_shared_bytes()) emulator::fault("a copy past shared memory");
  if (place % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    emulator::fault("a copy that is not aligned");
  emulator::queue_copy(to, from, 16);
}
inline void commit_copies() {
  emulator::commit_copies();
}
template <int kLeft>
void wait_copies() {
  emulator::wait_copies(kLeft);
}

inline void load_matrices(std::uint32_t (&out)[4], void const* row) {
  auto const place =
      static_cast<std::size_t>(static_cast<unsigned char const*>(row) - shared_memory());
  if (place + 16 > emulator::dynamic_shared_bytes() || place % 16 != 0)
    emulator::fault("a matrix row outside shared memory or not aligned");
  auto const* const rows = static_cast<void const* const*>(emulator::exchange(&row, sizeof row));
  unsigned const lane = lane_id();
  for (unsigned i = 0; i < 4; ++i) {
    auto const* const at = static_cast<unsigned char const*>(rows[8 * i + lane / 4]);
    std::memcpy(&out[i], at + 4 * (lane % 4), 4);
  }
}

struct Bfloat16 {
  static double value(std::uint16_t bits) {
    std::uint32_t const wide = std::uint32_t{bits} << 16;
    float out;
    std::memcpy(&out, &wide, sizeof out);
    return out;
  }
};
struct Int8 {};

// The float32 nearest to zero of the two around a sum: tensor cores cut what they cannot hold.
inline float cut(double sum) {
  auto out = static_cast<float>(sum);
  if (std::fabs(static_cast<double>(out)) > std::fabs(sum)) out = std::nextafter(out, 0.0f);
  return out;
}

template <typename Kind, typename Sum>
void multiply(Kind, Sum (&sums)[4], std::uint32_t const (&rows)[4],
              std::uint32_t const (&queries)[2]) {
  struct Registers {
    std::uint32_t rows[4];
    std::uint32_t queries[2];
  } const own{{rows[0], rows[1], rows[2], rows[3]}, {queries[0], queries[1]}};
  auto const* const all = static_cast<Registers const*>(emulator::exchange(&own, sizeof own));
  unsigned const lane = lane_id();
  for (unsigned i = 0; i < 4; ++i) {
    unsigned const row = lane / 4;  // the register pair says whether it is row or row + 8
    unsigned const query = lane % 4 * 2 + i % 2;
    unsigned const upper = i / 2;
    using Wide = std::conditional_t<std::is_same_v<Kind, Int8>, std::int64_t, double>;
    Wide sum = sums[i];
    for (unsigned half = 0; half < 2; ++half) {
      for (unsigned t = 0; t < 4; ++t) {
        std::uint32_t const a = all[row * 4 + t].rows[2 * half + upper];
        std::uint32_t const b = all[query * 4 + t].queries[half];
        if constexpr (std::is_same_v<Kind, Int8>) {
          for (unsigned byte = 0; byte < 4; ++byte) {
            sum += static_cast<std::int8_t>(a >> (8 * byte)) *
                   static_cast<std::int8_t>(b >> (8 * byte));
          }
        } else {
          for (unsigned word = 0; word < 2; ++word) {
            sum += Kind::value(static_cast<std::uint16_t>(a >> (16 * word))) *
                   Kind::value(static_cast<std::uint16_t>(b >> (16 * word)));
          }
        }
      }
    }
    if constexpr (std::is_same_v<Kind, Int8>) {
      sums[i] = static_cast<std::int32_t>(sum);
    } else {
      sums[i] = cut(sum);
    }
  }
}

}  // namespace hyrecall::cuda
