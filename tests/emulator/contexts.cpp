// The devices of the stand-in and their contexts, as the runtime sets and the driver pushes them.
#include "emulator/contexts.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "emulator/cuda.h"
#include "emulator/cuda_runtime.h"

namespace emulator {
namespace {

constexpr int kMostDevices = 8;
std::atomic<bool> g_has_context[kMostDevices];
thread_local int t_device = 0;               // that was set
thread_local std::vector<int> t_contexts{};  // that were pushed, above it
pid_t const g_loaded_by = getpid();

int n_devices() {
  char const* const said = std::getenv("HYRECALL_EMULATOR_DEVICES");
  return said != nullptr ? std::atoi(said) : 1;
}
int current_device() {
  return t_contexts.empty() ? t_device : t_contexts.back();
}
// As CUDA is after a fork, where HYRECALL_EMULATOR_FORKS=refused.
bool is_refused_fork() {
  char const* const said = std::getenv("HYRECALL_EMULATOR_FORKS");
  return said != nullptr && std::strcmp(said, "refused") == 0 && getpid() != g_loaded_by;
}

CUresult driver_init(unsigned) {
  return CUDA_SUCCESS;
}
CUresult driver_device(CUdevice* out, int ordinal) {
  *out = ordinal;
  return ordinal < n_devices() ? CUDA_SUCCESS : static_cast<CUresult>(cudaErrorInvalidDevice);
}
CUresult driver_retain(CUcontext* out, CUdevice device) {
  *out = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
  g_has_context[device] = true;
  return CUDA_SUCCESS;
}
CUresult driver_push(CUcontext context) {
  t_contexts.push_back(static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1);
  return CUDA_SUCCESS;
}
CUresult driver_pop(CUcontext* out) {
  driver_retain(out, t_contexts.back());
  t_contexts.pop_back();
  return CUDA_SUCCESS;
}

}  // namespace

void make_context() {
  g_has_context[current_device()] = true;
}
bool has_context(int device) {
  return g_has_context[device];
}

}  // namespace emulator

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = emulator::n_devices();
  return emulator::is_refused_fork() ? cudaErrorInitializationError : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
  *out = {};
  std::snprintf(out->name, sizeof out->name, "emulator");
  char const* const compute = std::getenv("HYRECALL_EMULATOR_COMPUTE");
  bool const is_hopper = compute != nullptr && std::strcmp(compute, "9.0") == 0;
  out->major = is_hopper ? 9 : 8;
  out->minor = 0;
  out->totalGlobalMem = std::size_t{1} << 32;
  out->multiProcessorCount = 3;  // so that CTAs take several turns
  out->sharedMemPerBlockOptin = is_hopper ? 227 * 1024 : 99 * 1024;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulator::n_devices()) return cudaErrorInvalidDevice;
  emulator::t_contexts.clear();
  emulator::t_device = device;
  emulator::make_context();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current_device();
  return emulator::is_refused_fork() ? cudaErrorInitializationError : cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** out, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  static std::map<std::string, void*> const functions{
      {"cuInit", reinterpret_cast<void*>(&emulator::driver_init)},
      {"cuDeviceGet", reinterpret_cast<void*>(&emulator::driver_device)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&emulator::driver_retain)},
      {"cuCtxPushCurrent", reinterpret_cast<void*>(&emulator::driver_push)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(&emulator::driver_pop)},
  };
  auto const found = functions.find(name);
  if (found == functions.end()) return cudaErrorInvalidValue;
  *out = found->second;
  return cudaSuccess;
}
