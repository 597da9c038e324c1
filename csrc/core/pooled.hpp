// Large arrays of requests and replies, in memory that is used again: giving a few megabytes back
// to the system and taking them anew costs a batch more than all that the host does for it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace hyrecall {

// Uninitialised memory, aligned as by new.
void* take_pooled(std::size_t bytes);
void give_pooled(void* data, std::size_t bytes) noexcept;

template <typename T>
struct PooledAllocator {
  using value_type = T;
  PooledAllocator() = default;
  template <typename U>
  PooledAllocator(PooledAllocator<U> const&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(take_pooled(n * sizeof(T))); }
  void deallocate(T* data, std::size_t n) noexcept { give_pooled(data, n * sizeof(T)); }
  // resize() leaves values as they are: who calls it writes them, by several threads.
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... A>
  void construct(U* at, A&&... arguments) {
    std::construct_at(at, std::forward<A>(arguments)...);
  }
  friend bool operator==(PooledAllocator const&, PooledAllocator const&) { return true; }
};

template <typename T>
using Pooled = std::vector<T, PooledAllocator<T>>;

}  // namespace hyrecall
