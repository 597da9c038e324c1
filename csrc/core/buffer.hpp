// A read-only array that is either ours or borrowed from an owner that outlives it (an mmapped
// file, a NumPy array).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace hyrecall {

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::vector<T> values) {  // NOLINT(google-explicit-constructor): a vector *is* a buffer
                                   // once it is final
    auto owned = std::make_shared<std::vector<T> const>(std::move(values));
    data_ = owned->data();
    size_ = owned->size();
    owner_ = std::move(owned);
  }
  Buffer(T const* data, std::size_t size, std::shared_ptr<void const> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  T const* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T const& operator[](std::size_t i) const { return data_[i]; }
  T const* begin() const { return data_; }
  T const* end() const { return data_ + size_; }
  std::span<T const> span() const { return {data_, size_}; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  std::shared_ptr<void const> const& owner() const { return owner_; }

 private:
  T const* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<void const> owner_;
};

// n byte strings, back to back.
struct Strings {
  Buffer<std::int64_t> offsets;  // [n + 1], rising; the first need not be 0
  Buffer<std::uint8_t> bytes;

  std::size_t size() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  std::string_view operator[](std::size_t i) const {
    return {reinterpret_cast<char const*>(bytes.data()) + offsets[i],
            static_cast<std::size_t>(offsets[i + 1] - offsets[i])};
  }
};

}  // namespace hyrecall
