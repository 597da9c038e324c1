// Runs every test, or those whose name holds the first argument.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "native/check.hpp"

int main(int argc, char** argv) {
  using namespace hyrecall::testing;
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
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 && passed > 0 ? 0 : 1;
}
