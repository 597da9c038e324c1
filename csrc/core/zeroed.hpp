// Memory for large arrays: zeros, on a cache line, in huge pages where the system gives them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/buffer.hpp"

namespace hyrecall {

std::shared_ptr<void> allocate_zeroed(std::size_t n_bytes);

// An array that is being filled.
template <typename T>
class Zeroed {
 public:
  explicit Zeroed(std::size_t size) : owner_(allocate_zeroed(size * sizeof(T))), size_(size) {}

  T* data() { return static_cast<T*>(owner_.get()); }
  T& operator[](std::size_t i) { return data()[i]; }
  Buffer<T> finish() && {
    T const* const first = data();
    return Buffer<T>(first, size_, std::move(owner_));
  }

 private:
  std::shared_ptr<void> owner_;
  std::size_t size_;
};

}  // namespace hyrecall
