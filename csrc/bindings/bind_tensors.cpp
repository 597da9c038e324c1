// Binds the arrays of a reply as tensors on a CUDA device, exported by DLPack:
// https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/dlpack.hpp"
#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "device/reply_block.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

constexpr std::uint64_t kLegacyStream = 1;  // what a consumer that names none is taken to use

// One array of a block.
struct DeviceTensor {
  std::shared_ptr<device::ReplyBlock const> block;
  void* data;
  std::int64_t n;
  py::dtype type;
  std::uint8_t type_code;
};

std::uint8_t type_code_of(py::dtype const& type) {
  if (type.kind() == 'b') return kDlBool;
  return type.kind() == 'f' ? kDlFloat : kDlInt;
}

// arrays: one axis of numbers each, C-contiguous.
std::vector<DeviceTensor> give_tensors(std::string const& folder, int ordinal,
                                       std::vector<py::array> const& arrays) {
  std::vector<device::ByteSpan> bytes;
  for (py::array const& array : arrays) {
    char const kind = array.dtype().kind();
    if (array.ndim() != 1 || (array.flags() & py::array::c_style) == 0 ||
        (kind != 'i' && kind != 'f' && kind != 'b')) {
      throw Error(ErrorCode::kShape, "arrays", "expected C-contiguous numbers on one axis");
    }
    bytes.emplace_back(static_cast<std::uint8_t const*>(array.data()),
                       static_cast<std::size_t>(array.nbytes()));
  }
  std::shared_ptr<device::ReplyBlock const> block;
  {
    WithoutGil const nogil;
    block = std::make_shared<device::ReplyBlock>(folder, ordinal, bytes);
  }
  std::vector<DeviceTensor> out;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    py::dtype const type = arrays[i].dtype();
    out.push_back({block, block->at(i), arrays[i].size(), type, type_code_of(type)});
  }
  return out;
}

// What a capsule holds: it needs neither Python nor the index, so its deleter may run anywhere.
struct ExportedTensor {
  DlManaged managed{};
  std::int64_t shape = 0;
  std::int64_t stride = 1;
  std::shared_ptr<device::ReplyBlock const> block;

  static void end(DlManaged* managed) { delete static_cast<ExportedTensor*>(managed->context); }
};

void end_of_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kDlCapsule) == 0) return;  // somebody took it
  ExportedTensor::end(static_cast<DlManaged*>(PyCapsule_GetPointer(capsule, kDlCapsule)));
}

// The stream that a consumer names; -1: it waits for nothing.
std::int64_t stream_of(py::object const& given) {
  if (given.is_none()) return kLegacyStream;
  std::int64_t stream = 0;
  if (py::isinstance<py::int_>(given) && !py::isinstance<py::bool_>(given))
    stream = given.cast<std::int64_t>();
  if (stream == 0 || stream < -1) {
    throw Error(ErrorCode::kOption, "stream",
                "expected a CUDA stream's handle, 1, 2, -1 or None, got " +
                    py::repr(given).cast<std::string>());
  }
  return stream;
}

py::tuple place_of(DeviceTensor const& tensor) {
  return py::make_tuple(kDlCuda, tensor.block->ordinal());
}

py::object export_tensor(DeviceTensor const& tensor, py::object const& stream,
                         py::object const& max_version, py::object const& dl_device,
                         py::object const& copy) {
  static_cast<void>(max_version);  // the form without a version, which every consumer knows
  if (!dl_device.is_none() && !dl_device.equal(place_of(tensor))) {
    throw py::buffer_error("dl_device: expected " + py::repr(place_of(tensor)).cast<std::string>() +
                           ", where the tensor lies, got " +
                           py::repr(dl_device).cast<std::string>());
  }
  if (!copy.is_none() && copy.cast<bool>())
    throw py::buffer_error("copy: expected False or None, got True");
  std::int64_t const waiting = stream_of(stream);
  if (waiting != -1) {
    WithoutGil const nogil;
    tensor.block->let_wait(static_cast<std::uint64_t>(waiting));
  }
  auto made = std::make_unique<ExportedTensor>();
  made->shape = tensor.n;
  made->block = tensor.block;
  made->managed.tensor = {tensor.data,
                          kDlCuda,
                          tensor.block->ordinal(),
                          1,
                          tensor.type_code,
                          static_cast<std::uint8_t>(8 * tensor.type.itemsize()),
                          1,
                          &made->shape,
                          &made->stride,
                          0};
  made->managed.context = made.get();
  made->managed.deleter = &ExportedTensor::end;
  PyObject* const capsule = PyCapsule_New(&made->managed, kDlCapsule, &end_of_capsule);
  if (capsule == nullptr) throw py::error_already_set();
  made.release();
  return py::reinterpret_steal<py::object>(capsule);
}

std::string show_tensor(DeviceTensor const& tensor) {
  return "<DeviceTensor: " + std::to_string(tensor.n) + " x " +
         py::str(tensor.type).cast<std::string>() +
         " on cuda:" + std::to_string(tensor.block->ordinal()) + ">";
}

}  // namespace

void bind_tensors(py::module_& parent) {
  py::module_ m = parent.attr("device");
  py::class_<DeviceTensor>(m, "DeviceTensor", "An array of a reply on a CUDA device.")
      .def("__dlpack__", &export_tensor,
           "Export it; the given stream waits until it can be read, and the caller does not.",
           py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
           py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", &place_of, "Return (2, N) of cuda:N.")
      .def_property_readonly(
          "shape", [](DeviceTensor const& tensor) { return py::make_tuple(tensor.n); }, "(n,).")
      .def_readonly("dtype", &DeviceTensor::type, "The type of its numbers.")
      .def(
          "__len__", [](DeviceTensor const& tensor) { return tensor.n; }, "Return n.")
      .def("__repr__", &show_tensor, "Show length, type and device.");
  m.def("give_tensors", &give_tensors, py::arg("folder"), py::arg("ordinal"), py::arg("arrays"),
        "Copy arrays to a device, in one block that their tensors share.");
}

}  // namespace hyrecall::bindings
