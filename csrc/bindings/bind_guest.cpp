// Binds tensors of other libraries on a CUDA device, imported by DLPack.
#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "bindings/bind.hpp"
#include "bindings/dlpack.hpp"
#include "bindings/gil.hpp"
#include "bindings/held.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

std::optional<GuestType> type_of(DlTensor const& from) {
  if (from.type_lanes != 1) return std::nullopt;
  if (from.type_code == kDlBfloat && from.type_bits == 16) return GuestType::kBFloat16;
  if (from.type_code != kDlFloat) return std::nullopt;
  if (from.type_bits == 16) return GuestType::kFloat16;
  if (from.type_bits == 32) return GuestType::kFloat32;
  if (from.type_bits == 64) return GuestType::kFloat64;
  return std::nullopt;
}

// A matrix of floats on the device, in the kernels' format.
std::optional<GuestTensor> matrix_of(DlTensor const& from, int ordinal) {
  std::optional<GuestType> const type = type_of(from);
  bool const is_matrix = type && from.device_type == kDlCuda && from.device_id == ordinal &&
                         from.n_axes == 2 && from.shape[0] >= 1 &&
                         from.shape[0] < std::int64_t{1} << 31 && from.shape[1] >= 1 &&
                         from.shape[1] < std::int64_t{1} << 31;
  if (!is_matrix) return std::nullopt;
  auto const address = reinterpret_cast<std::uintptr_t>(from.data) + from.byte_offset;
  if (address == 0 || address % (from.type_bits / 8) != 0) return std::nullopt;
  bool const is_plain = from.strides == nullptr;
  return GuestTensor{reinterpret_cast<void const*>(address),
                     is_plain ? from.shape[1] : from.strides[0],
                     is_plain ? 1 : from.strides[1],
                     static_cast<std::uint32_t>(from.shape[0]),
                     static_cast<std::uint32_t>(from.shape[1]),
                     *type};
}

// Takes over a tensor that is a matrix of `dim` columns on the gate's device. Any other tensor
// stays in the capsule, and the result is empty.
std::shared_ptr<HeldGuest> take(std::shared_ptr<device::Gate> gate, py::object const& capsule,
                                std::uint32_t dim) {
  if (PyCapsule_IsValid(capsule.ptr(), kDlCapsule) == 0) return nullptr;
  auto* const held = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), kDlCapsule));
  std::optional<GuestTensor> const tensor = matrix_of(held->tensor, gate->ordinal());
  if (!tensor || tensor->dim != dim) return nullptr;
  // The producer may be Python code, so any thread must release the tensor with the GIL.
  std::shared_ptr<void const> owner(held, [](DlManaged* managed) {
    call_python([managed] {
      if (managed->deleter != nullptr) managed->deleter(managed);
    });
  });
  if (PyCapsule_SetName(capsule.ptr(), kUsedDlCapsule) != 0) throw py::error_already_set();
  return std::make_shared<HeldGuest>(
      HeldGuest{device::Guest{*tensor, std::move(owner), std::move(gate)}});
}

std::uint32_t n_rows_of_guest(HeldGuest const& held) {
  return held.guest.tensor.n_rows;
}

}  // namespace

void bind_guest(py::module_& m) {
  py::class_<device::Gate, std::shared_ptr<device::Gate>>(
      m, "Gate", "A stream that a tensor's producer makes wait until the tensor can be read.")
      .def(py::init<std::string const&, int>(), "Open a stream on a device.", py::arg("folder"),
           py::arg("ordinal"))
      .def_property_readonly("stream", &device::Gate::stream, "The value for __dlpack__(stream=).");

  py::class_<HeldGuest, std::shared_ptr<HeldGuest>>(m, "Guest",
                                                    "A tensor of another library on a device.")
      .def_static("take", &take,
                  "Take over a DLPack capsule's tensor; None if it is not a matrix of floats with "
                  "`dim` columns on the gate's device.",
                  py::arg("gate"), py::arg("capsule"), py::arg("dim"))
      .def_property_readonly("n_rows", &n_rows_of_guest, "The number of its rows.");
}

}  // namespace hyrecall::bindings
