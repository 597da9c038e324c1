// The stages that compare the vectors of a batch's lists, on a device.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "device/device_segment.hpp"
#include "kernels/shared/shape_job.hpp"

namespace hyrecall::device {

// Lists and what a stage does with them, as ShapeJob has them; what the other stage needs is empty.
struct ShapeBatch {
  ShapeStage stage;
  std::span<std::uint32_t const> offsets;  // [n_queries + 1] lists of at most kMostShaped
  std::span<std::uint32_t const> segment;  // [n_entries]
  std::span<std::uint32_t const> row;      // [n_entries]
  double threshold = 0.0;
  bool is_unit = false;
  std::span<std::int64_t const> preference{};
  double relevance_weight = 0.0;
  RelevanceScale scale = RelevanceScale::kRaw;
  std::uint32_t n_wanted = 0;
  std::span<double const> scores{};
  std::span<std::int64_t const> tokens{};
  std::span<std::int64_t const> budgets{};
};

// Where results lie is the library's again once they have been taken.
using TakeShaped = std::function<void(ShapeResults const& results)>;

// Runs the stage on the lists of all queries; rows are those of a dense column's table. Any number
// of threads at once. Throws kDeviceMemory for a batch that does not fit; the next call works.
void shape_lists(DeviceTable const& table, ShapeBatch const& batch, TakeShaped const& take);

}  // namespace hyrecall::device
