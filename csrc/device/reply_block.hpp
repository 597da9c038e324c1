// The arrays of a reply in one block of a device's memory, which tensors of other libraries share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"

namespace hyrecall::device {

// An array of the host in bytes.
using ByteSpan = std::span<std::uint8_t const>;

class ReplyBlock {
 public:
  // The arrays are read before it returns, and are on the device once a stream has waited for them.
  // Throws kDeviceUnavailable or kDeviceMemory, naming cuda:N.
  ReplyBlock(std::string const& folder, int ordinal, std::span<ByteSpan const> arrays);

  int ordinal() const { return ordinal_; }
  void* at(std::size_t array) const { return static_cast<std::uint8_t*>(data_) + begins_[array]; }

  // What comes on the stream from now on finds the arrays; as __dlpack__ takes it. Throws as the
  // constructor.
  void let_wait(std::uint64_t stream) const;

 private:
  std::string folder_;
  int ordinal_;
  std::vector<std::uint64_t> begins_;  // [n_arrays]
  void* data_ = nullptr;
  Handle handle_;
};

}  // namespace hyrecall::device
