#include "engine/scope/on_device.hpp"

#include <algorithm>
#include <limits>

#include "core/parallel.hpp"
#include "engine/scope/tile_program.hpp"

namespace hyrecall {
namespace {

// Every scope as slots; first_slots: [n_segments].
std::vector<SlotRanges> slot_ranges(ResolvedScopes const& scopes,
                                    std::span<std::uint32_t const> first_slots) {
  std::vector<SlotRanges> out(scopes.size());
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

// The batch's filters on every segment, as flat programs.
void add_programs(Snapshot const& snapshot, BatchRequest const& request, device::SearchArrays& to) {
  for (auto const& filter : request.filters) {
    for (auto const& view : snapshot.segments) {
      std::vector<AttributeColumn const*> columns;
      for (auto const& column : view->segment().p.attributes) columns.push_back(column.get());
      TileProgram const program =
          flatten(BoundFilter(*filter, columns, static_cast<Row>(view->segment().n_rows())));
      to.add_program(program.tests, program.codes);
    }
  }
}

}  // namespace

DeviceSearch::DeviceSearch(device::DeviceTable const& table, Snapshot const& snapshot,
                           BatchRequest const& request, Floor<float> const& floor,
                           ResolvedScopes const& scopes, QueryGroups const& groups,
                           std::span<std::uint32_t const> only)
    : table_(table) {
  add_programs(snapshot, request, arrays_);
  arrays_.scopes = slot_ranges(scopes, table.first_slots());
  arrays_.group_scopes = groups.scope_of;
  arrays_.group_filters = groups.filter_of;
  arrays_.group_of = groups.group_of;
  if (!only.empty()) {
    arrays_.group_of.assign(request.n_queries, kNone32);
    for (std::uint32_t q : only) arrays_.group_of[q] = groups.group_of[q];
  }
  arrays_.floors.assign(request.n_queries,
                        floor.set ? floor.value : -std::numeric_limits<float>::infinity());
  arrays_.strict.assign(request.n_queries, floor.set && floor.strict);
  auto const n_docs = static_cast<std::size_t>(snapshot.n_docs());
  arrays_.depths.assign(request.n_queries,
                        static_cast<std::uint32_t>(std::min<std::size_t>(request.depth, n_docs)));
  arrays_.settings = request.settings;
  arrays_.threads = request.threads;
}

void DeviceSearch::run(device::DenseSearch const& batch, QueryLists& lists,
                       ListTaker* taker) const {
  auto const n_asked =
      lists.size() - static_cast<std::size_t>(std::ranges::count(arrays_.group_of, kNone32));
  QueryLists rooms(static_cast<std::size_t>(std::max(arrays_.threads, 1)));
  std::span<std::uint32_t const> const first_slots = table_.first_slots();
  device::search(table_, batch, [&](std::span<device::FoundRows const> all) {
    bool const is_whole = taker != nullptr && all.size() == n_asked;
    std::vector<std::size_t> sizes(lists.size());
    for (device::FoundRows const& found : all) sizes[found.query] = found.scores.size();
    if (is_whole) taker->begin(sizes);
    parallel_runs(all.size(), kShortRun, arrays_.threads, [&](int worker, std::size_t at) {
      device::FoundRows const& found = all[at];
      auto& list = is_whole ? rooms[static_cast<std::size_t>(worker)] : lists[found.query];
      list.resize(found.scores.size());
      for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = {found.scores[i], found.seqs[i], doc_of_slot(first_slots, found.slots[i])};
      if (!found.is_sorted) std::sort(list.begin(), list.end());
      if (is_whole) taker->take(found.query, list);
    });
    if (is_whole) taker->has_taken = true;
  });
}

}  // namespace hyrecall
