#include "engine/shaping/on_device.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "device/shape_device.hpp"
#include "engine/dense/on_device.hpp"

namespace hyrecall {
namespace {

// Entries of all lists, and what all queries may choose: some 200 MB at most.
constexpr std::size_t kMostShapedEntries = std::size_t{1} << 22;

bool are_for_device(Snapshot const& snapshot, FusedListsView const& lists) {
  if (snapshot.device == nullptr || lists.scores.empty() ||
      lists.scores.size() > kMostShapedEntries)
    return false;
  for (std::size_t q = 0; q < lists.n_queries(); ++q)
    if (lists.offsets[q + 1] - lists.offsets[q] > std::int64_t{kMostShaped}) return false;
  return true;
}

std::vector<std::uint32_t> narrow_offsets(FusedListsView const& lists) {
  return {lists.offsets.begin(), lists.offsets.end()};
}

// Whether the stage ran.
bool ran_on_device(device::DeviceTable const& table, ShapeBatch const& batch,
                   device::TakeShaped const& take) {
  try {
    device::shape_lists(table, batch, take);
  } catch (Error const& error) {
    if (error.code() != ErrorCode::kDeviceMemory) throw;
    return false;
  }
  return true;
}

}  // namespace

std::optional<Deduped> dedup_on_device(Snapshot const& snapshot, FusedListsView const& lists,
                                       DedupParams const& params) {
  if (!are_for_device(snapshot, lists)) return std::nullopt;
  std::vector<std::uint32_t> const offsets = narrow_offsets(lists);
  ShapeBatch batch{ShapeStage::kDedup, offsets, lists.segment, lists.row};
  batch.threshold = params.threshold;
  batch.is_unit = params.unit;
  batch.preference = params.preference;
  Deduped out;
  auto const take = [&](ShapeResults const& results) {
    out.kept_for.reserve(lists.scores.size());
    for (std::size_t q = 0; q < lists.n_queries(); ++q) {
      for (std::size_t entry = offsets[q]; entry < offsets[q + 1]; ++entry) {
        out.kept_for.push_back(lists.offsets[q] + results.kept_for[entry]);
        if (results.n_alike[entry] == 0) continue;
        out.kept.entries.push_back(static_cast<std::int64_t>(entry));
        out.duplicates.push_back(std::int64_t{results.n_alike[entry]} - 1);
      }
      out.kept.offsets.push_back(static_cast<std::int64_t>(out.kept.entries.size()));
    }
  };
  if (!ran_on_device(snapshot.device->dense_table(params.column), batch, take)) return std::nullopt;
  return out;
}

std::optional<Diversified> diversify_on_device(Snapshot const& snapshot,
                                               FusedListsView const& lists,
                                               DiversifyParams const& params) {
  if (!params.use_vectors || !are_for_device(snapshot, lists)) return std::nullopt;
  std::vector<std::uint32_t> const offsets = narrow_offsets(lists);
  std::size_t longest = 0;
  for (std::size_t q = 0; q < lists.n_queries(); ++q)
    longest = std::max<std::size_t>(longest, offsets[q + 1] - offsets[q]);
  std::size_t const n_wanted = std::min(params.n_wanted, longest);
  if (n_wanted * lists.n_queries() > kMostShapedEntries) return std::nullopt;
  ShapeBatch batch{ShapeStage::kMmr, offsets, lists.segment, lists.row};
  batch.relevance_weight = params.relevance_weight;
  batch.scale = params.scale;
  batch.n_wanted = static_cast<std::uint32_t>(n_wanted);
  batch.scores = lists.scores;
  batch.tokens = params.tokens;
  batch.budgets = params.budgets;
  Diversified out;
  auto const take = [&](ShapeResults const& results) {
    for (std::size_t q = 0; q < lists.n_queries(); ++q) {
      std::int64_t const begin = lists.offsets[q];
      std::size_t const end = q * n_wanted + results.counts[q];
      for (std::size_t i = q * n_wanted; i < end; ++i) {
        std::uint32_t const nearest = results.nearest[i];
        out.chosen.entries.push_back(begin + results.chosen[i]);
        out.value.push_back(results.values[i]);
        out.relevance.push_back(results.relevances[i]);
        out.similarity.push_back(results.similarities[i]);
        out.nearest.push_back(nearest == kNone32 ? -1 : begin + nearest);
      }
      out.chosen.offsets.push_back(static_cast<std::int64_t>(out.chosen.entries.size()));
    }
  };
  if (!ran_on_device(snapshot.device->dense_table(params.column), batch, take)) return std::nullopt;
  return out;
}

}  // namespace hyrecall
