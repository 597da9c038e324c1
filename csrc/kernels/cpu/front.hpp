// The first pass over the int8 plane (kernels/int8_bound.hpp), one copy per instruction set.
//
// The plane lies in blocks of 16 rows: line i of a block holds elements 4i .. 4i+3 of each row, a
// byte each, as code + 128. So one 64-byte load brings a step of 16 rows to a register of any kind,
// and 16 such lines are a tile of AMX. Rows are padded with code 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyrecall::cpu {

inline constexpr std::size_t kFrontBlockRows = 16;
inline constexpr std::size_t kFrontStep = 4;        // elements of a row in a line
inline constexpr std::size_t kFrontLineBytes = 64;  // kFrontBlockRows x kFrontStep
// A kernel may read so far past a block (what it reads there counts for nothing).
inline constexpr std::size_t kFrontSlackBytes = 15 * kFrontLineBytes;
inline constexpr int kFrontCallBlocks = 2;  // blocks of one call at most
inline constexpr int kFrontMostQueries = 32;

constexpr std::size_t front_steps(std::size_t dim) {
  return (dim + kFrontStep - 1) / kFrontStep;
}
constexpr std::size_t front_block_bytes(std::size_t dim) {
  return front_steps(dim) * kFrontLineBytes;
}
// Blocks of a plane. It ends with some without rows, for what is read past the others.
constexpr std::size_t front_blocks(std::size_t n_rows, std::size_t dim) {
  std::size_t const block = front_block_bytes(dim);
  return (n_rows + kFrontBlockRows - 1) / kFrontBlockRows + (kFrontSlackBytes + block - 1) / block;
}

// One or two blocks that follow each other.
struct FrontRows {
  std::uint8_t const* codes;  // of the first block
  float const* scales;        // [n_blocks x 16]
  float const* residuals;     // [n_blocks x 16]; -inf: the row never passes
  int n_blocks;
};

// A panel of queries.
struct FrontQueries {
  std::uint8_t const* codes;  // as FrontKernels::pack left them
  // [FrontKernels::width] -128 times the sum of the query's codes: what the offset of the rows'
  // bytes costs. Sums of dots wrap, so they are right wherever the dot itself fits. From n on
  // anything.
  std::int32_t const* offsets;
  float const* scales;        // [n]
  float const* per_residual;  // [n] of QueryBound
  float const* cuts;          // [n] cut_for(threshold, bound)
  int n;                      // at most FrontKernels::width
};

// What is read soon and asked for on the way: as many bytes as are read of a block of rows, or of
// those the first half where `slow` is 1, evenly.
struct FrontAhead {
  std::uint8_t const* lines = nullptr;  // null: nothing
  int slow = 0;
};

// What passes: reach(...) >= cut.
struct FrontHits {
  std::uint32_t rows[kFrontMostQueries];  // bit i = row i of the call
  alignas(64) float reach[kFrontMostQueries][kFrontCallBlocks * kFrontBlockRows];
};

struct FrontKernels {
  char const* name;
  int width;  // queries of a panel
  // Bytes of a packed panel of n queries, and the packing. codes[q]: dim codes.
  std::size_t (*panel_bytes)(int n, std::size_t dim);
  void (*pack)(std::int8_t const* const* codes, int n, std::size_t dim, std::uint8_t* panel);
  // Bit q of the reply: hits.rows[q] is not empty. hits.rows is set for all n queries, hits.reach
  // where bits are.
  std::uint32_t (*scan)(FrontRows const& rows, std::size_t dim, FrontQueries const& queries,
                        FrontAhead ahead, FrontHits& hits);
  // Around scans of one thread: see FrontSession.
  void (*enter)();
  void (*leave)();
};

// The state of this thread's registers that scans need; it must live while they run.
class FrontSession {
 public:
  explicit FrontSession(FrontKernels const& kernels) : leave_(kernels.leave) { kernels.enter(); }
  ~FrontSession() { leave_(); }
  FrontSession(FrontSession const&) = delete;
  FrontSession& operator=(FrontSession const&) = delete;

 private:
  void (*leave_)();
};

FrontKernels scalar_front_kernels();
FrontKernels avx2_front_kernels();
FrontKernels avx512_front_kernels();
FrontKernels avx512vnni_front_kernels();
FrontKernels amx_front_kernels();

}  // namespace hyrecall::cpu
