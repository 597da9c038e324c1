// Threads wake off the CPU of their waker, and may run where they could before.
#include "core/wake_elsewhere.hpp"

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "core/parallel.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

cpu_set_t cpus_of(pid_t thread) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CHECK(sched_getaffinity(thread, sizeof cpus, &cpus) == 0);
  return cpus;
}

bool are_equal(cpu_set_t a, cpu_set_t b) {
  return CPU_EQUAL(&a, &b);
}

// Some CPU of the process, on which the caller stays.
std::size_t stay_on_one() {
  cpu_set_t const all = cpus_of(0);
  std::size_t cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  return cpu;
}

TEST(a_thread_wakes_off_the_cpu_of_its_waker_and_may_go_back) {
  cpu_set_t const all = cpus_of(0);
  if (CPU_COUNT(&all) < 2) throw Skip("one CPU");
  std::promise<pid_t> began;
  std::promise<void> wake, released, end;
  WakeElsewhere* place = nullptr;
  std::thread sleeper([&] {
    WakeElsewhere own;
    place = &own;
    began.set_value(gettid());
    wake.get_future().wait();
    own.release();
    released.set_value();
    end.get_future().wait();
  });
  pid_t const thread = began.get_future().get();
  std::size_t cpu = 0;
  std::vector<cpu_set_t> asked;
  std::thread([&] {
    cpu = stay_on_one();
    for (int again = 0; again < 2; ++again) {  // that it was asked before is no mask of its own
      place->ask();
      asked.push_back(cpus_of(thread));
    }
  }).join();
  wake.set_value();
  released.get_future().wait();
  cpu_set_t const after = cpus_of(thread);
  end.set_value();
  sleeper.join();
  for (cpu_set_t const& one : asked) {
    CHECK(!CPU_ISSET(cpu, &one));
    CHECK(CPU_COUNT(&one) == CPU_COUNT(&all) - 1);
  }
  CHECK(are_equal(after, all));
}

TEST(a_thread_with_a_single_cpu_stays_there) {
  std::promise<void> asked;
  std::promise<pid_t> began;
  WakeElsewhere* place = nullptr;
  cpu_set_t own, after;
  std::thread sleeper([&] {
    stay_on_one();
    own = cpus_of(0);
    WakeElsewhere here;
    place = &here;
    began.set_value(gettid());
    asked.get_future().wait();
    here.release();
    after = cpus_of(0);
  });
  pid_t const thread = began.get_future().get();
  std::thread([&] {
    stay_on_one();
    place->ask();
  }).join();
  cpu_set_t const waits = cpus_of(thread);
  asked.set_value();
  sleeper.join();
  CHECK(are_equal(waits, own));
  CHECK(are_equal(after, own));
}

TEST(threads_of_the_pool_may_run_on_every_cpu_while_they_work) {
  cpu_set_t const all = cpus_of(0);
  for (int round = 0; round < 20; ++round) {
    parallel_for(8, 4, [&](int, std::size_t) {
      CHECK(are_equal(cpus_of(0), all));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // they sleep, and are asked
  }
}

}  // namespace
}  // namespace hyrecall::testing
#endif
