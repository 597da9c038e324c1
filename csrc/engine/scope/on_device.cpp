#include "engine/scope/on_device.hpp"

#include <algorithm>

#include "engine/scope/tile_program.hpp"

namespace hyrecall {

DevicePrograms::DevicePrograms(Snapshot const& snapshot, BatchRequest const& request) {
  for (auto const& filter : request.filters) {
    for (auto const& view : snapshot.segments) {
      std::vector<AttributeColumn const*> columns;
      for (auto const& column : view->segment().p.attributes) columns.push_back(column.get());
      TileProgram const program =
          flatten(BoundFilter(*filter, columns, static_cast<Row>(view->segment().n_rows())));
      filters.push_back({static_cast<std::uint32_t>(tests.size()),
                         static_cast<std::uint32_t>(program.tests.size())});
      auto const first_code = static_cast<std::int64_t>(codes.size());
      for (TileTest test : program.tests) {
        if (test.kind == TileTestKind::kAnyOf) test.low += first_code;
        tests.push_back(test);
      }
      codes.insert(codes.end(), program.codes.begin(), program.codes.end());
    }
  }
}

std::vector<std::vector<SlotRange>> slot_ranges(ResolvedScopes const& scopes,
                                                std::span<std::uint32_t const> first_slots) {
  std::vector<std::vector<SlotRange>> out(scopes.size());
  for (std::size_t scope = 0; scope < scopes.size(); ++scope) {
    for (std::size_t s = 0; s < first_slots.size(); ++s) {
      for (RowRange const& rows : scopes[scope][s].ranges) {
        if (rows.begin < rows.end)
          out[scope].push_back({first_slots[s] + rows.begin, first_slots[s] + rows.end});
      }
    }
  }
  return out;
}

DocRef doc_of_slot(std::span<std::uint32_t const> first_slots, std::uint32_t slot) {
  auto const after = std::upper_bound(first_slots.begin(), first_slots.end(), slot);
  auto const s = static_cast<std::uint32_t>(after - first_slots.begin() - 1);
  return {s, slot - first_slots[s]};
}

}  // namespace hyrecall
