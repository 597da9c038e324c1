// Sparse vectors on the emulated device, against a full sort of scores by their definition.
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::uint32_t kTerms = 40;  // more than a warp has lanes

// A row's or a query's weights, 0 of a term that it lacks.
using Weights = std::vector<float>;

struct SparseRows {
  std::vector<Weights> rows;
  std::vector<Seq> seqs;
  std::vector<std::uint64_t> live;  // empty: all live
  std::uint32_t first_slot = 0;
  // As a column has them.
  std::vector<std::uint32_t> term_runs{0}, pages, sizes;
  std::vector<std::uint64_t> begins;
  std::vector<std::uint16_t> of_page;
  std::vector<std::uint8_t> weights;

  void add_postings(bool is_half) {
    sizes.assign(rows.size(), 0);
    for (std::uint32_t term = 0; term < kTerms; ++term) {
      std::uint32_t page = kNone32;
      for (std::uint32_t row = 0; row < rows.size(); ++row) {
        float const weight = rows[row][term];
        if (weight == 0.0f) continue;
        if (row / kSparsePageRows != page) {
          page = row / kSparsePageRows;
          pages.push_back(page);
          begins.push_back(of_page.size());
        }
        of_page.push_back(static_cast<std::uint16_t>(row % kSparsePageRows));
        std::uint16_t const half = float16_bits(weight);
        auto const* const from = is_half ? reinterpret_cast<std::uint8_t const*>(&half)
                                         : reinterpret_cast<std::uint8_t const*>(&weight);
        weights.insert(weights.end(), from, from + (is_half ? 2 : 4));
        sizes[row] += 1;
      }
      term_runs.push_back(static_cast<std::uint32_t>(pages.size()));
    }
  }
};

// Halves of small numbers, so that both precisions hold them; scores often tie.
Weights random_weights(Rng& rng, std::uint32_t most_terms) {
  Weights out(kTerms, 0.0f);
  for (std::uint32_t n = rng.below(most_terms + 1); n > 0; --n)
    out[rng.below(kTerms)] = 0.5f * static_cast<float>(1 + rng.below(9));
  return out;
}

struct SparseCase {
  std::vector<std::uint32_t> sizes;
  bool is_half = false;
  std::uint32_t most_terms = 8;
  std::uint32_t most_asked = 40;
  SlotRanges scope{};     // empty: all
  bool is_paged = false;  // rows of the first page have even terms alone, the others odd ones
  std::string folder = HYRECALL_EMULATED_FOLDER;
};

void check_sparse(Rng& rng, SparseCase const& chosen) {
  std::vector<SparseRows> world;
  std::vector<std::shared_ptr<device::DeviceView const>> views;
  SlotRanges all;
  std::uint32_t slot = 0;
  Seq seq = 0;
  for (std::uint32_t const size : chosen.sizes) {
    SparseRows& own = world.emplace_back();
    own.first_slot = slot;
    for (std::uint32_t i = 0; i < size; ++i) {
      own.rows.push_back(random_weights(rng, chosen.most_terms));
      own.seqs.push_back(scattered_seq(++seq));
      for (std::uint32_t term = 0; term < kTerms && chosen.is_paged; ++term)
        if (term % 2 != i / kSparsePageRows) own.rows.back()[term] = 0.0f;
    }
    own.add_postings(chosen.is_half);
    own.live.assign(2 * ((size + kTileRows - 1) / kTileRows), ~std::uint64_t{0});
    for (std::uint32_t i = 0; i < size; ++i)
      if (rng.below(5) == 0) own.live[i / 64] &= ~(std::uint64_t{1} << i % 64);
    SparseArrays const arrays{own.pages,   own.begins, own.of_page,
                              own.weights, own.sizes,  chosen.is_half};
    device::ColumnArrays column{RowType::kFloat32, 0, nullptr, nullptr};
    column.sparse = &arrays;
    auto segment = std::make_shared<device::DeviceSegment>(
        chosen.folder, 0, own.seqs, std::span<AttributeArrays const>{}, std::span(&column, 1));
    views.push_back(std::make_shared<device::DeviceView>(std::move(segment), own.live));
    if (size > 0) all.push_back({slot, slot + size});
    slot += (size + kTileRows - 1) / kTileRows * kTileRows;
  }
  device::DeviceTable const table(std::move(views), 0, RowType::kFloat32, 0);
  WorldBatch batch;
  batch.see(chosen.scope.empty() ? all : chosen.scope);
  std::vector<Weights> queries;
  std::vector<std::uint32_t> of_segments{0};
  std::vector<SparseRuns> runs;
  for (int q = 0; q < 4; ++q) {
    Weights const& query = queries.emplace_back(random_weights(rng, chosen.most_asked));
    batch.ask(0, {}, rng.below(40u), rng.below(2) == 0 ? 6.0f : 0.0f, rng.below(2) == 0);
    for (SparseRows const& own : world) {
      for (std::uint32_t term = 0; term < kTerms; ++term)
        if (query[term] != 0.0f)
          runs.push_back({own.term_runs[term], own.term_runs[term + 1], query[term]});
      of_segments.push_back(static_cast<std::uint32_t>(runs.size()));
    }
  }
  std::vector<std::uint32_t> const begins(queries.size() + 1, 0);
  device::DenseSearch search = batch.search();
  search.vector_begins = begins;
  search.sparse = {of_segments, runs};
  Found const found = found_of(table, search);
  for (std::size_t q = 0; q < queries.size(); ++q) {
    std::vector<FoundRow> expected;
    for (SparseRows const& own : world) {
      for (std::uint32_t row = 0; row < own.rows.size(); ++row) {
        bool in_scope = false;
        for (SlotRange const& range : batch.scopes[0])
          in_scope |= range.begin <= own.first_slot + row && own.first_slot + row < range.end;
        if (!in_scope || (own.live[row / 64] >> row % 64 & 1) == 0) continue;
        double sum = 0.0;
        for (std::uint32_t term = 0; term < kTerms; ++term)
          sum = sparse_sum(sum, queries[q][term], own.rows[row][term]);
        auto const score = static_cast<float>(sum);
        float const floor = batch.floors[q];
        if (sum == 0.0 || (batch.strict[q] != 0 ? score <= floor : score < floor)) continue;
        expected.push_back({score, own.first_slot + row, own.seqs[row]});
      }
    }
    std::sort(expected.begin(), expected.end(), [](FoundRow const& a, FoundRow const& b) {
      return a.score != b.score ? a.score > b.score : a.seq < b.seq;
    });
    if (expected.size() > batch.depths[q]) expected.resize(batch.depths[q]);
    CHECK(same_rows(found.rows[q], expected));
  }
}

void check_every_kind(Rng& rng, std::string const& folder) {
  check_sparse(rng, {{200, 0, 130}, false, 8, 40, {}, false, folder});
  check_sparse(rng, {{300}, true, 3, 6, {}, false, folder});
  // The first rows of two pages, whose terms are others.
  std::uint32_t const page = kSparsePageRows;
  check_sparse(rng, {{page + 90}, false, 4, 40, {{0, 70}, {page - 130, page + 70}}, true, folder});
}

bool is_caught(char const* name) {
  std::string const folder = broken_folder(name);
  return status_of_child([&] {
           for (std::uint64_t seed = 0; seed < 4; ++seed) {
             SeedOf const order(seed, folder);
             Rng rng(seed);
             try {
               check_every_kind(rng, folder);
             } catch (std::exception const&) {
               return true;
             }
           }
           return false;
         }) != 0;
}

TEST(device_finds_sparse_rows_as_a_full_sort) {
  skip_under_thread_sanitizer();
  for (std::uint64_t seed = 0; seed < cases(4u); ++seed) {
    SeedOf const order(seed);
    Rng rng(7 + seed);
    check_every_kind(rng, HYRECALL_EMULATED_FOLDER);
  }
}

TEST(device_planted_bugs_in_sparse_rows_are_caught) {
  once_for_both_kernels();
  std::string missed;
  for (char const* name :
       {"mask_of_sparse_skipped", "postings_of_another_page", "last_row_of_a_tile_left_out",
        "next_term_too_early", "sums_of_the_tile_before"})
    if (!is_left_out(name) && !is_caught(name)) missed += std::string(" ") + name;
  CHECK_EQ(missed, "");
}

}  // namespace
}  // namespace hyrecall::testing
