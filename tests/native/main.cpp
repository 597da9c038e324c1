// Runs every test, or those whose name holds the first argument.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "kernels/cpu/isa.hpp"
#include "native/check.hpp"

namespace {

// Each emulated library with a planted bug has thread-local memory of the kind that glibc must have
// room for before it loads it. It keeps room for some twenty, unless this says more when a process
// starts: so start again.
void make_room_for_libraries(char** argv) {
  if (std::getenv("GLIBC_TUNABLES") != nullptr) return;
  setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536", 1);
  execv("/proc/self/exe", argv);  // comes back only if it fails: then the room is as it was
}

#if defined(__aarch64__)
constexpr char const* kSets[] = {"scalar", "neon", "neondot"};
#else
constexpr char const* kSets[] = {"scalar", "avx2", "avx512", "avx512vnni", "amx"};
#endif

// Tests of every instruction set try those that this machine can run.
void tell_missing_sets() {
  auto const found = hyrecall::cpu::found_kernels();
  for (char const* const name : kSets) {
    bool const is_there = std::any_of(found.begin(), found.end(), [&](auto const& one) {
      return std::strcmp(one.name, name) == 0;
    });
    if (!is_there) std::printf("SKIPPED instruction set %s: not on this machine\n", name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hyrecall::testing;
  make_room_for_libraries(argv);
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  for (Test const& test : tests()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    auto const begin = std::chrono::steady_clock::now();
    try {
      test.body();
      ++passed;
      std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
      std::printf("ok      %6.2f s  %s\n", took.count(), test.name);
    } catch (Skip const& reason) {
      ++skipped;
      std::printf("skipped           %s: %s\n", test.name, reason.what());
    } catch (std::exception const& error) {
      ++failed;
      std::printf("FAILED            %s: %s\n", test.name, error.what());
    }
    std::fflush(stdout);
  }
  tell_missing_sets();
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 && passed > 0 ? 0 : 1;
}
