#include "device/shape_device.hpp"

#include <exception>

#include "core/error.hpp"
#include "device/device_library.hpp"

namespace hyrecall::device {
namespace {

// Keeps what goes wrong while results are taken: no exception passes through the library.
struct ShapeReceiver {
  TakeShaped const& take_shaped;
  std::exception_ptr error{};

  static void take(void* context, ShapeResults const& results) {
    auto& self = *static_cast<ShapeReceiver*>(context);
    try {
      self.take_shaped(results);
    } catch (...) {
      self.error = std::current_exception();
    }
  }
};

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
  ShapeReceiver receiver{take};
  cuda::ShapeParams params{};
  params.table = table.handle();
  params.stage = batch.stage;
  params.n_queries = static_cast<std::uint32_t>(batch.offsets.size() - 1);
  params.offsets = batch.offsets.data();
  params.segment = array(batch.segment);
  params.row = batch.row.data();
  params.threshold = batch.threshold;
  params.is_unit = batch.is_unit ? 1 : 0;
  params.preference = array(batch.preference);
  params.relevance_weight = batch.relevance_weight;
  params.scale = batch.scale;
  params.n_wanted = batch.n_wanted;
  params.scores = array(batch.scores);
  params.tokens = array(batch.tokens);
  params.budgets = array(batch.budgets);
  params.take = &ShapeReceiver::take;
  params.context = &receiver;
  check(require_library(table.folder(), table.ordinal()).shape_lists(&params), table.ordinal());
  if (receiver.error) std::rethrow_exception(receiver.error);
}

}  // namespace hyrecall::device
