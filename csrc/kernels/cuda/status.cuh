// CUDA's errors: thrown inside the library, a Status of abi.hpp at its border; and what the library
// holds of a device.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

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

inline Status status_of(std::int32_t code, std::string const& text) {
  Status status{};
  status.code = code;
  std::snprintf(status.text, sizeof status.text, "%s", text.c_str());
  return status;
}

// Runs a function of the border: no exception leaves the library.
template <typename Function>
Status guarded(Function&& function) {
  try {
    function();
    return {};
  } catch (CudaError const& error) {
    cudaGetLastError();  // a later call must not report this one's fault
    std::string const name = cudaGetErrorName(error.code);
    return status_of(error.code, name + ": " + cudaGetErrorString(error.code));
  } catch (std::bad_alloc const&) {
    return status_of(kHostMemory, "the host is out of memory");
  } catch (std::exception const& error) {
    return status_of(kInternalFault, error.what());
  }
}

// What a handle stands for. It ends where its memory lies.
struct Object {
  explicit Object(int ordinal) : device(ordinal) {}
  virtual ~Object() = default;
  Object(Object const&) = delete;
  Object& operator=(Object const&) = delete;

  int const device;
};

struct CudaDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
template <typename Pointer>
using CudaOwner = std::unique_ptr<std::remove_pointer_t<Pointer>, CudaDeleter>;
using Stream = CudaOwner<cudaStream_t>;
using Event = CudaOwner<cudaEvent_t>;

// Of the current device, beside its default stream.
inline Stream make_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return Stream(made);
}
inline Event make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made, flags));
  return Event(made);
}

// The T of a key, T(key...), made by who asks first. Never destroyed: CUDA may be gone before
// static objects are.
template <typename T, typename... Key>
T& one_of(Key const&... key) {
  static auto* const all = new std::map<std::tuple<Key...>, std::unique_ptr<T>>;
  static auto* const mutex = new std::mutex;
  std::lock_guard const lock(*mutex);
  auto& found = (*all)[{key...}];
  if (found == nullptr) found = std::make_unique<T>(key...);
  return *found;
}

// What takes long to make, of one device: kept for the next who needs one. It has a stream, and
// serves again once its work is done.
template <typename T>
class Idle {
 public:
  explicit Idle(int) {}

  // Of the current device.
  std::unique_ptr<T> take() {
    std::lock_guard const lock(mutex_);
    auto const at = std::find_if(all_.begin(), all_.end(), [](auto const& one) {
      return cudaStreamQuery(one->stream.get()) == cudaSuccess;
    });
    cudaGetLastError();  // that a stream is busy is no error
    if (at == all_.end()) return std::make_unique<T>();
    std::unique_ptr<T> found = std::move(*at);
    all_.erase(at);
    return found;
  }
  void give_back(std::unique_ptr<T> one) {
    std::lock_guard const lock(mutex_);
    all_.push_back(std::move(one));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> all_;
};

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
  DeviceArray(T const* from, std::size_t n) : DeviceArray(n) {
    if (n > 0) check(cudaMemcpy(data_, from, bytes(), cudaMemcpyHostToDevice));
  }
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
  std::size_t bytes() const { return n_ * sizeof(T); }
  void download(T* to) const {
    if (n_ > 0) check(cudaMemcpy(to, data_, bytes(), cudaMemcpyDeviceToHost));
  }

 private:
  T* data_ = nullptr;
  std::size_t n_ = 0;
};

// Arrays on the current device, freed with their owner.
class DeviceArrays {
 public:
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* room(std::size_t n) {
    auto const& made = all_.emplace_back(n * sizeof(T));
    bytes_ += made.bytes();
    return reinterpret_cast<T*>(made.data());
  }
  template <typename T>
  T const* upload(T const* from, std::size_t n) {
    T* const to = room<T>(n);
    if (n > 0) check(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyHostToDevice));
    return to;
  }
  template <typename Range>
  auto upload(Range const& from) {
    return upload(std::data(from), std::size(from));
  }

 private:
  std::vector<DeviceArray<std::uint8_t>> all_;
  std::size_t bytes_ = 0;
};

}  // namespace hyrecall::cuda
