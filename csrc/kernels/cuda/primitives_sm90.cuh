// What kernels for Hopper say to the machine beside primitives.cuh: barriers that count bytes,
// block copies, products of a warpgroup (four warps, the first a multiple of 4). PTX ISA, sections
// on mbarrier, cp.async.bulk and wgmma.
#pragma once

#include "core/formulas.hpp"
#include "kernels/cuda/primitives.cuh"

namespace hyrecall::cuda {

// A matrix in shared memory as wgmma wants it described (PTX ISA, "Matrix Descriptor Format"), for
// the emulated machine too.
// Rows of 128 bytes, 1,024-byte aligned, whose 16-byte pieces are swapped as place_in_block says:
// the 128-byte swizzle, eight rows 1,024 bytes apart. Moves by 32 bytes of a row as its address
// does. address: in shared memory.
HYRECALL_HD inline std::uint64_t matrix_descriptor(std::uint64_t address) {
  return (address & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{1} << 62;
}

}  // namespace hyrecall::cuda

#if defined(HYRECALL_EMULATED)
#include "emulator/primitives_sm90.hpp"
#else

namespace hyrecall::cuda {

__device__ __forceinline__ std::uint32_t shared_address(void const* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// ---- barriers in shared memory: a phase ends when `count` have arrived and all bytes have come

__device__ __forceinline__ void init_barrier(std::uint64_t* barrier, std::uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(barrier)),
               "r"(count)
               : "memory");
}
// After init_barrier, before the CTA's barrier: copies see them.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(barrier))
               : "memory");
}
// Arrives, and the phase waits for so many bytes more.
__device__ __forceinline__ void arrive_expecting(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Waits until the phase of this parity has ended; phases are 0, 1, 0, ... and before the first is
// one of parity 1. Threads of a warp may see the end at different tries: no branch is uniform.
__device__ __forceinline__ void wait_phase(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
// Among n_threads threads, whole warps; id 1 to 15.
__device__ __forceinline__ void sync_threads(unsigned id, unsigned n_threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(n_threads) : "memory");
}

// A multiple of 16 bytes from global to shared memory, both 16-byte aligned; the barrier counts
// them.
__device__ __forceinline__ void copy_block(void* to, void const* from, std::uint32_t bytes,
                                           std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Has so many bytes brought to the cache that all multiprocessors share.
__device__ __forceinline__ void prefetch_block(void const* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(from), "r"(bytes) : "memory");
}

// How many registers a thread of this warpgroup has from here on; a multiple of 8.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kCount));
}

// ---- products

__device__ __forceinline__ std::uint64_t describe_matrix(void const* rows) {
  return matrix_descriptor(shared_address(rows));
}
// Before the first product of a sum, and after registers of sums were touched.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Until at most kLeft groups of products are under way; only then may their sums be read.
template <int kLeft>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kLeft) : "memory");
}

}  // namespace hyrecall::cuda

#include "kernels/cuda/wgmma.cuh"

#endif
