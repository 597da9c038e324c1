// From CUDA's errors to the Status of abi.hpp, and memory that frees itself.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>

#include "kernels/cuda/abi.hpp"

namespace hyrecall::cuda {

inline Status status_of(cudaError_t error) {
  Status status{};
  if (error == cudaSuccess) return status;
  status.code = static_cast<std::int32_t>(error);
  std::snprintf(status.text, sizeof status.text, "%s: %s", cudaGetErrorName(error),
                cudaGetErrorString(error));
  cudaGetLastError();  // a later call must not report this one's fault
  return status;
}

// n elements on the current device; data is null when error() is set.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : bytes_(n * sizeof(T)) {
    error_ = cudaMalloc(&data_, bytes_ > 0 ? bytes_ : 1);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray const&) = delete;
  DeviceArray& operator=(DeviceArray const&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  cudaError_t upload(T const* from) {
    if (error_ == cudaSuccess) error_ = cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice);
    return error_;
  }
  cudaError_t download(T* to) {
    if (error_ == cudaSuccess) error_ = cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost);
    return error_;
  }
  cudaError_t error() const { return error_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
  cudaError_t error_;
};

}  // namespace hyrecall::cuda
