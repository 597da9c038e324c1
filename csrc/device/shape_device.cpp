#include "device/shape_device.hpp"

#include "core/error.hpp"
#include "device/device_library.hpp"

namespace hyrecall::device {
namespace {

void check_shape_batch(DeviceTable const& table, ShapeBatch const& batch) {
  std::size_t const n = batch.segment.size();
  require(!table.is_lexical(), "a dense column");
  require(!batch.offsets.empty() && batch.offsets.front() == 0 && batch.offsets.back() == n,
          "lists one after another");
  for (std::size_t q = 0; q + 1 < batch.offsets.size(); ++q) {
    require(batch.offsets[q] <= batch.offsets[q + 1] &&
                batch.offsets[q + 1] - batch.offsets[q] <= kMostShaped,
            "lists that a device shapes");
  }
  bool const fits =
      batch.row.size() == n && batch.scores.size() == (batch.stage == ShapeStage::kMmr ? n : 0) &&
      (batch.preference.empty() || batch.preference.size() == n) &&
      (batch.tokens.empty() ||
       (batch.tokens.size() == n && batch.budgets.size() + 1 == batch.offsets.size()));
  require(fits, "arrays of lists that fit each other");
  for (std::uint32_t const segment : batch.segment)
    require(segment < table.first_slots().size(), "segments of the table");
}

}  // namespace

void shape_lists(DeviceTable const& table, ShapeBatch const& batch, TakeShaped const& take) {
  check_shape_batch(table, batch);
  cuda::ShapeParams params{table.handle(), batch, nullptr, nullptr};
  call_taking(require_library(table.folder(), table.ordinal()), table.ordinal(),
              &cuda::Api::shape_lists, params, take);
}

}  // namespace hyrecall::device
