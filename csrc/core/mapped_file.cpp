#include "core/mapped_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "core/fork_mutex.hpp"
#include "core/pages.hpp"

namespace hyrecall {
namespace {

// ---- the mappings that the handler knows ----
// It may run at any moment on any thread, so it takes no lock and reads only memory that is never
// freed.

struct Slot {
  std::atomic<std::uintptr_t> begin{0};  // 0: free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> is_lost{false};
};

struct SlotBlock {
  std::array<Slot, 256> slots;
  std::atomic<SlotBlock*> next{nullptr};
};

SlotBlock first_block;  // NOLINT: constant-initialised, as is all that the handler reads

struct Registry;  // the purpose of the lock under which slots are taken and released

Slot& take_slot(std::uintptr_t begin, std::uintptr_t end) {
  std::lock_guard const lock(fork_mutex<Registry>());
  for (SlotBlock* block = &first_block;; block = block->next.load()) {
    for (Slot& slot : block->slots) {
      if (slot.begin.load() != 0) continue;
      slot.is_lost.store(false);
      slot.end.store(end);
      slot.begin.store(begin);  // last: from here on the handler finds it
      return slot;
    }
    if (block->next.load() == nullptr) block->next.store(new SlotBlock);  // never freed
  }
}

void release_slot(std::atomic<bool>& is_lost) {
  std::lock_guard const lock(fork_mutex<Registry>());
  for (SlotBlock* block = &first_block; block != nullptr; block = block->next.load()) {
    for (Slot& slot : block->slots) {
      if (&slot.is_lost == &is_lost) slot.begin.store(0);
    }
  }
}

// The slot of an address that a thread is reading, so its mapping stays. Other mappings may come
// and go meanwhile: bounds count only if they did not change while they were read.
Slot* find_slot(std::uintptr_t address) {
  for (SlotBlock* block = &first_block; block != nullptr; block = block->next.load()) {
    for (Slot& slot : block->slots) {
      std::uintptr_t const begin = slot.begin.load();
      if (begin == 0 || address < begin || address >= slot.end.load()) continue;
      if (slot.begin.load() == begin) return &slot;
    }
  }
  return nullptr;
}

// ---- the handler ----

struct sigaction before;  // NOLINT: whose turn it is if the address is not ours

// Not 0 while this thread is in the handler before ours. Plain storage of the thread: anything else
// might be allocated at its first use.
__attribute__((tls_model("initial-exec"))) thread_local int chained = 0;

// Ends the process as the system does for an unhandled SIGBUS. A read that failed fails again when
// the handler returns; a signal that was sent has to be sent again. Darwin gives both the same
// code.
void end_by_signal(int signal_number, [[maybe_unused]] siginfo_t const* info) {
  struct sigaction none = {};
  none.sa_handler = SIG_DFL;
  sigaction(signal_number, &none, nullptr);
#if !defined(__APPLE__)
  if (info != nullptr && info->si_code > 0) return;
#endif
  raise(signal_number);
}

void chain(int signal_number, siginfo_t* info, void* context) {
  // A handler that was installed after ours may hand the signal on to us.
  if (chained != 0) return end_by_signal(signal_number, info);
  bool const is_sent = info->si_code <= 0;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    ++chained;
    before.sa_sigaction(signal_number, info, context);
    --chained;
  } else if (before.sa_handler == SIG_DFL || (before.sa_handler == SIG_IGN && !is_sent)) {
    end_by_signal(signal_number, info);
  } else if (before.sa_handler != SIG_IGN) {
    ++chained;
    before.sa_handler(signal_number);
    --chained;
  }
}

void on_bus_error(int signal_number, siginfo_t* info, void* context) {
  int const kept = errno;
  auto const address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Slot* const slot = info->si_code > 0 ? find_slot(address) : nullptr;
  bool is_mended = false;
  if (slot != nullptr) {
    // Later pages are past the end of the file too, or a read of them comes here as well.
    auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    std::uintptr_t const begin = address / page * page;
    // Set this first: once the zeros are mapped, other threads may read them and then check it.
    slot->is_lost.store(true);
    is_mended = mmap(reinterpret_cast<void*>(begin), slot->end.load() - begin, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
  }
  if (!is_mended) chain(signal_number, info, context);
  errno = kept;
}

// Puts our handler first, again if another one was installed meanwhile.
void install() {
  std::lock_guard const lock(fork_mutex<Registry>());
  struct sigaction current = {};
  sigaction(SIGBUS, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == &on_bus_error) return;
  before = current;
  struct sigaction ours = {};
  ours.sa_sigaction = &on_bus_error;
  // SA_NODEFER: a handler before ours may raise the signal again to end the process.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, nullptr);
}

timespec written_at(struct stat const& found) {
#if defined(__APPLE__)
  return found.st_mtimespec;
#else
  return found.st_mtim;
#endif
}

[[noreturn]] void refuse(std::string const& path, std::size_t size, std::string const& got) {
  throw Error(
      ErrorCode::kCorrupt, path,
      "expected the file of " + std::to_string(size) + " bytes that was opened, got " + got);
}

}  // namespace

MappedFile::MappedFile(std::string path, int descriptor, std::size_t size)
    : path_(std::move(path)), size_(size) {
  install();
  descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  struct stat found = {};
  if (descriptor_ < 0 || fstat(descriptor_, &found) != 0) {
    std::string const reason = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    throw Error(ErrorCode::kCorrupt, path_, "expected a readable file, got: " + reason);
  }
  seconds_ = written_at(found).tv_sec;
  nanoseconds_ = written_at(found).tv_nsec;
  void* const start = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (start == MAP_FAILED) {
    std::string const reason = std::strerror(errno);
    close(descriptor_);
    throw Error(ErrorCode::kCorrupt, path_, "expected a file that can be mapped, got: " + reason);
  }
  data_ = static_cast<std::uint8_t const*>(start);
  auto const begin = reinterpret_cast<std::uintptr_t>(start);
  auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  is_lost_ = &take_slot(begin, begin + (size + page - 1) / page * page).is_lost;
}

MappedFile::~MappedFile() {
  release_slot(*is_lost_);
  munmap(const_cast<std::uint8_t*>(data_), size_);
  close(descriptor_);
}

void MappedFile::check() const {
  struct stat found = {};
  if (fstat(descriptor_, &found) != 0) refuse(path_, size_, std::strerror(errno));
  if (static_cast<std::size_t>(found.st_size) != size_)
    refuse(path_, size_, std::to_string(found.st_size) + " bytes");
  if (written_at(found).tv_sec != seconds_ || written_at(found).tv_nsec != nanoseconds_)
    refuse(path_, size_, "one that was written to since");
  check_reads();
}

void MappedFile::check_reads() const {
  if (is_lost_->load()) refuse(path_, size_, "one with pages that cannot be read");
}

void MappedFile::require_inside(void const* at, std::size_t n_bytes) const {
  auto const begin = reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(data_);
  require(begin <= size_ && n_bytes <= size_ - begin, "bytes of the file");
}

void MappedFile::read_apart(void const* at, std::size_t n_bytes) const {
  require_inside(at, n_bytes);
  hyrecall::read_apart(at, n_bytes);
}

void MappedFile::read_in_order(void const* at, std::size_t n_bytes) const {
  require_inside(at, n_bytes);
  hyrecall::read_in_order(at, n_bytes);
}

int MappedFile::lock() {
  return mlock(data_, size_) == 0 ? 0 : errno;
}

}  // namespace hyrecall
