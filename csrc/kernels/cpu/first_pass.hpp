// The first pass over the int8 plane (kernels/int8_bound.hpp), one copy per instruction set.
//
// The plane lies in blocks of 16 rows: line i of a block holds elements 4i .. 4i+3 of each row, a
// byte each, as code + 128. So one 64-byte load brings a step of 16 rows to a register of any kind,
// and 16 such lines are a tile of AMX. Rows are padded with code 0.
//
// A plane of 4 bits has two elements in a byte: line i holds elements 8i .. 8i+3 of each row in the
// low halves of its bytes, 8i+4 .. 8i+7 in the high ones, as (code + 15) / 2. Codes are the odd
// numbers from -15 to 15 (kernels/nibble_code.hpp), and kernels multiply them exactly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyrecall::cpu {

// Of the codes of a plane.
enum class CodeBits : std::uint8_t { k8, k4 };

inline constexpr std::size_t kInt8BlockRows = 16;
inline constexpr std::size_t kInt8Step = 4;        // elements of a row in a line
inline constexpr std::size_t kInt8LineBytes = 64;  // kInt8BlockRows x kInt8Step
// A kernel may read so far past a block (what it reads there counts for nothing).
inline constexpr std::size_t kInt8SlackBytes = 15 * kInt8LineBytes;
inline constexpr int kFirstPassBlocks = 2;  // blocks of one call at most
inline constexpr int kFirstPassMostQueries = 32;

constexpr std::size_t int8_steps(std::size_t dim) {
  return (dim + kInt8Step - 1) / kInt8Step;
}
constexpr std::size_t int8_block_bytes(std::size_t dim) {
  return int8_steps(dim) * kInt8LineBytes;
}
// Elements of a line's row.
constexpr std::size_t line_step(CodeBits bits) {
  return bits == CodeBits::k8 ? kInt8Step : 2 * kInt8Step;
}
constexpr std::size_t block_bytes(std::size_t dim, CodeBits bits) {
  return (dim + line_step(bits) - 1) / line_step(bits) * kInt8LineBytes;
}
// Blocks of a plane. It ends with some without rows, for what is read past the others.
constexpr std::size_t plane_blocks(std::size_t n_rows, std::size_t dim, CodeBits bits) {
  std::size_t const block = block_bytes(dim, bits);
  return (n_rows + kInt8BlockRows - 1) / kInt8BlockRows + (kInt8SlackBytes + block - 1) / block;
}

// One or two blocks that follow each other.
struct FirstPassRows {
  std::uint8_t const* codes;  // of the first block
  float const* scales;        // [n_blocks x 16]
  float const* residuals;     // [n_blocks x 16]; -inf: the row never passes
  int n_blocks;
};

// A panel of queries.
struct FirstPassQueries {
  std::uint8_t const* codes;  // as FirstPassKernels::pack left them
  // [FirstPassKernels::width] FirstPassKernels::offset times the sum of the query's codes: what the
  // offset of the rows' bytes costs. Sums of dots wrap, so they are right wherever the dot itself
  // fits. From n on anything.
  std::int32_t const* offsets;
  float const* scales;        // [n]
  float const* per_residual;  // [n] of QueryBound
  float const* cuts;          // [n] cut_for(threshold, bound)
  int n;                      // at most FirstPassKernels::width
};

// Bytes to prefetch while a block of rows is read: as many as the block has, or half as many where
// `slow` is 1, spread evenly over the reading.
struct FirstPassPrefetch {
  std::uint8_t const* lines = nullptr;  // null: nothing
  int slow = 0;
};

inline constexpr std::size_t kReachRows = kFirstPassBlocks * kInt8BlockRows;  // of a call at most

// What passes: reach(...) >= cut.
struct FirstPassSurvivors {
  std::uint32_t rows[kFirstPassMostQueries];  // bit i = row i of the call
  alignas(64) float reach[kFirstPassMostQueries][kReachRows];
};

struct FirstPassKernels {
  char const* name;
  int width;            // queries of a panel
  std::int32_t offset;  // -128 for codes of 8 bits, -15 for those of 4
  // Bytes of a packed panel of n queries, and the packing. codes[q]: dim codes.
  std::size_t (*panel_bytes)(int n, std::size_t dim);
  void (*pack)(std::int8_t const* const* codes, int n, std::size_t dim, std::uint8_t* panel);
  // Bit q of the reply: hits.rows[q] is not empty. hits.rows is set for all n queries, hits.reach
  // where bits are.
  std::uint32_t (*find_rows)(FirstPassRows const& rows, std::size_t dim,
                             FirstPassQueries const& queries, FirstPassPrefetch ahead,
                             FirstPassSurvivors& hits);
  // Null for codes of 4 bits. reach[q][row] of all n queries and rows, whatever the cuts.
  void (*reach_rows)(FirstPassRows const& rows, std::size_t dim, FirstPassQueries const& queries,
                     FirstPassPrefetch ahead, float (*reach)[kReachRows]);
  // most[q][i] = the greatest of what it was, and of reach[q][i] and reach[q][i + 16] where those
  // are of rows [begin, end). For n queries.
  void (*raise_most)(float const (*reach)[kReachRows], int n, std::size_t begin, std::size_t end,
                     float (*most)[kInt8BlockRows]);
  // greatest[q] = the greatest of most[q]. For n queries.
  void (*fold_most)(float const (*most)[kInt8BlockRows], int n, float* greatest);
  // rows[q] = bits of those rows [begin, end) with reach[q][row] >= cuts[q]. For n queries.
  void (*find_reaching)(float const (*reach)[kReachRows], int n, std::size_t begin, std::size_t end,
                        float const* cuts, std::uint32_t* rows);
  // Around the calls of find_rows() and reach_rows() in one thread: see FirstPassSession.
  void (*enter)();
  void (*leave)();
};

// The state of this thread's registers that these need; it must live while they run.
class FirstPassSession {
 public:
  explicit FirstPassSession(FirstPassKernels const& kernels) : leave_(kernels.leave) {
    kernels.enter();
  }
  ~FirstPassSession() { leave_(); }
  FirstPassSession(FirstPassSession const&) = delete;
  FirstPassSession& operator=(FirstPassSession const&) = delete;

 private:
  void (*leave_)();
};

FirstPassKernels scalar_first_pass_kernels();
FirstPassKernels avx2_first_pass_kernels();
FirstPassKernels avx512_first_pass_kernels();
FirstPassKernels avx512vnni_first_pass_kernels();
FirstPassKernels amx_first_pass_kernels();
FirstPassKernels neon_first_pass_kernels();
FirstPassKernels neondot_first_pass_kernels();

// Of planes of 4 bits.
FirstPassKernels scalar_nibble_pass_kernels();
FirstPassKernels avx2_nibble_pass_kernels();
FirstPassKernels avx512_nibble_pass_kernels();
FirstPassKernels avx512vnni_nibble_pass_kernels();
FirstPassKernels neon_nibble_pass_kernels();
FirstPassKernels neondot_nibble_pass_kernels();

}  // namespace hyrecall::cpu
