#include "core/parallel.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/fp_env.hpp"
#include "core/interrupt.hpp"
#include "core/wake_elsewhere.hpp"

namespace hyrecall {
namespace {

// A larger pool runs on many CPUs, so its threads wake elsewhere anyway, and steering each would
// cost its waker two system calls.
constexpr std::size_t kMostSteered = 8;

struct Job {
  std::function<void(int, std::size_t)> const* body;
  std::size_t n_items;
  std::atomic<std::size_t> next{0};
  int seats;                 // pool threads still wanted; guarded by the pool's mutex
  int next_worker = 1;       // 0 is the caller; guarded by the pool's mutex
  int running = 0;           // pool threads inside; guarded by the pool's mutex
  std::exception_ptr error;  // of the lowest item that threw: items are handed out in order, so it
                             // is always the same
  std::size_t error_item = 0;
  std::mutex error_mutex;
  std::atomic<bool> interrupted{false};  // items that run end at their next poll

  // Before an item is taken, so that each item that is taken runs.
  bool is_interrupted(int worker) {
    if (worker != 0) return false;
    try {
      poll_interrupt();
      return false;
    } catch (...) {
      end(std::current_exception());
      return true;
    }
  }

  // An interrupt of the caller ends the helpers too, and is rethrown to the caller.
  void end(std::exception_ptr interrupt) {
    std::lock_guard const lock(error_mutex);
    error = std::move(interrupt);
    error_item = 0;
    interrupted.store(true, std::memory_order_relaxed);
    next.store(n_items, std::memory_order_relaxed);
  }

  void work(int worker) {
    while (!is_interrupted(worker)) {
      std::size_t const item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= n_items) return;
      try {
        (*body)(worker, item);
      } catch (...) {
        if (worker == 0 && was_interrupted()) return end(std::current_exception());
        std::lock_guard const lock(error_mutex);
        if (!error || item < error_item) {
          error = std::current_exception();
          error_item = item;
        }
        next.store(n_items, std::memory_order_relaxed);  // other results would be dropped
      }
    }
  }
};

class Pool {
 public:
  void run(Job& job) {
    {
      std::lock_guard const lock(mutex_);
      while (static_cast<int>(threads_) < job.seats) {
        try {
          std::thread([this] { loop(); }).detach();  // lives as long as the process; see pool()
        } catch (std::system_error const&) {
          break;  // no room for more: those that are there, and the caller, do the work
        }
        ++threads_;
      }
      jobs_.push_back(&job);
      if (threads_ <= kMostSteered) {
        for (WakeElsewhere* one : asleep_) one->ask();
      }
    }
    wake_.notify_all();
    job.work(0);
    std::unique_lock lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    idle_.wait(lock, [&] { return job.running == 0; });
  }

  std::mutex& mutex() { return mutex_; }

 private:
  void loop() {
    FpEnvGuard const fp;
    WakeElsewhere place;
    std::unique_lock lock(mutex_);
    for (;;) {
      Job* job = open_job();
      if (job == nullptr) {
        asleep_.push_back(&place);
        wake_.wait(lock, [&] { return (job = open_job()) != nullptr; });
        std::erase(asleep_, &place);
      }
      job->seats -= 1;
      job->running += 1;
      int const worker = job->next_worker++;
      lock.unlock();
      place.release();
      {
        StopGuard const stop(job->interrupted);
        job->work(worker);
      }
      lock.lock();
      if (--job->running == 0) idle_.notify_all();
    }
  }

  Job* open_job() {
    for (Job* job : jobs_) {
      if (job->seats > 0 && job->next.load(std::memory_order_relaxed) < job->n_items) return job;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<Job*> jobs_;
  std::vector<WakeElsewhere*> asleep_;  // of the threads that wait for a job
  std::size_t threads_ = 0;
};

// Never destroyed: its threads may outlive static destruction. A forked child has none of them, so
// it gets a new one.
Pool* current_pool = nullptr;

Pool& pool() {
  static std::once_flag once;
  std::call_once(once, [] {
    current_pool = new Pool;
    pthread_atfork([] { current_pool->mutex().lock(); }, [] { current_pool->mutex().unlock(); },
                   [] { current_pool = new Pool; });
  });
  return *current_pool;
}

}  // namespace

void parallel_for(std::size_t n_items, int max_threads,
                  std::function<void(int, std::size_t)> const& body) {
  if (n_items == 0) return;
  int const helpers =
      static_cast<int>(std::min<std::size_t>(
          static_cast<std::size_t>(std::clamp(max_threads, 1, kMostThreads)), n_items)) -
      1;
  if (helpers == 0) {
    for (std::size_t item = 0; item < n_items; ++item) {
      poll_interrupt();
      body(0, item);
    }
    return;
  }
  Job job;
  job.body = &body;
  job.n_items = n_items;
  job.seats = helpers;
  pool().run(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace hyrecall
