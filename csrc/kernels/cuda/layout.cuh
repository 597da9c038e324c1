// One block of memory on host and device, in which the arrays of a call lie one after another.
#pragma once

#include <cstring>

#include "kernels/shared/abi.hpp"

namespace hyrecall::cuda {

// Lays arrays one after another. Twice over the same arrays: first without memory, for the size.
class BlockLayout {
 public:
  BlockLayout(std::uint8_t* host, std::uint8_t* device) : host_(host), device_(device) {}

  std::size_t bytes() const { return bytes_; }
  // Room for n elements; where they lie on the device.
  template <typename T>
  T* room(std::size_t n) {
    std::size_t const at = bytes_;
    bytes_ = (bytes_ + n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return device_ == nullptr ? nullptr : reinterpret_cast<T*>(device_ + at);
  }
  // The same, filled from the host.
  template <typename T>
  T const* copy(T const* from, std::size_t n) {
    if (host_ != nullptr && n > 0) std::memcpy(host_ + bytes_, from, n * sizeof(T));
    return room<T>(n);
  }
  template <typename T>
  T const* copy(HostArray<T> const& from) {
    return copy(from.data, from.n);
  }
  float const* copy_rows(QueryParams const& from, std::size_t n) {
    if (host_ != nullptr && n > 0)
      from.write(from.context, reinterpret_cast<float*>(host_ + bytes_));
    return room<float>(n);
  }
  // What stands in room that is there already.
  template <typename T>
  void write(T const* at, T const& value) {
    if (host_ == nullptr) return;
    auto const* const place = reinterpret_cast<std::uint8_t const*>(at);
    std::memcpy(host_ + (place - device_), &value, sizeof value);
  }

 private:
  static constexpr std::size_t kAlignment = 256;

  std::uint8_t* host_;
  std::uint8_t* device_;
  std::size_t bytes_ = 0;
};

// Text queries; segments: of their column.
inline LexicalJob lay_out_texts(TextParams const& text, LexicalSegment const* segments,
                                BlockLayout& layout) {
  LexicalJob out{};
  out.segments = segments;
  out.texts = layout.copy(text.texts);
  out.weights = layout.copy(text.weights);
  float const* const shifts = layout.copy(text.shifts);
  out.shifts = text.shifts.n > 0 ? shifts : nullptr;
  out.lists = layout.copy(text.lists);
  out.own_lists = layout.copy(text.own_lists);
  out.own_postings = layout.copy(text.own_postings);
  out.own_runs = layout.copy(text.own_runs);
  out.own_escapes = layout.copy(text.own_escapes);
  out.match_steps = layout.copy(text.match_steps);
  out.scales = layout.copy(text.scales);
  out.n_scales = static_cast<std::uint32_t>(text.scales.n);
  out.bm25 = text.bm25;
  return out;
}

}  // namespace hyrecall::cuda
