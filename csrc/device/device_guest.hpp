// Tensors of other libraries that lie on a CUDA device, read there without a way through the host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "kernels/shared/guest_tensor.hpp"

namespace hyrecall::device {

// A stream of ours on which a tensor's producer says from when on it may be read: it lets the
// stream wait for its own. Of one tensor at a time.
class Gate {
 public:
  // Throws kDeviceUnavailable or kDeviceMemory, naming cuda:N.
  Gate(std::string const& folder, int ordinal);

  int ordinal() const { return ordinal_; }
  std::uint64_t stream() const { return stream_; }  // as __dlpack__ takes it
  cuda::Object* handle() const { return handle_.get(); }
  std::string const& folder() const { return folder_; }

 private:
  std::string folder_;
  int ordinal_;
  std::uint64_t stream_ = 0;
  Handle handle_;
};

struct Guest {
  GuestTensor tensor;
  std::shared_ptr<void const> owner;  // of the tensor's memory
  std::shared_ptr<Gate const> gate;
};

// Rows of a guest, and where they go on the host once they have been read.
struct GuestRows {
  Guest const* guest = nullptr;
  std::span<std::uint32_t const> rows;  // [n]
  std::span<float* const> values;       // [n] each has room for [dim]
  std::span<GuestReading> readings;     // [n]
};

// Waits for the rows. Throws as the constructor of Gate.
void read(GuestRows const& wanted);

}  // namespace hyrecall::device
