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

inline std::string broken_folder(char const* name) {
  std::string const all = HYRECALL_BROKEN_FOLDER;
  if (all.empty()) throw Skip("libraries with planted bugs are built without a sanitizer");
  std::string const folder = all + "/" + name;
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
