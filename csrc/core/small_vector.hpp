// A vector that stores its first few elements inline. A query has a handful of leaves, so with
// plain vectors a batch of a thousand would allocate some ten thousand times, in one thread, and
// free in another.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

namespace hyrecall {

// kInside elements need no allocation. A move may change the elements' addresses.
template <typename T, std::size_t kInside>
class SmallVector {
  static_assert(kInside > 0 && std::is_nothrow_move_constructible_v<T>);

 public:
  SmallVector() = default;
  // Each begins as an empty one: if an element throws, what was reserved is freed.
  SmallVector(std::initializer_list<T> values) : SmallVector() {
    reserve(values.size());
    std::uninitialized_copy(values.begin(), values.end(), data_);
    size_ = values.size();
  }
  explicit SmallVector(std::size_t n, T const& value = T()) : SmallVector() {
    reserve(n);
    std::uninitialized_fill_n(data_, n, value);
    size_ = n;
  }
  SmallVector(SmallVector const& other) : SmallVector() {
    reserve(other.size_);
    std::uninitialized_copy_n(other.data_, other.size_, data_);
    size_ = other.size_;
  }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(SmallVector other) noexcept {
    release();
    take(other);
    return *this;
  }
  ~SmallVector() { release(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  T const* begin() const { return data_; }
  T const* end() const { return data_ + size_; }
  T& operator[](std::size_t at) { return data_[at]; }
  T const& operator[](std::size_t at) const { return data_[at]; }
  T const& front() const { return data_[0]; }
  T const& back() const { return data_[size_ - 1]; }
  T& back() { return data_[size_ - 1]; }

  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    T* const grown = std::allocator<T>().allocate(n);
    std::uninitialized_move_n(data_, size_, grown);
    std::destroy_n(data_, size_);
    free_outside();
    data_ = grown;
    capacity_ = n;
  }
  void push_back(T value) {
    if (size_ == capacity_) reserve(2 * capacity_);
    std::construct_at(data_ + size_, std::move(value));
    ++size_;
  }

  friend bool operator==(SmallVector const& a, SmallVector const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(SmallVector const& a, SmallVector const& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inside() { return reinterpret_cast<T*>(inside_); }
  bool is_outside() const { return data_ != reinterpret_cast<T const*>(inside_); }
  void free_outside() {
    if (is_outside()) std::allocator<T>().deallocate(data_, capacity_);
  }
  void release() {
    std::destroy_n(data_, size_);
    free_outside();
    data_ = inside();
    size_ = 0;
    capacity_ = kInside;
  }
  // Into an empty one; the other is empty after it.
  void take(SmallVector& other) noexcept {
    if (other.is_outside()) {
      data_ = std::exchange(other.data_, other.inside());
      capacity_ = std::exchange(other.capacity_, kInside);
    } else {
      std::uninitialized_move_n(other.data_, other.size_, data_);
      std::destroy_n(other.data_, other.size_);
    }
    size_ = std::exchange(other.size_, 0);
  }

  T* data_ = inside();
  std::size_t size_ = 0;
  std::size_t capacity_ = kInside;
  alignas(T) std::byte inside_[kInside * sizeof(T)];
};

}  // namespace hyrecall
