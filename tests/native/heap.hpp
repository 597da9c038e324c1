// What the calling thread takes from the heap.
#pragma once

#include <cstdint>

namespace hyrecall::testing {

struct HeapUse {
  std::uint64_t n_allocations;
  std::uint64_t bytes;

  friend HeapUse operator-(HeapUse const& a, HeapUse const& b) {
    return {a.n_allocations - b.n_allocations, a.bytes - b.bytes};
  }
};

// Whether operator new counts: a sanitizer has its own.
bool heap_is_counted();
// Since the thread began.
HeapUse heap_use();

}  // namespace hyrecall::testing
