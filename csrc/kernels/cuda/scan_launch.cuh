// Which kernels scan on a device, and how many CTAs of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernels.cuh"
#include "kernels/kernel_choice.hpp"

namespace hyrecall::cuda {

// A compiled scan of panels, or of wide ones: then `width` is above kPanelQueries.
struct ScanKernel {
  std::uint32_t width;                 // queries that it takes together, at most
  void (*first)(DenseJob const* job);  // of what is read first; null: wide panels are read later
  void (*rest)(DenseJob const* job);
  unsigned n_threads;
  std::size_t shared_bytes;
};

// Of any device from compute capability 8.0 on.
std::span<ScanKernel const> generic_int8_kernels();
std::span<ScanKernel const> generic_bfloat16_kernels();

// Of Hopper (compute capability 9.0), by rising width.
std::span<ScanKernel const> sm90_int8_kernels();
std::span<ScanKernel const> sm90_bfloat16_kernels();

class Scanner {
 public:
  // How one of its kernels is launched.
  struct Launch {
    ScanKernel kernel;
    ScanVariant scan;
    unsigned n_ctas;  // as many as run at once: each takes its share of the visits
  };

  // For one_of().
  Scanner(int device, FirstPassPlane plane, KernelChoice kernels);

  // Writes what it runs, by rising width, and gives how many; at most kMaxScans, 0 where the choice
  // leaves none.
  std::uint32_t scans(ScanVariant* out) const;
  unsigned n_multiprocessors() const { return n_multiprocessors_; }
  std::size_t most_shared_bytes() const { return most_shared_bytes_; }  // of a CTA
  // Whether its kernels may be placed before the one before has ended; see KernelQueue.
  bool overlaps() const { return overlaps_; }
  // CTAs of scan_postings, as many as run at once.
  unsigned text_ctas(bool has_words) const { return text_ctas_[has_words ? 1 : 0]; }
  Launch const& stream() const { return launches_.front(); }
  // Of wide panels of so many queries.
  Launch const& wide(std::uint32_t n_queries) const;

 private:
  std::vector<Launch> launches_;
  unsigned n_multiprocessors_;
  std::size_t most_shared_bytes_;
  bool overlaps_;
  unsigned text_ctas_[2];
};

}  // namespace hyrecall::cuda
