// Keeps a thread that is about to wake off the CPU of the thread that wakes it.
//
// Linux wakes a thread on the CPU of its waker, or on its own last one, and looks for an idle CPU
// only among those that share a cache. Virtual machines often say that none do. Then a thread that
// has slept for some 10 ms wakes behind its waker, which goes on with the work: measured, two
// threads on two idle CPUs took as long as one for the first milliseconds, or for the whole call.
#pragma once

#if defined(__linux__)
#include <sched.h>
#include <sys/types.h>
#endif

namespace hyrecall {

// Only one call at a time. If the system refuses a change (a sandbox, more CPUs than a mask holds),
// it is left out, and the thread wakes on any CPU.
class WakeElsewhere {
 public:
  // Of the calling thread.
  WakeElsewhere();

  // The waking thread calls this while the other sleeps, which then does not wake on its CPU.
  void ask();
  // The woken thread calls this to be allowed on all its former CPUs again.
  void release();

 private:
#if defined(__linux__)
  pid_t thread_;
  cpu_set_t own_;  // if is_asked_
  bool is_asked_ = false;
#endif
};

}  // namespace hyrecall
