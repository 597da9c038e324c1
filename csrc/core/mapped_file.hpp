// A file that is mapped for reading, and the handling of files that are truncated while mapped.
//
// A read past the end of a file that was truncated after it was mapped, or of a page that the disk
// cannot read, raises SIGBUS. For addresses inside a MappedFile our handler maps zeros in place of
// the lost pages, records the loss, and the read goes on; check() then throws. Unwinding out of
// the handler instead would skip destructors, or need -fnon-call-exceptions everywhere. Other
// addresses go to the previous handler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hyrecall {

class MappedFile {
 public:
  // Maps the first `size` bytes of an open file; keeps a descriptor of its own. path: for messages.
  MappedFile(std::string path, int descriptor, std::size_t size);
  ~MappedFile();
  MappedFile(MappedFile const&) = delete;
  MappedFile& operator=(MappedFile const&) = delete;

  std::uint8_t const* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::string const& path() const { return path_; }

  // Throws if the file was cut or written to since it was mapped, or if check_reads() does.
  void check() const;
  // Throws if a read hit a lost page: results computed since then may be wrong.
  void check_reads() const;

  // Advises the system about some bytes of the file (core/pages.hpp).
  void read_apart(void const* at, std::size_t n_bytes) const;
  void read_in_order(void const* at, std::size_t n_bytes) const;

  // Keeps all pages in memory while the file is mapped. Returns errno, or 0 for success.
  int lock();

 private:
  void require_inside(void const* at, std::size_t n_bytes) const;

  std::string path_;
  int descriptor_ = -1;
  std::uint8_t const* data_ = nullptr;
  std::size_t size_;
  std::int64_t seconds_ = 0;  // of the last change of the content
  std::int64_t nanoseconds_ = 0;
  std::atomic<bool>* is_lost_ = nullptr;  // of the handler's slot
};

// The mapped files of a snapshot, checked with one call.
class MappedFiles {
 public:
  explicit MappedFiles(std::vector<std::shared_ptr<MappedFile const>> files)
      : files_(std::move(files)) {}

  std::size_t size() const { return files_.size(); }
  void check() const {
    for (auto const& file : files_) file->check();
  }
  void check_reads() const {
    for (auto const& file : files_) file->check_reads();
  }

 private:
  std::vector<std::shared_ptr<MappedFile const>> files_;
};

}  // namespace hyrecall
