// A mutex that is never locked in a forked child, because a fork waits until it is free.
#pragma once

#include <pthread.h>

#include <mutex>

namespace hyrecall {

// One for the whole process and every purpose, named by a type. Hold it briefly and take no other
// lock, nor the GIL, inside: a fork takes all of them.
template <typename Purpose>
std::mutex& fork_mutex() {
  static std::mutex mutex;
  static int const registered =
      pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
  static_cast<void>(registered);
  return mutex;
}

}  // namespace hyrecall
