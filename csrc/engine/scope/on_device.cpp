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

}  // namespace

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

DeviceSearch::DeviceSearch(device::DeviceTable const& table, Snapshot const& snapshot,
                           BatchRequest const& request, Floor<float> const& floor,
                           ResolvedScopes const& scopes, QueryGroups const& groups,
                           std::span<std::uint32_t const> only)
    : table_(table),
      groups_(groups),
      programs_(snapshot, request),
      ranges_(slot_ranges(scopes, table.first_slots())),
      group_of_(groups.group_of),
      floors_(request.n_queries, floor.set ? floor.value : -std::numeric_limits<float>::infinity()),
      strict_(request.n_queries, floor.set && floor.strict),
      settings_(request.settings),
      threads_(request.threads) {
  if (!only.empty()) {
    group_of_.assign(group_of_.size(), kNone32);
    for (std::uint32_t q : only) group_of_[q] = groups.group_of[q];
  }
  auto const n_docs = static_cast<std::size_t>(snapshot.n_docs());
  depths_.assign(request.n_queries,
                 static_cast<std::uint32_t>(std::min<std::size_t>(request.depth, n_docs)));
}

device::DenseSearch DeviceSearch::batch() const {
  device::DenseSearch out{};
  out.scopes = ranges_;
  out.group_scopes = groups_.scope_of;
  out.group_filters = groups_.filter_of;
  out.group_of = group_of_;
  out.filters = programs_.filters;
  out.tests = programs_.tests;
  out.codes = programs_.codes;
  out.floors = floors_;
  out.strict = strict_;
  out.depths = depths_;
  out.settings = settings_;
  out.threads = threads_;
  return out;
}

CandidateLists DeviceSearch::run(device::DenseSearch const& batch) const {
  std::size_t const n = depths_.size();
  CandidateLists out(n);
  // Some 24 MB at most are asked for in one piece; more lists grow as they come.
  constexpr std::size_t kMostReserved = std::size_t{1} << 20;
  out.reserve(std::min<std::size_t>(kMostReserved, n == 0 ? 0 : n * depths_.front()));
  std::span<std::uint32_t const> const first_slots = table_.first_slots();
  device::search(table_, batch, [&](std::span<device::FoundRows const> all) {
    for (device::FoundRows const& found : all) out.add(found.query, found.scores.size());
    parallel_runs(all.size(), kShortRun, threads_, [&](int, std::size_t at) {
      device::FoundRows const& found = all[at];
      std::span<Candidate> const list = out.list(found.query);
      for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = {found.scores[i], found.seqs[i], doc_of_slot(first_slots, found.slots[i])};
      if (!found.is_sorted) std::sort(list.begin(), list.end());
    });
  });
  return out;
}

}  // namespace hyrecall
