// The kernels of a lexical search, and how they are launched; cut_texts and pick_best are
// kernels.cuh's.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

inline constexpr unsigned kTextThreads = 128;

__global__ void prepare_texts(DenseJob const* job);
__global__ void scan_postings(DenseJob const* job, std::uint32_t stage, std::uint32_t has_words);

class LexicalScanner {
 public:
  // Made once.
  static LexicalScanner const& of_device(int device);

  cudaError_t prepare(DenseJob const* job, KernelQueue const& queue) const;
  // has_words: some text of the batch is not positive.
  cudaError_t scan(DenseJob const* job, std::uint32_t stage, bool has_words,
                   KernelQueue const& queue) const;

 private:
  explicit LexicalScanner(int device);

  unsigned n_multiprocessors_ = 1;
  unsigned n_ctas_[2] = {1, 1};  // as many as run at once; without and with words
};

}  // namespace hyrecall::cuda
