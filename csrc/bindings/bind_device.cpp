// Binds the list of CUDA devices, and the golden arithmetic on a device.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/take.hpp"
#include "device/dense_device.hpp"
#include "device/device.hpp"
#include "engine/dense/column.hpp"
#include "kernels/shared/dense_batch.hpp"
#include "kernels/shared/tile_filter.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

py::dict describe(std::string const& folder) {
  device::Report report;
  {
    WithoutGil const nogil;
    report = device::describe(folder);
  }
  py::list devices;
  for (device::Device const& found : report.devices) {
    devices.append(py::make_tuple(found.name, found.major, found.minor, found.memory_bytes,
                                  found.n_multiprocessors));
  }
  py::dict out;
  out["has_library"] = report.has_library;
  out["driver_version"] = report.driver_version;
  out["runtime_version"] = report.runtime_version;
  out["devices"] = devices;
  // It may quote a folder's name, which may hold any bytes.
  out["problem"] = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
      report.problem.data(), static_cast<Py_ssize_t>(report.problem.size()), "backslashreplace"));
  return out;
}

py::array formulas(std::string const& folder, int ordinal, std::string const& op,
                   Array<double> const& arguments) {
  if (arguments.ndim() != 2 || arguments.shape(1) != kMaxArity) {
    throw Error(ErrorCode::kShape, "arguments",
                "expected shape (n, " + std::to_string(kMaxArity) + ")");
  }
  ArithmeticOp const taken = take_op(op);
  std::vector<double> results;
  {
    WithoutGil const nogil;
    results = device::formulas(folder, ordinal, taken, span_of(arguments));
  }
  return give(std::move(results));
}

py::tuple dots_on_device(std::string const& folder, int ordinal, Array<float> const& query,
                         Array<float> const& rows) {
  if (rows.ndim() != 2 || query.ndim() != 1 || query.size() != rows.shape(1)) {
    throw Error(ErrorCode::kShape, "rows", "expected shape (n, len(query))");
  }
  device::Dots found;
  {
    WithoutGil const nogil;
    found = device::dots(folder, ordinal, span_of(query), span_of(rows));
  }
  return py::make_tuple(give(std::move(found.dots)), give(std::move(found.inverse_norms)));
}

// rows: [n_rows, dim] float32, or 16-bit patterns of `dtype`; every row has a vector.
py::array first_scores(std::string const& folder, int ordinal, Array<float> const& queries,
                       py::array const& rows, std::string const& dtype) {
  RowType const type = dtype == "float32"   ? RowType::kFloat32
                       : dtype == "float16" ? RowType::kFloat16
                                            : RowType::kBFloat16;
  if (rows.ndim() != 2 || queries.ndim() != 2 || queries.shape(1) != rows.shape(1) ||
      (rows.flags() & py::array::c_style) == 0 ||
      static_cast<std::size_t>(rows.itemsize()) != item_bytes(type)) {
    throw Error(ErrorCode::kShape, "rows", "expected C-contiguous (n, dim) of " + dtype);
  }
  auto const n_rows = static_cast<std::size_t>(rows.shape(0));
  auto const dim = static_cast<std::uint32_t>(rows.shape(1));
  auto const* const bytes = static_cast<std::uint8_t const*>(rows.data());
  Settings const settings = read_settings();
  std::vector<float> found;
  {
    WithoutGil const nogil;
    std::vector<std::uint32_t> order(n_rows);
    std::iota(order.begin(), order.end(), 0u);
    MatrixChunk const chunk{
        std::vector<std::uint8_t>(bytes, bytes + n_rows * dim * item_bytes(type)), n_rows};
    auto const column = DenseColumn::build("rows", static_cast<DType>(type), dim,
                                           std::span(&chunk, 1), {}, order, 1, settings.first_pass);
    found = device::first_scores(folder, ordinal,
                                 {type, dim, column->rows.data(), column->inverse_norms.data()},
                                 n_rows, span_of(queries), settings);
  }
  return give(std::move(found));
}

std::vector<std::string> scans(std::string const& folder, int ordinal) {
  KernelChoice const kernels = read_settings().kernels;
  WithoutGil const nogil;
  return device::scans(folder, ordinal, kernels);
}

std::vector<std::tuple<std::string, std::uint64_t, double>> kernel_times() {
  std::vector<std::tuple<std::string, std::uint64_t, double>> out;
  for (device::KernelTotal& one : device::take_kernel_times())
    out.emplace_back(std::move(one.name), one.n_launches, one.milliseconds);
  return out;
}

}  // namespace

void bind_device(py::module_& parent) {
  py::module_ m = parent.def_submodule("device", "CUDA devices, through libhyrecall_cuda.so.");
  m.attr("MAX_ARITY") = kMaxArity;
  py::dict state_bytes;
  state_bytes["group"] = sizeof(DenseGroup);
  state_bytes["range"] = sizeof(SlotRange);
  state_bytes["run"] = sizeof(TileRun);
  state_bytes["test"] = sizeof(TileTest);
  state_bytes["filter"] = sizeof(SegmentFilter);
  m.attr("STATE_BYTES") = state_bytes;
  py::dict max_dims;
  max_dims["float32"] = device::max_device_dim(RowType::kFloat32);
  max_dims["float16"] = device::max_device_dim(RowType::kFloat16);
  max_dims["bfloat16"] = device::max_device_dim(RowType::kBFloat16);
  m.attr("MAX_DIMS") = max_dims;
  m.def("describe", &describe, py::arg("folder"),
        "has_library, driver_version, runtime_version, devices, problem; never raises.");
  m.def("formulas", &formulas, py::arg("folder"), py::arg("ordinal"), py::arg("op"),
        py::arg("arguments"), "A formula of the golden table on a device: float64 (n,).");
  m.def("dots", &dots_on_device, py::arg("folder"), py::arg("ordinal"), py::arg("query"),
        py::arg("rows"), "Canonical dots and inverse norms of float32 rows on a device.");
  m.def("first_scores", &first_scores, py::arg("folder"), py::arg("ordinal"), py::arg("queries"),
        py::arg("rows"), py::arg("dtype"),
        "Return a device's first-pass scores of all rows, query by query: float32 (n,).");
  m.def("scans", &scans, py::arg("folder"), py::arg("ordinal"),
        "Return the scan kernels allowed by HYRECALL_CUDA_KERNELS, as PLANE:WIDTH:ARCH.");
  m.def(
      "kernel_times", &kernel_times,
      "Return (kernel, launches, ms) of searches with HYRECALL_CUDA_TIMES=1 since the last call.");
}

}  // namespace hyrecall::bindings
