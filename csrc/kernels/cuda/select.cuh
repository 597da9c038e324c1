// The k-th largest of a list, by a CTA: radix selection, eight bits at a time from the highest in
// which the keys differ; and what else the kernels do that select.
#pragma once

#include <type_traits>

#include "kernels/cuda/kernels.cuh"

namespace hyrecall::cuda {

// An entry of a list, if it counts.
template <typename Key>
struct Entry {
  Key key;
  bool counts;
};

// Lists lie in L2, some 250 cycles away: each thread has so many loads under way.
inline constexpr int kLoads = 4;

// Every thread calls it: use(key) with those of load(i), i in [0, n), that count.
template <typename Key, unsigned kThreads = kSelectThreads, int kAhead = kLoads, typename Load,
          typename Use>
__device__ inline void for_each_entry(std::uint32_t n, Load&& load, Use&& use) {
#pragma unroll 1
  for (std::uint32_t begin = threadIdx.x; begin < n; begin += kAhead * kThreads) {
    Entry<Key> entries[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      std::uint32_t const i = begin + k * kThreads;
      entries[k] = i < n ? load(i) : Entry<Key>{0, false};
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (entries[k].counts) use(entries[k].key);
    }
  }
}

struct SelectScratch {
  std::uint32_t bins[256];
  std::uint32_t bin;    // that holds the k-th
  std::uint32_t above;  // entries in the bins above it
  // Atomics on 64 bits of shared memory are loops of compare-and-swap: keys of 32 bits have words.
  unsigned long long least;
  unsigned long long most;
  std::uint32_t least_word;
  std::uint32_t most_word;
};

// Among so many entries with equal digits above, finds the bin that holds the left-th from the top;
// 32 threads of a warp call it.
__device__ inline void find_bin(SelectScratch& scratch, std::uint32_t left) {
  std::uint32_t const top = 255 - 8 * threadIdx.x;  // lane l adds bins 255 - 8 l downwards
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

// Every thread calls it and gets the k-th largest (k from 1) of the entries load(i), i in [0, n),
// that count; there are at least k of them. Key is unsigned. A thread reads every kThreads-th,
// kAhead of them at a time.
template <typename Key, unsigned kThreads = kSelectThreads, int kAhead = kLoads, typename Load>
__device__ inline Key select_kth(std::uint32_t n, std::uint32_t k, SelectScratch& scratch,
                                 Load&& load) {
  // Keys are read less the least of them, from the highest bit in which they differ: scores are
  // much alike in their upper bits, and all threads would count in one bin.
  sync_block();
  if (threadIdx.x == 0) {
    scratch.least = ~0ull;
    scratch.most = 0;
    scratch.least_word = ~0u;
    scratch.most_word = 0;
  }
  sync_block();
  using Wide = std::conditional_t<sizeof(Key) == 4, std::uint32_t, unsigned long long>;
  Wide own_least = static_cast<Wide>(~Wide{0});
  Wide own_most = 0;
  for_each_entry<Key, kThreads, kAhead>(n, load, [&](Wide key) {
    own_least = key < own_least ? key : own_least;
    own_most = key > own_most ? key : own_most;
  });
  for (unsigned by = 16; by >= 1; by /= 2) {
    Wide const other_least = shuffle(own_least, lane_id() ^ by);
    Wide const other_most = shuffle(own_most, lane_id() ^ by);
    own_least = other_least < own_least ? other_least : own_least;
    own_most = other_most > own_most ? other_most : own_most;
  }
  if (lane_id() == 0 && own_least <= own_most) {
    if constexpr (sizeof(Key) == 4) {
      atomicMin(&scratch.least_word, own_least);
      atomicMax(&scratch.most_word, own_most);
    } else {
      atomicMin(&scratch.least, own_least);
      atomicMax(&scratch.most, own_most);
    }
  }
  sync_block();
  Key const least =
      sizeof(Key) == 4 ? static_cast<Key>(scratch.least_word) : static_cast<Key>(scratch.least);
  Key const most =
      sizeof(Key) == 4 ? static_cast<Key>(scratch.most_word) : static_cast<Key>(scratch.most);
  Key const spread = most - least;
  Key found = 0;           // less `least`
  std::uint32_t left = k;  // wanted of those that begin as found does
  int high = 0;            // bits below it are to be found
  while (high < static_cast<int>(sizeof(Key)) * 8 && spread >> high != 0) high += 1;
#pragma unroll 1
  while (high > 0) {
    int const low = high > 8 ? high - 8 : 0;
    Key const digits = (Key{1} << (high - low)) - 1;
    sync_block();  // the last round's numbers have been read
    for (std::uint32_t i = threadIdx.x; i < 256; i += kThreads) scratch.bins[i] = 0;
    sync_block();
    for_each_entry<Key, kThreads, kAhead>(n, load, [&](Key whole) {
      Key const key = whole - least;
      // Two shifts: one by all bits of a word is not defined.
      if (key >> (high - 1) >> 1 == found >> (high - 1) >> 1)
        atomicAdd(&scratch.bins[static_cast<std::uint32_t>(key >> low & digits)], 1u);
    });
    sync_block();
    if (threadIdx.x < 32) find_bin(scratch, left);
    sync_block();
    found |= static_cast<Key>(scratch.bin) << low;
    left -= scratch.above;
    high = low;
  }
  return found + least;
}

// How many entries count; every thread gets it. `total` is shared.
template <typename Key, unsigned kThreads = kSelectThreads, typename Load>
__device__ inline std::uint32_t count_entries(std::uint32_t n, std::uint32_t& total, Load&& load) {
  sync_block();
  if (threadIdx.x == 0) total = 0;
  sync_block();
  std::uint32_t own = 0;
  for_each_entry<Key, kThreads>(n, load, [&](Key) { own += 1; });
  if (own > 0) atomicAdd(&total, own);
  sync_block();
  return total;
}

}  // namespace hyrecall::cuda
