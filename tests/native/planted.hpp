// Libraries with one bug each (cmake/planted_bugs.cmake), and processes that may be stopped.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>

#include "native/check.hpp"

namespace hyrecall::testing {

// Whether this build has not the library: HYRECALL_PLANTED says which are built.
inline bool is_left_out(char const* name) {
  std::string const built = HYRECALL_PLANTED_NAMES;
  if (built == ",,") throw Skip("no library with a planted bug is built");
  return built.find("," + std::string(name) + ",") == std::string::npos;
}

inline std::string broken_folder(char const* name) {
  std::string const folder = std::string(HYRECALL_BROKEN_FOLDER) + "/" + name;
  // A child that finds no library ends as one that finds a fault does.
  CHECK(std::filesystem::exists(folder + "/libhyrecall_cuda.so"));
  return folder;
}

// Runs body() in a child, which may die; gives how the child ended, as waitpid() tells it. The
// child exits with 1 where body() is true, with 2 where it throws: no exception leaves the child's
// own part, or the child would go on with the tests behind this one.
template <typename Body>
int status_of_child(Body&& body) {
  pid_t const child = fork();
  if (child == 0) {
    rlimit const no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::freopen("/dev/null", "w", stderr);
    try {
      _exit(body() ? 1 : 0);
    } catch (...) {
      _exit(2);
    }
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

// The machine stops the process at what it knows to be wrong.
template <typename Body>
bool is_fatal_in_a_child(Body&& body) {
  int const status = status_of_child([&] {
    body();
    return false;
  });
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace hyrecall::testing
