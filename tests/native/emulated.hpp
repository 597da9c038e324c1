// The machine of fibers that stands for a device in these tests (tests/emulator).
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
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

// Of what the kernels of 8.0 and of 9.0 have in common, or what chooses its kernels itself: a run
// on those of 9.0 would only repeat it.
inline void once_for_both_kernels() {
  char const* const compute = std::getenv("HYRECALL_EMULATOR_COMPUTE");
  if (compute != nullptr && std::string(compute) == "9.0") {
    throw Skip("the same as in the run on the kernels of 8.0");
  }
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
  explicit NullDevice(std::string const& folder = HYRECALL_EMULATED_FOLDER,
                      emulator::NullDevice kind = emulator::NullDevice::kNothing)
      : controls_(emulated(folder)) {
    controls_.set_null(kind);
  }
  ~NullDevice() { controls_.set_null(emulator::NullDevice::kNone); }
  NullDevice(NullDevice const&) = delete;
  NullDevice& operator=(NullDevice const&) = delete;

 private:
  emulator::Controls const& controls_;
};
class MemoryOf {
 public:
  explicit MemoryOf(std::size_t bytes, std::string const& folder = HYRECALL_EMULATED_FOLDER)
      : controls_(emulated(folder)) {
    controls_.limit_memory(bytes);
  }
  ~MemoryOf() { controls_.limit_memory(0); }
  MemoryOf(MemoryOf const&) = delete;
  MemoryOf& operator=(MemoryOf const&) = delete;

 private:
  emulator::Controls const& controls_;
};

// The folder of a copy of the library: a machine that no other test has used, nor any will.
class OwnMachine {
 public:
  OwnMachine() {
    std::string name = (std::filesystem::temp_directory_path() / "hyrecall-XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::filesystem::copy_file(std::string(HYRECALL_EMULATED_FOLDER) + "/libhyrecall_cuda.so",
                               folder_ + "/libhyrecall_cuda.so");
    emulated(folder_);  // it is loaded
  }
  ~OwnMachine() { std::filesystem::remove_all(folder_); }
  OwnMachine(OwnMachine const&) = delete;
  OwnMachine& operator=(OwnMachine const&) = delete;

  std::string const& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace hyrecall::testing
