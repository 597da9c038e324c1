// The seam to libhyrecall_cuda, on a machine without the library or a driver.
#include <string>

#include "core/error.hpp"
#include "device/device.hpp"
#include "kernels/shared/abi.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

TEST(device_report_names_a_missing_library) {
  device::Report const report = device::describe("/nowhere");
  CHECK(!report.has_library);
  CHECK(report.devices.empty());
  CHECK(report.problem.find("libhyrecall_cuda.so could not be loaded") == 0);
  CHECK(report.problem.find("/nowhere") != std::string::npos);
}

TEST(device_report_refuses_a_library_of_another_build) {
  device::Report const report = device::describe(HYRECALL_WRONG_ABI_FOLDER);
  CHECK(!report.has_library);
  CHECK_EQ(report.problem, "libhyrecall_cuda.so has interface version 999, expected " +
                               std::to_string(cuda::kAbiVersion) + ": it belongs to another build");
}

TEST(device_call_names_the_device_that_is_not_there) {
  bool refused = false;
  try {
    device::formulas("/nowhere", 3, ArithmeticOp::kLog, std::vector<double>(kMaxArity, 1.0));
  } catch (Error const& error) {
    refused =
        error.code() == ErrorCode::kDeviceUnavailable && error.argument() == "device" &&
        std::string(error.what()).find("got cuda:3: libhyrecall_cuda.so") != std::string::npos;
  }
  CHECK(refused);
}

}  // namespace
}  // namespace hyrecall::testing
