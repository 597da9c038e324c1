#include "device/device.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <set>

#include "core/error.hpp"
#include "device/device_library.hpp"
#include "kernels/settings.hpp"
#include "kernels/shared/dense_batch.hpp"

namespace hyrecall::device {
namespace {

constexpr char const* kLibrary = "libhyrecall_cuda.so";
constexpr int kLeastDriver = 13000;  // CUDA 13.0, r580: what the library is built with
constexpr int kOutOfMemory = 2;      // cudaErrorMemoryAllocation
constexpr int kNotInitialized = 3;   // cudaErrorInitializationError: of a forked child

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The process that loaded a library first; 0: none has.
std::atomic<pid_t> first_user{0};

// CUDA does not work in a child of a process that has used it.
bool is_of_fork(cuda::Status const& status) {
  pid_t const user = first_user;
  return status.code == kNotInitialized && user != 0 && user != getpid();
}
constexpr char const* kForked =
    "a process that was forked from one that had used CUDA; start it by \"spawn\" or "
    "\"forkserver\", or fork before the first use";

struct Loaded {
  cuda::Api const* api = nullptr;
  std::string problem;
};

Loaded load(std::string const& folder) {
  pid_t nobody = 0;
  first_user.compare_exchange_strong(nobody, getpid());
  // Never closed: CUDA's own exit handlers run after ours.
  void* const handle = dlopen((folder + "/" + kLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    char const* const reason = dlerror();
    return {nullptr, std::string(kLibrary) +
                         " could not be loaded (a build with HYRECALL_CUDA=ON has it): " +
                         (reason != nullptr ? reason : "unknown reason")};
  }
  auto* const entry = reinterpret_cast<HyrecallCudaApi*>(dlsym(handle, kHyrecallCudaApiName));
  if (entry == nullptr) return {nullptr, std::string(kLibrary) + " lacks " + kHyrecallCudaApiName};
  cuda::Api const* const api = entry();
  if (api->abi_version != cuda::kAbiVersion) {
    return {nullptr, std::string(kLibrary) + " has interface version " +
                         std::to_string(api->abi_version) + ", expected " +
                         std::to_string(cuda::kAbiVersion) + ": it belongs to another build"};
  }
  return {api, {}};
}

std::mutex g_times_mutex;
std::vector<KernelTotal> g_totals;

Loaded const& library(std::string const& folder) {
  return of_folder<Loaded>(folder, load);
}

}  // namespace

cuda::Api const& require_library(std::string const& folder, int ordinal) {
  Loaded const& loaded = library(folder);
  if (loaded.api == nullptr) {
    throw Error(
        ErrorCode::kDeviceUnavailable, "device",
        "expected a CUDA device, got cuda:" + std::to_string(ordinal) + ": " + loaded.problem);
  }
  return *loaded.api;
}

void check(cuda::Status const& status, int ordinal) {
  if (status.code == 0) return;
  if (status.code == cuda::kInternalFault) require(false, status.text);
  if (status.code == cuda::kHostMemory) throw std::bad_alloc();
  if (is_of_fork(status)) {
    throw Error(ErrorCode::kDeviceUnavailable, "device",
                "expected cuda:" + std::to_string(ordinal) + " to answer, got " + kForked);
  }
  ErrorCode const code =
      status.code == kOutOfMemory ? ErrorCode::kDeviceMemory : ErrorCode::kDeviceUnavailable;
  throw Error(
      code, "device",
      "expected cuda:" + std::to_string(ordinal) + " to answer, got " + std::string(status.text));
}

Report describe(std::string const& folder) {
  Report report;
  Loaded const& loaded = library(folder);
  report.problem = loaded.problem;
  if (loaded.api == nullptr) return report;
  report.has_library = true;
  auto const table = std::make_unique<cuda::DeviceTable>();
  cuda::Status const status = loaded.api->describe(table.get());
  report.driver_version = table->driver_version;
  report.runtime_version = table->runtime_version;
  for (int i = 0; i < table->n_devices; ++i) {
    cuda::DeviceProperties const& found = table->devices[i];
    report.devices.push_back(
        {found.name, found.major, found.minor, found.memory_bytes, found.n_multiprocessors});
  }
  if (table->driver_version != 0 && table->driver_version < kLeastDriver) {
    report.devices.clear();
    report.problem = "the CUDA driver is of version " + version_text(table->driver_version) +
                     ", expected " + version_text(kLeastDriver) + " (r580) or later";
  } else if (is_of_fork(status)) {
    report.problem = std::string("this is ") + kForked;
  } else if (status.code != 0) {
    report.problem = (table->driver_version == 0 ? "no CUDA driver is installed: " : "") +
                     std::string(status.text);
  } else if (report.devices.empty()) {
    report.problem = "there is no CUDA device";
  }
  return report;
}

std::vector<double> formulas(std::string const& folder, int ordinal, ArithmeticOp op,
                             std::span<double const> arguments) {
  cuda::Api const& api = require_library(folder, ordinal);
  std::vector<double> results(arguments.size() / kMaxArity);
  cuda::FormulaParams const params{arguments.data(), results.data(),
                                   static_cast<std::int64_t>(results.size()),
                                   static_cast<std::int32_t>(op), ordinal};
  check(api.formulas(&params), ordinal);
  return results;
}

Dots dots(std::string const& folder, int ordinal, std::span<float const> query,
          std::span<float const> rows) {
  cuda::Api const& api = require_library(folder, ordinal);
  std::size_t const n_rows = query.empty() ? 0 : rows.size() / query.size();
  Dots out{std::vector<float>(n_rows), std::vector<float>(n_rows)};
  cuda::DotParams const params{query.data(),
                               rows.data(),
                               out.dots.data(),
                               out.inverse_norms.data(),
                               static_cast<std::int64_t>(n_rows),
                               static_cast<std::int64_t>(query.size()),
                               ordinal};
  check(api.dots(&params), ordinal);
  return out;
}

void add_kernel_times(cuda::KernelTimes const& times) {
  std::lock_guard const lock(g_times_mutex);
  for (std::uint32_t i = 0; i < times.n; ++i) {
    cuda::KernelTime const& one = times.all[i];
    std::string name = one.name;
    if (one.width != 0) name += ", " + std::to_string(one.width) + " wide";
    auto at = std::find_if(g_totals.begin(), g_totals.end(),
                           [&](KernelTotal const& total) { return total.name == name; });
    if (at == g_totals.end()) at = g_totals.insert(at, {std::move(name), 0, 0.0});
    at->n_launches += 1;
    at->milliseconds += one.milliseconds;
  }
}

std::vector<KernelTotal> take_kernel_times() {
  std::lock_guard const lock(g_times_mutex);
  return std::exchange(g_totals, {});
}

std::vector<ScanVariant> scans_of(std::string const& folder, int ordinal, FirstPassPlane plane,
                                  KernelChoice kernels) {
  std::uint32_t n = 0;
  ScanVariant scans[kMaxScans] = {};
  check(require_library(folder, ordinal).scans(ordinal, plane, kernels, scans, &n), ordinal);
  return {scans, scans + n};
}

std::vector<std::string> scans(std::string const& folder, int ordinal, KernelChoice kernels) {
  std::set<ScanVariant> found;
  for (FirstPassPlane const plane : {FirstPassPlane::kInt8, FirstPassPlane::kBFloat16}) {
    for (std::uint32_t const generic_only : {kernels.generic_only, 1u}) {
      KernelChoice const choice{.excluded = kernels.excluded, .generic_only = generic_only};
      for (ScanVariant const& scan : scans_of(folder, ordinal, plane, choice)) found.insert(scan);
    }
  }
  std::vector<std::string> names;
  for (ScanVariant const& scan : found) names.push_back(name_of(scan));
  return names;
}

}  // namespace hyrecall::device
