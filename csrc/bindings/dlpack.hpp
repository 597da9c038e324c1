// The structures of DLPack: https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

namespace hyrecall::bindings {

inline constexpr char const* kDlCapsule = "dltensor";
inline constexpr char const* kUsedDlCapsule = "used_dltensor";  // whoever took it calls the deleter
inline constexpr std::int32_t kDlCuda = 2;
inline constexpr std::uint8_t kDlInt = 0;
inline constexpr std::uint8_t kDlFloat = 2;
inline constexpr std::uint8_t kDlBfloat = 4;
inline constexpr std::uint8_t kDlBool = 6;

struct DlTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t n_axes;
  std::uint8_t type_code;
  std::uint8_t type_bits;
  std::uint16_t type_lanes;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: C order
  std::uint64_t byte_offset;
};

struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};

}  // namespace hyrecall::bindings
