// The first pass of every instruction set against its definition: the same rows and the same reach,
// bit for bit.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/first_pass.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/int8_bound.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

using cpu::FirstPassKernels;
using cpu::FirstPassQueries;
using cpu::FirstPassRows;
using cpu::FirstPassSurvivors;

// Mistakes that kernels of this kind have made.
enum class Bug {
  kNone,
  kSaturates,
  kWraps,  // a row's four products have 16 bits together
  kDropsTail,
  kScaleOfFirstBlock,
  kStrict,
  kLeavesRows,  // of a query of which nothing passes, what stood there before
  kAllOrNone    // says of each query that rows pass where those of one do
};

std::int32_t product(std::uint8_t const* row, std::int8_t const* query, Bug bug) {
  std::int32_t sum = 0;
  if (bug == Bug::kWraps) {
    for (int j = 0; j < 4; ++j) sum += (row[j] - 128) * query[j];
    return static_cast<std::int16_t>(sum);
  }
  for (int pair = 0; pair < 4; pair += 2) {
    std::int32_t two = 0;
    std::int32_t offset = 0;
    for (int j = pair; j < pair + 2; ++j) {
      two += row[j] * query[j];
      offset += 128 * query[j];
    }
    // What maddubs does to unsigned bytes up to 255.
    if (bug == Bug::kSaturates) two = std::clamp(two, -32768, 32767);
    sum += two - offset;
  }
  return sum;
}

// The definition. The panel is [n][steps of 4] of codes.
template <Bug kBug>
std::uint32_t find_by_definition(FirstPassRows const& rows, std::size_t dim,
                                 FirstPassQueries const& queries, cpu::FirstPassPrefetch,
                                 FirstPassSurvivors& hits) {
  std::size_t const n_steps = cpu::int8_steps(dim);
  std::size_t const n_read = kBug == Bug::kDropsTail ? dim / 4 : n_steps;
  std::uint32_t any = 0;
  for (int q = 0; q < queries.n; ++q) {
    auto const* const codes = reinterpret_cast<std::int8_t const*>(queries.codes) +
                              static_cast<std::size_t>(q) * n_steps * 4;
    std::uint32_t passed = 0;
    for (int r = 0; r < rows.n_blocks * 16; ++r) {
      std::uint8_t const* const block =
          rows.codes + static_cast<std::size_t>(r / 16) * cpu::int8_block_bytes(dim);
      std::int32_t dot = 0;
      for (std::size_t step = 0; step < n_read; ++step)
        dot += product(block + step * 64 + r % 16 * 4, codes + step * 4, kBug);
      int const at = kBug == Bug::kScaleOfFirstBlock ? r % 16 : r;
      float const score = first_pass_score(dot, rows.scales[at], queries.scales[q]);
      hits.reach[q][r] = reach(score, rows.residuals[r], queries.per_residual[q]);
      bool const passes = kBug == Bug::kStrict ? hits.reach[q][r] > queries.cuts[q]
                                               : hits.reach[q][r] >= queries.cuts[q];
      passed |= static_cast<std::uint32_t>(passes) << r;
    }
    if (kBug != Bug::kLeavesRows || passed != 0) hits.rows[q] = passed;
    any |= static_cast<std::uint32_t>(passed != 0) << q;
  }
  return kBug == Bug::kAllOrNone && any != 0 ? ~0u >> (32 - queries.n) : any;
}

std::size_t plain_bytes(int n, std::size_t dim) {
  return static_cast<std::size_t>(n) * cpu::int8_steps(dim) * 4;
}

void plain_pack(std::int8_t const* const* codes, int n, std::size_t dim, std::uint8_t* panel) {
  std::memset(panel, 0, plain_bytes(n, dim));
  for (int q = 0; q < n; ++q)
    std::memcpy(panel + static_cast<std::size_t>(q) * cpu::int8_steps(dim) * 4, codes[q], dim);
}

template <Bug kBug>
void reach_by_definition(FirstPassRows const& rows, std::size_t dim,
                         FirstPassQueries const& queries, cpu::FirstPassPrefetch ahead,
                         float (*reach)[cpu::kReachRows]) {
  FirstPassSurvivors hits;
  find_by_definition<kBug>(rows, dim, queries, ahead, hits);
  std::memcpy(reach, hits.reach, static_cast<std::size_t>(queries.n) * sizeof *reach);
}

// What kernels of many vectors a row do to the most of a document; kNone: the definition.
enum class MostBug { kNone, kAllRows, kFirstBlock, kForgets, kFirstHalf, kStrict, kOneCut };

template <MostBug kBug>
void raise_by_definition(float const (*reach)[cpu::kReachRows], int n, std::size_t begin,
                         std::size_t end, float (*most)[cpu::kInt8BlockRows]) {
  if (kBug == MostBug::kAllRows) begin = 0;
  if (kBug == MostBug::kFirstBlock) end = std::min(end, cpu::kInt8BlockRows);
  for (int q = 0; q < n; ++q) {
    if (kBug == MostBug::kForgets) std::fill(most[q], most[q] + cpu::kInt8BlockRows, -1e9f);
    for (std::size_t r = begin; r < end; ++r)
      most[q][r % cpu::kInt8BlockRows] = std::max(most[q][r % cpu::kInt8BlockRows], reach[q][r]);
  }
}

template <MostBug kBug>
void fold_by_definition(float const (*most)[cpu::kInt8BlockRows], int n, float* greatest) {
  std::size_t const end = kBug == MostBug::kFirstHalf ? 8 : cpu::kInt8BlockRows;
  for (int q = 0; q < n; ++q) greatest[q] = *std::max_element(most[q], most[q] + end);
}

template <MostBug kBug>
void reaching_by_definition(float const (*reach)[cpu::kReachRows], int n, std::size_t begin,
                            std::size_t end, float const* cuts, std::uint32_t* rows) {
  if (kBug == MostBug::kAllRows) begin = 0;
  for (int q = 0; q < n; ++q) {
    rows[q] = 0;
    float const cut = cuts[kBug == MostBug::kOneCut ? 0 : q];
    for (std::size_t r = begin; r < end; ++r) {
      bool const is_in = kBug == MostBug::kStrict ? reach[q][r] > cut : reach[q][r] >= cut;
      rows[q] |= static_cast<std::uint32_t>(is_in) << r;
    }
  }
}

template <Bug kBug, MostBug kMostBug = MostBug::kNone>
FirstPassKernels definition() {
  return {"definition",
          cpu::kFirstPassMostQueries,
          -128,
          plain_bytes,
          plain_pack,
          find_by_definition<kBug>,
          reach_by_definition<kBug>,
          raise_by_definition<kMostBug>,
          fold_by_definition<kMostBug>,
          reaching_by_definition<kMostBug>,
          [] {},
          [] {}};
}

struct Case {
  std::size_t dim;
  int n_blocks;
  int n;
  enum class Codes { kAny, kExtreme, kLargest } codes;  // kExtreme: +-127 alone; kLargest: 127
};

bool agree(Rng& rng, FirstPassKernels const& kernels, Case const& c) {
  std::size_t const block_bytes = cpu::int8_block_bytes(c.dim);
  auto const code = [&] {
    if (c.codes == Case::Codes::kLargest) return static_cast<std::int8_t>(127);
    if (c.codes == Case::Codes::kExtreme)
      return static_cast<std::int8_t>(rng.below(2) == 0 ? 127 : -127);
    return static_cast<std::int8_t>(rng.below(255) - 127);
  };
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(c.n_blocks) * block_bytes +
                                 cpu::kInt8SlackBytes);
  for (std::uint8_t& byte : rows) byte = static_cast<std::uint8_t>(code() + 128);
  std::vector<float> scales(32);
  std::vector<float> residuals(32);
  for (std::size_t r = 0; r < 32; ++r) {
    scales[r] = static_cast<float>(1e-4 * (1.0 + rng.unit()));
    residuals[r] = rng.below(6) == 0 ? -std::numeric_limits<float>::infinity()
                                     : static_cast<float>(0.02 * rng.unit());
  }
  std::vector<std::int8_t> codes(static_cast<std::size_t>(c.n) * c.dim);
  for (std::int8_t& one : codes) one = code();
  std::vector<std::int8_t const*> pointers;
  std::vector<std::int32_t> offsets;
  std::vector<float> query_scales;
  std::vector<float> per_residual;
  std::vector<float> cuts;
  for (int q = 0; q < c.n; ++q) {
    std::int8_t const* const first = codes.data() + static_cast<std::size_t>(q) * c.dim;
    pointers.push_back(first);
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < c.dim; ++i) sum += first[i];
    offsets.push_back(static_cast<std::int32_t>(0u - 128u * static_cast<std::uint32_t>(sum)));
    query_scales.push_back(static_cast<float>(1e-3 * (1.0 + rng.unit())));
    per_residual.push_back(static_cast<float>(1.0 + 0.01 * rng.unit()));
    cuts.push_back(0.0f);
  }
  // Of what stands in a panel's places without a query nothing may show.
  offsets.resize(static_cast<std::size_t>(cpu::kFirstPassMostQueries), 1 << 30);
  FirstPassRows const block{rows.data(), scales.data(), residuals.data(), c.n_blocks};
  struct Reach {
    float of[cpu::kReachRows];
  };
  std::vector<Reach> reaches(static_cast<std::size_t>(cpu::kFirstPassMostQueries));
  auto const run = [&](FirstPassKernels const& chosen, FirstPassSurvivors& hits) {
    std::vector<std::uint8_t> panel(chosen.panel_bytes(c.n, c.dim));
    chosen.pack(pointers.data(), c.n, c.dim, panel.data());
    FirstPassQueries const queries{panel.data(),        offsets.data(), query_scales.data(),
                                   per_residual.data(), cuts.data(),    c.n};
    cpu::FirstPassSession const session(chosen);
    std::uint32_t const any = chosen.find_rows(block, c.dim, queries, {rows.data(), c.n % 2}, hits);
    chosen.reach_rows(block, c.dim, queries, {rows.data(), c.n % 2}, &reaches[0].of);
    return any;
  };
  FirstPassSurvivors expected{};
  run(definition<Bug::kNone>(), expected);
  // As a rule some rows pass; of every third query, and in every fourth case of all, none does.
  bool const is_without = rng.below(4) == 0;
  for (std::size_t q = 0; q < cuts.size(); ++q) {
    cuts[q] = is_without || rng.below(3) == 0 ? std::numeric_limits<float>::infinity()
                                              : expected.reach[q][rng.below(16)];
  }
  std::uint32_t const wanted = run(definition<Bug::kNone>(), expected);
  FirstPassSurvivors hits;
  std::memset(&hits, 0xff, sizeof hits);  // what is left over from a call before
  if (run(kernels, hits) != wanted) return false;
  for (int q = 0; q < c.n; ++q) {
    if (hits.rows[q] != expected.rows[q]) return false;
    for (int r = 0; r < 32; ++r) {
      bool const is_hit = (hits.rows[q] >> r & 1) != 0;
      if (is_hit && hits.reach[q][r] != expected.reach[q][r]) return false;
      bool const is_row = r < c.n_blocks * 16;
      if (is_row && reaches[static_cast<std::size_t>(q)].of[r] != expected.reach[q][r])
        return false;
    }
  }
  return true;
}

bool always_agree(FirstPassKernels const& kernels) {
  Rng rng(5);
  for (std::size_t dim : {1u, 3u, 4u, 5u, 16u, 31u, 60u, 63u, 64u, 65u, 100u, 257u, 768u}) {
    for (int round = 0; round < 12; ++round) {
      int const n = round == 0 ? 1 : round == 1 ? kernels.width : 1 + rng.below(kernels.width);
      auto const codes = round % 4 == 3 ? Case::Codes::kExtreme : Case::Codes::kAny;
      if (!agree(rng, kernels, {dim, 1 + round % 2, n, codes})) return false;
    }
  }
  // The largest dot that a plane allows; sums with the rows' offset in them wrap on the way.
  std::size_t const most = max_first_pass_dim(FirstPassPlane::kInt8);
  return agree(rng, kernels, {most, 1, 1, Case::Codes::kLargest}) &&
         agree(rng, kernels, {most, 2, std::min(kernels.width, 9), Case::Codes::kLargest});
}

// Documents of up to three calls' rows, each from anywhere to anywhere.
bool agree_on_most(FirstPassKernels const& kernels) {
  FirstPassKernels const right = definition<Bug::kNone>();
  Rng rng(11);
  for (int round = 0; round < 400; ++round) {
    int const n = 1 + rng.below(kernels.width);
    float most[2][cpu::kFirstPassMostQueries][cpu::kInt8BlockRows];
    for (auto& one : most)
      for (auto& query : one) std::fill(std::begin(query), std::end(query), -1e9f);
    for (int call = 0; call < 1 + round % 3; ++call) {
      float reach[cpu::kFirstPassMostQueries][cpu::kReachRows];
      for (auto& query : reach) {
        for (float& value : query)
          value = rng.below(6) == 0 ? -std::numeric_limits<float>::infinity()
                                    : static_cast<float>(2.0 * rng.unit() - 1.0);
      }
      auto const begin = static_cast<std::size_t>(rng.below(32));
      std::size_t const end =
          begin + 1 + static_cast<std::size_t>(rng.below(32 - static_cast<int>(begin)));
      kernels.raise_most(reach, n, begin, end, most[0]);
      right.raise_most(reach, n, begin, end, most[1]);
      float cuts[cpu::kFirstPassMostQueries];
      for (int q = 0; q < n; ++q) cuts[q] = reach[q][rng.below(32)];  // as a rule one is equal
      std::uint32_t rows[2][cpu::kFirstPassMostQueries];
      kernels.find_reaching(reach, n, begin, end, cuts, rows[0]);
      right.find_reaching(reach, n, begin, end, cuts, rows[1]);
      if (!std::equal(rows[0], rows[0] + n, rows[1])) return false;
    }
    if (std::memcmp(most[0], most[1], static_cast<std::size_t>(n) * sizeof most[0][0]) != 0)
      return false;
    float greatest[2][cpu::kFirstPassMostQueries];
    kernels.fold_most(most[0], n, greatest[0]);
    right.fold_most(most[1], n, greatest[1]);
    if (!std::equal(greatest[0], greatest[0] + n, greatest[1])) return false;
  }
  return true;
}

TEST(the_most_of_a_document_and_what_reaches_it_are_those_of_the_definition) {
  for (cpu::Kernels const& found : cpu::found_kernels()) {
    for (std::size_t const n_queries : {std::size_t{1}, found.many}) {
      FirstPassKernels const& kernels = found.first_pass_for(n_queries);
      if (!agree_on_most(kernels)) throw Failure(std::string("kernels differ: ") + kernels.name);
    }
  }
  CHECK(!agree_on_most(definition<Bug::kNone, MostBug::kAllRows>()));
  CHECK(!agree_on_most(definition<Bug::kNone, MostBug::kFirstBlock>()));
  CHECK(!agree_on_most(definition<Bug::kNone, MostBug::kForgets>()));
  CHECK(!agree_on_most(definition<Bug::kNone, MostBug::kFirstHalf>()));
  CHECK(!agree_on_most(definition<Bug::kNone, MostBug::kStrict>()));
  CHECK(!agree_on_most(definition<Bug::kNone, MostBug::kOneCut>()));
}

TEST(first_pass_kernels_of_every_instruction_set_equal_the_definition) {
  for (cpu::Kernels const& found : cpu::found_kernels()) {
    for (std::size_t const n_queries : {std::size_t{1}, found.many}) {
      FirstPassKernels const& kernels = found.first_pass_for(n_queries);
      if (!always_agree(kernels)) throw Failure(std::string("kernels differ: ") + kernels.name);
    }
  }
}

TEST(first_pass_kernels_with_planted_bugs_are_caught) {
  CHECK(always_agree(definition<Bug::kNone>()));
  CHECK(!always_agree(definition<Bug::kSaturates>()));
  CHECK(!always_agree(definition<Bug::kWraps>()));
  CHECK(!always_agree(definition<Bug::kDropsTail>()));
  CHECK(!always_agree(definition<Bug::kScaleOfFirstBlock>()));
  CHECK(!always_agree(definition<Bug::kStrict>()));
  CHECK(!always_agree(definition<Bug::kLeavesRows>()));
  CHECK(!always_agree(definition<Bug::kAllOrNone>()));
}

}  // namespace
}  // namespace hyrecall::testing
