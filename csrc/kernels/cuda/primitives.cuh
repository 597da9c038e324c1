// What kernels say to the machine, by name: warps, shared memory, asynchronous copies, matrix
// products. Nothing else in this folder has inline assembly or warp intrinsics, so that the tests
// can bring their own machine (HYRECALL_EMULATED).
//
// Every collective is of the whole warp: all 32 lanes come to it.
#pragma once

#include <cstdint>

namespace hyrecall::cuda {

// Four numbers that are read and written together.
struct alignas(16) FourFloats {
  float values[4];
};
struct alignas(16) FourWords {
  std::uint32_t values[4];
};

}  // namespace hyrecall::cuda

#if defined(HYRECALL_EMULATED)
#include "emulator/primitives.hpp"
#else

#include <cuda_runtime.h>

#include <type_traits>

namespace hyrecall::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// Where kernels of a call go, one behind another.
struct KernelQueue {
  cudaStream_t stream;
  // Whether a kernel may be placed while the last blocks of the one before still run: it begins
  // with begin_behind(), as all of a sequence do.
  bool overlaps = false;
};

template <typename... P, typename... A>
cudaError_t launch_behind(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
                          KernelQueue const& queue, A const&... arguments) {
  static_assert((std::is_same_v<P, A> && ...), "a kernel's arguments as it declares them");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = queue.stream;
  config.attrs = &attribute;
  config.numAttrs = queue.overlaps ? 1 : 0;
  void* pointers[] = {const_cast<void*>(static_cast<void const*>(&arguments))...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<void const*>(kernel), pointers);
}

template <typename... P, typename... A>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, A const&... arguments) {
  return launch_behind(kernel, grid, block, shared_bytes, KernelQueue{stream}, arguments...);
}

// What every kernel of a sequence does before anything else: the next one may be placed, and
// nothing is read or written until all of the one before is there. So each has all of those before
// it.
__device__ __forceinline__ void begin_behind() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ unsigned char* shared_memory() {
  extern __shared__ __align__(1024) unsigned char hyrecall_shared[];
  return hyrecall_shared;
}

__device__ __forceinline__ unsigned lane_id() {
  return threadIdx.x % 32;
}
__device__ __forceinline__ void sync_block() {
  __syncthreads();
}
__device__ __forceinline__ void sync_warp() {
  __syncwarp();
}
__device__ __forceinline__ std::uint32_t ballot(bool value) {
  return __ballot_sync(kAllLanes, value);
}
template <typename T>
__device__ __forceinline__ T shuffle(T value, unsigned lane) {
  return __shfl_sync(kAllLanes, value, static_cast<int>(lane));
}
// The lanes that bring the same value as this one.
__device__ __forceinline__ std::uint32_t match(std::uint32_t value) {
  return __match_any_sync(kAllLanes, value);
}
template <typename T>
__device__ __forceinline__ T shuffle_down(T value, unsigned by) {
  return __shfl_down_sync(kAllLanes, value, by);
}
__device__ __forceinline__ std::uint32_t popcount(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__popc(static_cast<int>(bits)));
}
// The number of the lowest bit that is set; bits is not 0.
__device__ __forceinline__ std::uint32_t lowest_bit(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1;
}
// What this thread has written to memory is there for who sees what it writes from now on.
__device__ __forceinline__ void publish_memory() {
  __threadfence();
}
// What another CTA of the same launch has written and published.
template <typename T>
__device__ __forceinline__ T load_published(T const* at) {
  return __ldcg(at);
}
__device__ __forceinline__ float fma_rn(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}

// Sums in shared memory, which one thread touches between two barriers: plain reads and writes, and
// a fault of the emulator where it is not so.
__device__ __forceinline__ void shared_add(float* at, float value) {
  *at = *at + value;
}
__device__ __forceinline__ void shared_or(std::uint32_t* at, std::uint32_t bits) {
  *at = *at | bits;
}
__device__ __forceinline__ FourFloats shared_load(float const* at) {
  return *reinterpret_cast<FourFloats const*>(at);
}
__device__ __forceinline__ FourWords shared_load(std::uint32_t const* at) {
  return *reinterpret_cast<FourWords const*>(at);
}
// Four of them become 0.
template <typename T>
__device__ __forceinline__ void shared_clear(T* at) {
  *reinterpret_cast<FourWords*>(at) = FourWords{};
}

// Copies 16 bytes from global to shared memory.
__device__ __forceinline__ void async_copy(void* to, void const* from) {
  auto const shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(shared), "l"(from));
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;\n" ::);
}
// Waits until at most kLeft groups of this thread are under way.
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft));
}

// Four 8 x 16-byte matrices from shared memory: lanes 8 i to 8 i + 7 bring the addresses of the
// rows of matrix i; lane l gets bytes 4 (l mod 4) to + 3 of row l / 4 of each.
__device__ __forceinline__ void load_matrices(std::uint32_t (&out)[4], void const* row) {
  auto const shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared)
               : "memory");
}

// sums += rows x queries over 32 bytes of each row: 16 rows, 8 queries. PTX ISA, mma.m16n8k16 (16
// bit) and m16n8k32 (8 bit) have the same layout in bytes.
struct Bfloat16 {};
struct Int8 {};

__device__ __forceinline__ void multiply(Bfloat16, float (&sums)[4], std::uint32_t const (&rows)[4],
                                         std::uint32_t const (&queries)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(queries[0]), "r"(queries[1]));
}
__device__ __forceinline__ void multiply(Int8, std::int32_t (&sums)[4],
                                         std::uint32_t const (&rows)[4],
                                         std::uint32_t const (&queries)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(queries[0]), "r"(queries[1]));
}

}  // namespace hyrecall::cuda

#endif
