// The stages that compare the vectors of a batch's lists, on a device.
#pragma once

#include <functional>

#include "device/device_segment.hpp"
#include "kernels/shared/shape_job.hpp"

namespace hyrecall::device {

// Where results lie is the library's again once they have been taken.
using TakeShaped = std::function<void(ShapeResults const& results)>;

// Runs the stage on the lists of all queries; rows are those of a dense column's table. Any number
// of threads at once. Throws kDeviceMemory for a batch that does not fit; the next call works.
void shape_lists(DeviceTable const& table, ShapeBatch const& batch, TakeShaped const& take);

}  // namespace hyrecall::device
