#include "core/wake_elsewhere.hpp"

#include <cstddef>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hyrecall {

#if defined(__linux__)

WakeElsewhere::WakeElsewhere() : thread_(static_cast<pid_t>(syscall(SYS_gettid))) {}

void WakeElsewhere::ask() {
  int const cpu = sched_getcpu();
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  // Asked before, and not woken since: the mask of now is not its own.
  if (!is_asked_ && sched_getaffinity(thread_, sizeof own_, &own_) != 0) return;
  cpu_set_t others = own_;
  CPU_CLR(static_cast<std::size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0) return;
  is_asked_ = sched_setaffinity(thread_, sizeof others, &others) == 0 || is_asked_;
}

void WakeElsewhere::release() {
  if (!is_asked_) return;
  is_asked_ = false;
  sched_setaffinity(thread_, sizeof own_, &own_);
}

#else

WakeElsewhere::WakeElsewhere() = default;
void WakeElsewhere::ask() {}
void WakeElsewhere::release() {}

#endif

}  // namespace hyrecall
