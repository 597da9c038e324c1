// What:   the contexts that the runtime uses, pushed and popped by the driver's functions. The
//         runtime can only set a device, which begins a context there.
// Launch: none.
#include <cuda.h>

#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {
namespace {

constexpr unsigned kDriverVersion = 13000;  // whose form of the functions is meant

// Errors of the driver have the numbers of the runtime's.
void check_driver(CUresult result) {
  check(static_cast<cudaError_t>(result));
}

// The runtime finds them, so that nothing is linked against the driver.
struct Driver {
  Driver() {
    find("cuInit", &init);
    find("cuDeviceGet", &device_get);
    find("cuDevicePrimaryCtxRetain", &retain);
    find("cuCtxPushCurrent", &push);
    find("cuCtxPopCurrent", &pop);
    check_driver(init(0));
  }

  template <typename Function>
  static void find(char const* name, Function* out) {
    cudaDriverEntryPointQueryResult found{};
    void* at = nullptr;
    check(cudaGetDriverEntryPointByVersion(name, &at, kDriverVersion, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) throw CudaError{cudaErrorInsufficientDriver};
    *out = reinterpret_cast<Function>(at);
  }
  static Driver const& get() {
    static Driver const driver;
    return driver;
  }

  CUresult (*init)(unsigned flags) = nullptr;
  CUresult (*device_get)(CUdevice* out, int ordinal) = nullptr;
  CUresult (*retain)(CUcontext* out, CUdevice device) = nullptr;
  CUresult (*push)(CUcontext context) = nullptr;
  CUresult (*pop)(CUcontext* out) = nullptr;
};

// Held until the process ends: memory of the library lies in it.
struct Context {
  explicit Context(int device) {
    CUdevice ordinal = 0;
    check_driver(Driver::get().device_get(&ordinal, device));
    check_driver(Driver::get().retain(&handle, ordinal));
  }
  CUcontext handle = nullptr;
};

}  // namespace

void push_context(int device) {
  check_driver(Driver::get().push(one_of<Context>(device).handle));
}

void pop_context() {
  CUcontext gone = nullptr;
  Driver::get().pop(&gone);
}

}  // namespace hyrecall::cuda
