// The machine of fibers that stands for a device in these tests (tests/emulator).
#pragma once

#include <dlfcn.h>

#include <string>

#include "emulator/controls.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {

inline emulator::Controls const& emulated(std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  void* const library = dlopen((folder + "/libhyrecall_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(__FILE__, __LINE__, dlerror());
  auto* const entry =
      reinterpret_cast<emulator::Controls const* (*)()>(dlsym(library, "emulator_controls"));
  if (entry == nullptr) fail(__FILE__, __LINE__, "not an emulated library: " + folder);
  return *entry();
}

// Until it goes out of scope.
class SeedOf {
 public:
  explicit SeedOf(std::uint64_t seed, std::string const& folder = HYRECALL_EMULATED_FOLDER)
      : controls_(emulated(folder)) {
    controls_.set_seed(seed);
  }
  ~SeedOf() { controls_.set_seed(1); }
  SeedOf(SeedOf const&) = delete;
  SeedOf& operator=(SeedOf const&) = delete;

 private:
  emulator::Controls const& controls_;
};
// A device whose kernels do nothing, until it goes out of scope.
class NullDevice {
 public:
  NullDevice() { emulated().set_null(true); }
  ~NullDevice() { emulated().set_null(false); }
  NullDevice(NullDevice const&) = delete;
  NullDevice& operator=(NullDevice const&) = delete;
};
class MemoryOf {
 public:
  explicit MemoryOf(std::size_t bytes) { emulated().limit_memory(bytes); }
  ~MemoryOf() { emulated().limit_memory(0); }
  MemoryOf(MemoryOf const&) = delete;
  MemoryOf& operator=(MemoryOf const&) = delete;
};

}  // namespace hyrecall::testing
