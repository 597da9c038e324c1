// Binds segments, their views, and the snapshots that readers hold.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/held.hpp"
#include "bindings/native_run.hpp"
#include "bindings/scopes.hpp"
#include "bindings/take.hpp"
#include "engine/dense/column.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/evidence/snapshot_threads.hpp"
#include "engine/lexical/column.hpp"
#include "engine/scope/locate.hpp"
#include "engine/scope/selection.hpp"
#include "engine/segment/merge_order.hpp"
#include "engine/segment/segment.hpp"
#include "engine/segment_columns.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

py::tuple give_docs(std::vector<DocRef> const& docs) {
  std::vector<std::int32_t> segments;
  std::vector<Row> rows;
  for (DocRef const& doc : docs) {
    segments.push_back(static_cast<std::int32_t>(doc.segment));  // kNone32: -1
    rows.push_back(doc.row);
  }
  return py::make_tuple(give(std::move(segments)), give(std::move(rows)));
}

std::shared_ptr<Snapshot> make_snapshot(std::vector<std::shared_ptr<SegmentView>> const& views,
                                        std::shared_ptr<Snapshot> const& before) {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->segments = take_all(views);
  if (before != nullptr) snapshot->threads = std::make_shared<ThreadsSlot>(known_threads(*before));
  check_alike(*snapshot);
  return snapshot;
}

py::tuple find_rows(Snapshot const& snapshot, py::list const& cell_parts, py::object const& keys) {
  KeyColumn const column = take_keys(keys);
  std::vector<CellPart> const parts = take_cell_parts(cell_parts, n_keys(column));
  std::vector<DocRef> docs;
  {
    NativeRun const run;
    docs = locate_rows(snapshot, parts, column);
  }
  return give_docs(docs);
}

py::tuple find_keys(Snapshot const& snapshot, py::object const& keys, Scopes const& scopes) {
  KeyColumn const column = take_keys(keys);
  std::vector<DocRef> docs;
  {
    NativeRun const run;
    docs = locate_keys(snapshot, column, scopes.distinct(), scopes.scope_of());
  }
  return give_docs(docs);
}

py::list matching_cells(Snapshot const& snapshot,
                        std::vector<std::optional<std::string>> const& pattern) {
  Scope scope;
  {
    NativeRun const run;
    scope = match_cells(snapshot, pattern);
  }
  py::list out;
  for (std::string const& cell : scope.cells) out.append(py::bytes(cell));
  return out;
}

using GuestParts =
    std::tuple<std::size_t, std::size_t, std::shared_ptr<HeldGuest>, Array<std::uint32_t>>;

std::shared_ptr<Snapshot> place_snapshot(Snapshot const& snapshot, std::string const& folder,
                                         int ordinal, std::shared_ptr<Snapshot> const& previous,
                                         std::vector<GuestParts> const& guests, bool has_postings) {
  std::vector<GuestColumn> taken;
  for (auto const& [segment, column, guest, order] : guests) {
    require(guest != nullptr, "a tensor");
    taken.push_back({segment, column, guest->take(), span_of(order)});
  }
  auto out = std::make_shared<Snapshot>(snapshot);
  NativeRun const run;
  std::vector<std::vector<LexicalArrays>> lexical;
  for (auto const& view : snapshot.segments) {
    if (has_postings) lexical.push_back(lexical_arrays(view->segment()));
  }
  out->device = std::make_shared<DeviceSnapshot>(
      folder, ordinal, snapshot, previous == nullptr ? nullptr : previous->device.get(), taken,
      lexical);
  return out;
}

std::size_t device_bytes(Snapshot const& snapshot) {
  return snapshot.device == nullptr ? 0 : snapshot.device->bytes();
}

auto device_of(Snapshot const& snapshot) {
  return snapshot.device == nullptr ? std::nullopt : snapshot.device->place();
}

void bind_snapshot(py::module_& m) {
  py::class_<Snapshot, std::shared_ptr<Snapshot>>(
      m, "Snapshot", "All that a reader sees: the views of its segments.")
      .def(py::init(&make_snapshot),
           "Make a snapshot of views with the same columns. before: the state that it follows, "
           "whose threads need not be numbered again.",
           py::arg("views"), py::arg("before") = nullptr)
      .def_property_readonly("n_docs", &Snapshot::n_docs, "The number of live documents.")
      .def("locate_rows", &find_rows, "Return segment (-1 if missing) and row of each (cell, key).",
           py::arg("cell_parts"), py::arg("keys"))
      .def("placed", &place_snapshot,
           "Return the snapshot with its dense columns on a CUDA device, shared with `previous`. "
           "guests: (segment, column, a tensor on the device, the tensor's row of each row); takes "
           "ownership of the tensors. postings: its lexical columns are there too, and searched.",
           py::arg("folder"), py::arg("ordinal"), py::arg("previous").none(true), py::arg("guests"),
           py::arg("postings") = false)
      .def_property_readonly("device_bytes", &device_bytes,
                             "Bytes of device memory of its segments; 0 on the CPU.")
      .def_property_readonly(
          "device", &device_of,
          "(folder of the library, N of cuda:N) where its dense columns lie; None: on the CPU.")
      .def("locate_keys", &find_keys,
           "Return (segment, row) of every live document with a key in that key's scope.",
           py::arg("keys"), py::arg("scopes"))
      .def("matching", &matching_cells,
           "Return the encoded cells that have a live document and match every given part.",
           py::arg("pattern"));
}

using GivenBytes = std::tuple<std::shared_ptr<BlockChecks>, std::uintptr_t, std::size_t>;

std::vector<LateBytes> take_late(std::vector<GivenBytes> const& given) {
  std::vector<LateBytes> out;
  for (auto const& [checks, address, size] : given) {
    require(checks != nullptr, "checks of a file");
    out.push_back({checks, reinterpret_cast<void const*>(address), size});
  }
  return out;
}

std::shared_ptr<Segment> make_segment(
    Array<Seq> const& seqs, CellDirectory const& cells, py::object const& keys,
    std::vector<std::shared_ptr<LexicalColumn>> const& lexical,
    std::vector<std::shared_ptr<DenseColumn>> const& dense,
    std::vector<std::shared_ptr<AttributeColumn>> const& attributes,
    std::optional<std::size_t> thread, std::optional<std::size_t> place,
    std::vector<GivenBytes> const& late, std::vector<GivenBytes> const& late_keys,
    std::optional<Seq> next_seq) {
  Segment::Parts parts;
  parts.seqs = take_buffer<Seq>(seqs, "seqs");
  parts.cells = cells;
  KeyColumn column = take_keys(keys, !late_keys.empty());
  parts.lexical = take_all(lexical);
  parts.dense = take_all(dense);
  parts.attributes = take_all(attributes);
  if (thread) parts.threads = ThreadColumns{*thread, place};
  parts.late = take_late(late);
  if (next_seq) parts.next_seq = *next_seq;
  std::vector<LateBytes> left_of_keys = take_late(late_keys);
  NativeRun const run;
  parts.keys = KeyTable(std::move(column), parts.cells, std::move(left_of_keys));
  return std::make_shared<Segment>(std::move(parts));
}

std::size_t n_cells_of(Segment const& segment) {
  return segment.p.cells.size();
}

void check_segment(Segment const& segment) {
  NativeRun const run;
  segment.check();
}

py::array seqs_of(Segment const& segment) {
  check_segment(segment);
  return give(segment.p.seqs);
}

auto duplicate_of(Segment const& segment) {
  return segment.p.keys.duplicate(segment.p.cells);
}

py::dict bytes_of(Segment const& segment) {
  Segment::Bytes const bytes = segment.bytes();
  using py::literals::operator""_a;
  return py::dict("cells"_a = bytes.cells, "keys"_a = bytes.keys, "attributes"_a = bytes.attributes,
                  "statistics"_a = bytes.statistics);
}

std::shared_ptr<SegmentView> view_whole(std::shared_ptr<Segment> const& segment) {
  return std::make_shared<SegmentView>(segment);
}

std::size_t n_rows_of_view(SegmentView const& view) {
  return view.segment().n_rows();
}

py::array dead_rows(SegmentView const& view) {
  return give(view.dead_rows());
}

std::shared_ptr<SegmentView> view_without(SegmentView const& view, Array<Row> const& rows) {
  NativeRun const run;
  return std::make_shared<SegmentView>(view.without(span_of(rows)));
}

py::tuple order_merged(std::vector<std::shared_ptr<SegmentView>> const& held,
                       std::vector<Array<std::int64_t>> const& cluster,
                       std::optional<std::vector<std::pair<Row, Row>>> const& part) {
  auto const views = take_all(held);
  std::vector<RowRange> ranges;
  for (auto const& [begin, end] : part.value_or(std::vector<std::pair<Row, Row>>()))
    ranges.push_back({begin, end});
  std::vector<std::span<std::int64_t const>> codes;
  for (auto const& one : cluster) codes.push_back(span_of(one));
  MergeOrder order;
  {
    NativeRun const run;
    order = merge_order(views, codes, ranges);
  }
  return py::make_tuple(give(std::move(order.source)), give(std::move(order.source_row)));
}

py::tuple cuts_of_merge(std::vector<std::shared_ptr<SegmentView>> const& held,
                        std::size_t most_rows) {
  auto const views = take_all(held);
  MergeCuts cuts;
  {
    NativeRun const run;
    cuts = cut_merge(views, most_rows);
  }
  return py::make_tuple(give(std::move(cuts.begins)), cuts.n_cells);
}

}  // namespace

void bind_segment(py::module_& m) {
  py::class_<Segment, std::shared_ptr<Segment>>(
      m, "Segment", "An immutable run of documents, sorted by (cell, cluster, seq).")
      .def(
          py::init(&make_segment),
          "Make a segment of columns whose rows are in its order. thread, place: the attributes "
          "with each row's thread and its place there. late, late_keys: (checks, address, size) of "
          "each part of a file that is compared before rows, or keys, are first read; next_seq: "
          "what all seqs of such a file are below.",
          py::arg("seqs"), py::arg("cells"), py::arg("keys"), py::arg("lexical"), py::arg("dense"),
          py::arg("attributes"), py::arg("thread") = py::none(), py::arg("place") = py::none(),
          py::arg("late") = std::vector<GivenBytes>(),
          py::arg("late_keys") = std::vector<GivenBytes>(), py::arg("next_seq") = py::none())
      .def("check", &check_segment,
           "Compare what opening left of seqs, attributes, lengths and "
           "norms, unless that was done.")
      .def_property_readonly("n_rows", &Segment::n_rows, "The number of rows, dead ones included.")
      .def_property_readonly("n_cells", &n_cells_of, "The number of cells.")
      .def_property_readonly("seqs", &seqs_of, "The insertion number of each row.")
      .def_property_readonly("duplicate", &duplicate_of,
                             "The rows of a (cell, key) that occurs twice; None without one.")
      .def_property_readonly("nbytes", &bytes_of,
                             "Bytes of memory of all but text and vector columns, by part.");

  py::class_<SegmentView, std::shared_ptr<SegmentView>>(
      m, "SegmentView", "A segment, and which of its rows are deleted.")
      .def(py::init(&view_whole), "View a segment with all rows live.",
           py::arg("segment").none(false))
      .def_property_readonly("n_rows", &n_rows_of_view, "The number of rows, dead ones included.")
      .def_property_readonly("n_live", &SegmentView::n_live, "The number of live rows.")
      .def_property_readonly("n_dead", &SegmentView::n_dead, "The number of deleted rows.")
      .def("dead_rows", &dead_rows, "Return the deleted rows, rising.")
      .def("without", &view_without, "Return the view with these live, distinct rows deleted.",
           py::arg("rows"));

  py::module_ rows = m.def_submodule("rows");  // bind_rows.cpp describes it
  rows.def(
      "merge_order", &order_merged,
      "Return the live rows of several views as (view, row), in the order of one segment. part: "
      "the first row of each view that is wanted, and the one behind the last.",
      py::arg("views"), py::arg("cluster"), py::arg("part") = py::none());
  rows.def(
      "cut_merge", &cuts_of_merge,
      "Cut a merge of views between cells, into parts of so many rows; return the first row of "
      "each part in each view, one part after the other, and the number of cells.",
      py::arg("views"), py::arg("most_rows"));
  bind_snapshot(m);
}

}  // namespace hyrecall::bindings
