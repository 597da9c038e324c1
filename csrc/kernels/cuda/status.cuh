// CUDA's errors: thrown inside the library, a Status of abi.hpp at its border.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "kernels/shared/abi.hpp"

namespace hyrecall::cuda {

struct CudaError {
  cudaError_t code;
};

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw CudaError{error};
}

// Makes the context that the runtime uses on a device the thread's own, above what it had.
void push_context(int device);
void pop_context();

// The device of what follows; afterwards the thread has its own again. A thread that has none is
// at device 0 without a context there, and must not get one: to set device 0 again would make one,
// which takes some 0.5 GB. So the context is pushed and popped.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    int before = 0;
    check(cudaGetDevice(&before));
    if (device == before) return;
    push_context(device);
    is_pushed_ = true;
  }
  ~DeviceScope() {
    if (is_pushed_) pop_context();
  }
  DeviceScope(DeviceScope const&) = delete;
  DeviceScope& operator=(DeviceScope const&) = delete;

 private:
  bool is_pushed_ = false;
};

inline Status status_of(cudaError_t error) {
  Status status{};
  if (error == cudaSuccess) return status;
  status.code = static_cast<std::int32_t>(error);
  std::snprintf(status.text, sizeof status.text, "%s: %s", cudaGetErrorName(error),
                cudaGetErrorString(error));
  cudaGetLastError();  // a later call must not report this one's fault
  return status;
}

// Runs a function of the border: no exception leaves the library.
template <typename Function>
Status guarded(Function&& function) {
  try {
    function();
    return {};
  } catch (CudaError const& error) {
    return status_of(error.code);
  } catch (std::bad_alloc const&) {
    Status status{};
    status.code = kHostMemory;
    std::snprintf(status.text, sizeof status.text, "the host is out of memory");
    return status;
  } catch (std::exception const& error) {
    Status status{};
    status.code = kInternalFault;
    std::snprintf(status.text, sizeof status.text, "%s", error.what());
    return status;
  }
}

// Ends an object where its memory lies, on any thread. Null is nothing.
template <typename T, typename DeviceOf>
void destroy_on_device(T* held, DeviceOf const& device_of) {
  if (held == nullptr) return;
  guarded([&] {
    DeviceScope const device_scope(device_of(*held));
    delete held;
  });
}

// n elements on the current device, freed with their owner.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t n) : n_(n) {
    void* data = nullptr;
    check(cudaMalloc(&data, n > 0 ? n * sizeof(T) : 1));
    data_ = static_cast<T*>(data);
  }
  DeviceArray(T const* from, std::size_t n) : DeviceArray(n) { upload(from); }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);  // cudaFree(null) would begin a context
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), n_(std::exchange(other.n_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(n_, other.n_);
    return *this;
  }

  T* data() const { return data_; }
  std::size_t size() const { return n_; }
  std::size_t bytes() const { return n_ * sizeof(T); }
  void upload(T const* from) {
    if (n_ > 0) check(cudaMemcpy(data_, from, bytes(), cudaMemcpyHostToDevice));
  }
  void download(T* to) const {
    if (n_ > 0) check(cudaMemcpy(to, data_, bytes(), cudaMemcpyDeviceToHost));
  }

 private:
  T* data_ = nullptr;
  std::size_t n_ = 0;
};

}  // namespace hyrecall::cuda
