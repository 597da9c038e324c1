#include "device/device_guest.hpp"

#include "device/device_library.hpp"

namespace hyrecall::device {

Gate::Gate(std::string const& folder, int ordinal)
    : folder_(folder),
      ordinal_(ordinal),
      handle_(make_handle(folder, ordinal, [&](cuda::Api const& api, cuda::Object** out) {
        return api.create_gate(ordinal, out, &stream_);
      })) {}

void read(GuestRows const& wanted) {
  Gate const& gate = *wanted.guest->gate;
  cuda::ReadParams const params{gate.ordinal(),
                                static_cast<std::uint32_t>(wanted.rows.size()),
                                {gate.handle(), wanted.guest->tensor, wanted.rows.data(),
                                 wanted.values.data(), wanted.readings.data()}};
  check(require_library(gate.folder(), gate.ordinal()).read_guest(&params), gate.ordinal());
}

}  // namespace hyrecall::device
