// Binds segments, their views, and the snapshots that readers hold.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/held.hpp"
#include "bindings/native_run.hpp"
#include "bindings/scopes.hpp"
#include "bindings/take.hpp"
#include "engine/dense/column.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/lexical/column.hpp"
#include "engine/scope/locate.hpp"
#include "engine/scope/selection.hpp"
#include "engine/segment/merge_order.hpp"
#include "engine/segment/segment.hpp"

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

void bind_snapshot(py::module_& m) {
  py::class_<Snapshot, std::shared_ptr<Snapshot>>(m, "Snapshot")
      .def(py::init([](std::vector<std::shared_ptr<SegmentView>> const& views) {
             auto snapshot = std::make_shared<Snapshot>();
             snapshot->segments = take_all(views);
             check_alike(*snapshot);
             return snapshot;
           }),
           py::arg("views"))
      .def_property_readonly("n_docs", &Snapshot::n_docs)
      .def(
          "locate_rows",
          [](Snapshot const& snapshot, py::list const& cell_parts, py::object const& keys) {
            KeyColumn const column = take_keys(keys);
            std::vector<CellPart> const parts = take_cell_parts(cell_parts, n_keys(column));
            std::vector<DocRef> docs;
            {
              NativeRun const run;
              docs = locate_rows(snapshot, parts, column);
            }
            return give_docs(docs);
          },
          "Return segment (-1 if missing) and row of each (cell, key).", py::arg("cell_parts"),
          py::arg("keys"))
      .def(
          "placed",
          [](Snapshot const& snapshot, std::string const& folder, int ordinal,
             std::shared_ptr<Snapshot> const& previous,
             std::vector<std::tuple<std::size_t, std::size_t, std::shared_ptr<HeldGuest>,
                                    Array<std::uint32_t>>> const& guests) {
            std::vector<GuestColumn> taken;
            for (auto const& [segment, column, guest, order] : guests) {
              require(guest != nullptr, "a tensor");
              taken.push_back({segment, column, guest->take(), span_of(order)});
            }
            auto out = std::make_shared<Snapshot>(snapshot);
            NativeRun const run;
            out->device = std::make_shared<DeviceSnapshot>(
                folder, ordinal, snapshot, previous == nullptr ? nullptr : previous->device.get(),
                taken);
            return out;
          },
          "Return the snapshot with its dense columns on a CUDA device, shared with `previous`. "
          "guests: (segment, column, a tensor on the device, the tensor's row of each row); takes "
          "ownership of the tensors.",
          py::arg("folder"), py::arg("ordinal"), py::arg("previous").none(true), py::arg("guests"))
      .def_property_readonly(
          "device_bytes",
          [](Snapshot const& snapshot) {
            return snapshot.device == nullptr ? 0 : snapshot.device->bytes();
          },
          "Bytes of device memory of its segments; 0 on the CPU.")
      .def_property_readonly(
          "device",
          [](Snapshot const& snapshot) {
            return snapshot.device == nullptr ? std::nullopt : snapshot.device->place();
          },
          "(folder of the library, N of cuda:N) where its dense columns lie; None: on the CPU.")
      .def(
          "locate_keys",
          [](Snapshot const& snapshot, py::object const& keys, Scopes const& scopes) {
            KeyColumn const column = take_keys(keys);
            std::vector<DocRef> docs;
            {
              NativeRun const run;
              docs = locate_keys(snapshot, column, scopes.distinct(), scopes.scope_of());
            }
            return give_docs(docs);
          },
          "Return (segment, row) of every live document with a key in that key's scope.",
          py::arg("keys"), py::arg("scopes"))
      .def(
          "matching",
          [](Snapshot const& snapshot, std::vector<std::optional<std::string>> const& pattern) {
            Scope scope;
            {
              NativeRun const run;
              scope = match_cells(snapshot, pattern);
            }
            py::list out;
            for (std::string const& cell : scope.cells) out.append(py::bytes(cell));
            return out;
          },
          "Return the encoded cells that have a live document and match every given part.",
          py::arg("pattern"));
}

}  // namespace

void bind_segment(py::module_& m) {
  py::class_<Segment, std::shared_ptr<Segment>>(m, "Segment")
      .def(py::init([](Array<Seq> const& seqs, CellDirectory const& cells, py::object const& keys,
                       std::vector<std::shared_ptr<LexicalColumn>> const& lexical,
                       std::vector<std::shared_ptr<DenseColumn>> const& dense,
                       std::vector<std::shared_ptr<AttributeColumn>> const& attributes) {
             Segment::Parts parts;
             parts.seqs = take_buffer<Seq>(seqs, "seqs");
             parts.cells = cells;
             KeyColumn column = take_keys(keys);
             parts.lexical = take_all(lexical);
             parts.dense = take_all(dense);
             parts.attributes = take_all(attributes);
             NativeRun const run;
             parts.keys = KeyTable(std::move(column), parts.cells);
             return std::make_shared<Segment>(std::move(parts));
           }),
           py::arg("seqs"), py::arg("cells"), py::arg("keys"), py::arg("lexical"), py::arg("dense"),
           py::arg("attributes"))
      .def_property_readonly("n_rows", &Segment::n_rows)
      .def_property_readonly("n_cells", [](Segment const& s) { return s.p.cells.size(); })
      .def_property_readonly("seqs", [](Segment const& s) { return give(s.p.seqs); })
      .def_property_readonly("duplicate", [](Segment const& s) { return s.p.keys.duplicate(); })
      .def_property_readonly("nbytes", [](Segment const& s) {
        py::dict out;
        out["cells"] = s.p.cells.bytes();
        out["keys"] = s.p.keys.bytes();
        std::size_t attributes = 0;
        for (auto const& column : s.p.attributes) attributes += column->bytes();
        out["attributes"] = attributes;
        std::size_t statistics = 0;
        for (auto const& cells : s.text_statistics)
          statistics += cells.size() * sizeof(CellTextStatistics);
        out["statistics"] = statistics;
        return out;
      });

  py::class_<SegmentView, std::shared_ptr<SegmentView>>(m, "SegmentView")
      .def(py::init([](std::shared_ptr<Segment> const& segment) {
             return std::make_shared<SegmentView>(segment);
           }),
           py::arg("segment").none(false))
      .def_property_readonly("n_rows", [](SegmentView const& v) { return v.segment().n_rows(); })
      .def_property_readonly("n_live", &SegmentView::n_live)
      .def_property_readonly("n_dead", &SegmentView::n_dead)
      .def("dead_rows", [](SegmentView const& v) { return give(v.dead_rows()); })
      .def(
          "without",
          [](SegmentView const& view, Array<Row> const& rows) {
            NativeRun const run;
            return std::make_shared<SegmentView>(view.without(span_of(rows)));
          },
          "Return the view with these live, distinct rows deleted.", py::arg("rows"));

  m.def(
      "merge_order",
      [](std::vector<std::shared_ptr<SegmentView>> const& held,
         std::vector<Array<std::int64_t>> const& cluster) {
        auto const views = take_all(held);
        std::vector<std::span<std::int64_t const>> codes;
        for (auto const& one : cluster) codes.push_back(span_of(one));
        MergeOrder order;
        {
          NativeRun const run;
          order = merge_order(views, codes);
        }
        return py::make_tuple(give(std::move(order.source)), give(std::move(order.source_row)));
      },
      "Return the live rows of several views as (view, row), in the order of one segment.",
      py::arg("views"), py::arg("cluster"));
  bind_snapshot(m);
}

}  // namespace hyrecall::bindings
