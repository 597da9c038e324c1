// The k-th largest of a list, by a CTA: radix selection, eight bits at a time from the top.
#pragma once

#include "kernels/cuda/kernels.cuh"

namespace hyrecall::cuda {

struct SelectScratch {
  std::uint32_t bins[256];
  std::uint32_t bin;    // that holds the k-th
  std::uint32_t above;  // entries in the bins above it
};

// Every thread calls it and gets the k-th largest (k from 1) of key(i), i in [0, n), over those
// with counts(i); there are at least k of them. Key is unsigned.
template <typename Key, typename KeyOf, typename Counts>
__device__ inline Key select_kth(std::uint32_t n, std::uint32_t k, SelectScratch& scratch,
                                 KeyOf&& key_of, Counts&& counts) {
  Key prefix = 0;
  std::uint32_t left = k;  // wanted of those with the prefix
  for (int shift = static_cast<int>(sizeof(Key)) * 8 - 8; shift >= 0; shift -= 8) {
    sync_block();  // the last round's numbers have been read
    for (std::uint32_t i = threadIdx.x; i < 256; i += kSelectThreads) scratch.bins[i] = 0;
    sync_block();
    bool const is_first = shift == static_cast<int>(sizeof(Key)) * 8 - 8;
    for (std::uint32_t i = threadIdx.x; i < n; i += kSelectThreads) {
      if (!counts(i)) continue;
      Key const key = key_of(i);
      if (is_first || key >> (shift + 8) == prefix >> (shift + 8))
        atomicAdd(&scratch.bins[static_cast<std::uint32_t>(key >> shift) & 0xffu], 1u);
    }
    sync_block();
    if (threadIdx.x < 32) {  // a warp: lane l adds bins 255 - 8 l downwards
      std::uint32_t const top = 255 - 8 * threadIdx.x;
      std::uint32_t own = 0;
      for (std::uint32_t i = 0; i < 8; ++i) own += scratch.bins[top - i];
      std::uint32_t above = own;  // then: in this lane's bins and all above
      for (unsigned by = 1; by < 32; by *= 2) {
        std::uint32_t const other = shuffle(above, threadIdx.x >= by ? threadIdx.x - by : 0);
        if (threadIdx.x >= by) above += other;
      }
      above -= own;
      if (above < left && left <= above + own) {
        std::uint32_t bin = top;
        while (above + scratch.bins[bin] < left) above += scratch.bins[bin--];
        scratch.bin = bin;
        scratch.above = above;
      }
    }
    sync_block();
    prefix |= static_cast<Key>(scratch.bin) << shift;
    left -= scratch.above;
  }
  return prefix;
}

// How many i in [0, n) hold; every thread gets it. `total` is shared.
template <typename Holds>
__device__ inline std::uint32_t count_if(std::uint32_t n, std::uint32_t& total, Holds&& holds) {
  sync_block();
  if (threadIdx.x == 0) total = 0;
  sync_block();
  std::uint32_t own = 0;
  for (std::uint32_t i = threadIdx.x; i < n; i += kSelectThreads) own += holds(i) ? 1 : 0;
  if (own > 0) atomicAdd(&total, own);
  sync_block();
  return total;
}

}  // namespace hyrecall::cuda
